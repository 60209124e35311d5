"""DICOM files for tests, made of an array."""

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage


def write_dicom(path, values, bits=12, **tags):
    """A grey image of unsigned values (frames, height, width) or (height, width); `tags` are further elements."""
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.file_meta.MediaStorageSOPClassUID = dataset.SOPClassUID = SecondaryCaptureImageStorage
    dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID = "1.2.3"
    dataset.Rows, dataset.Columns = values.shape[-2:]
    if values.ndim == 3:
        dataset.NumberOfFrames = len(values)
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation, dataset.PixelRepresentation = 1, "MONOCHROME2", 0
    dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = 8 if bits <= 8 else 16, bits, bits - 1
    dataset.PixelData = values.astype(np.uint8 if bits <= 8 else "<u2").tobytes()
    for name, value in tags.items():
        setattr(dataset, name, value)
    dataset.save_as(path, enforce_file_format=True)
    return path
