"""How the names of image files end."""

PLAIN = (".png", ".jpg", ".jpeg", ".bmp")  # what TensorFlow and OpenCV read as it is
CONVERTED = (".tif", ".tiff", ".dcm", ".dicom", ".ima", ".nii", ".nii.gz")  # what is converted first
SUFFIXES = (*PLAIN, *CONVERTED)


def stem(name: str) -> str:
    """A file's name without its end."""
    return next((name[: -len(end)] for end in sorted(SUFFIXES, key=len)[::-1] if name.lower().endswith(end)), name)
