"""How the names of image files end."""

PLAIN = (".png", ".jpg", ".jpeg", ".bmp")  # what TensorFlow and OpenCV read as it is
CONVERTED = (".tif", ".tiff", ".dcm", ".dicom", ".ima", ".nii", ".nii.gz")  # what is converted first
SUFFIXES = (*PLAIN, *CONVERTED)
