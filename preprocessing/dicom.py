"""DICOM files as grey or RGB arrays, as a viewer shows them.

Grey: the modality's rescaling or table, then the file's first window or VOI table; without one, 8-bit values as they
are stored and others from the lowest to the highest (but padding). MONOCHROME1 is inverted, so that air is dark. Colour
(RGB, YBR, palettes) becomes RGB. Overlays are not drawn. Values of more than 8 bits fill 16.

Whatever is in a file may be wrong on purpose, and much of it is about a person: messages are in words of our own and
quote nothing of it.
"""

from __future__ import annotations

import functools
import logging
import warnings
from typing import Any, BinaryIO

import numpy as np

from preprocessing import budget, headers
from preprocessing.errors import Rejected
from preprocessing.header import Header, stretched, to_levels

_ASKED = (
    "Rows", "Columns", "NumberOfFrames", "SamplesPerPixel", "BitsAllocated", "PatientID", "IssuerOfPatientID",
    "BurnedInAnnotation",
)  # fmt: skip
_SHOWN_BY = (
    "RescaleSlope", "RescaleIntercept", "ModalityLUTSequence", "WindowCenter", "WindowWidth", "VOILUTFunction",
    "VOILUTSequence", "PixelRepresentation", "BitsStored", "BitsAllocated",
)  # fmt: skip
_OF_FRAMES = ("PixelValueTransformationSequence", "FrameVOILUTSequence")
_COMPRESSED = "install pylibjpeg, pylibjpeg-libjpeg and pylibjpeg-openjpeg, or save it uncompressed"
_UNUSABLE = "damaged or not an image of a kind that can be read"


def header(file: BinaryIO) -> Header:
    """What a file says of its image, and who it is of. Raises `Rejected`."""
    pydicom = _pydicom()
    try:
        uid = _transfer_syntax(file)
        tags = [pydicom.tag.Tag(name) for name in _ASKED]
        dataset = _read(file, specific_tags=tags, stop_before_pixels=True)
        width, height = int(dataset.Columns), int(dataset.Rows)
        frames, samples = int(dataset.get("NumberOfFrames") or 1), int(dataset.get("SamplesPerPixel") or 1)
        bits = int(dataset.get("BitsAllocated") or 16)
        owner = [str(dataset.get(name) or "").strip() for name in ("PatientID", "IssuerOfPatientID")]
        burned_in = str(dataset.get("BurnedInAnnotation") or "").strip().upper() == "YES"
    except Rejected:
        raise
    except AttributeError:
        raise Rejected("a DICOM file without an image: it gives no rows and columns") from None
    except Exception:  # the parser stumbles over damage in as many ways as there are
        raise Rejected(f"DICOM: {_UNUSABLE}") from None
    if width < 1 or height < 1 or frames < 1 or samples not in (1, 3) or not 1 <= bits <= 64:
        raise Rejected("DICOM: no size, or neither grey nor colour")
    budget.check_pixels(width, height)
    _check_decoder(uid)
    return Header(headers.DICOM, width, height, frames, "\0".join(owner) if owner[0] else "", burned_in)


def pixels(file: BinaryIO, at: float) -> np.ndarray:
    """The image, uint8 or uint16 (height, width) or (height, width, 3); of several frames the one at this share."""
    found = header(file)
    try:
        return _shown(_read(file), found, min(int(at * found.slices), found.slices - 1))
    except Rejected:
        raise
    except Exception:  # damaged, truncated, or tables that do not fit the values
        raise Rejected(f"DICOM: {_UNUSABLE}") from None


@functools.cache
def _pydicom() -> Any:
    """Imported when it is needed, and silent: its warnings quote values."""
    try:
        import pydicom
        import pydicom.pixels
    except ImportError:
        raise Rejected("a DICOM file: install pydicom to read it") from None
    warnings.filterwarnings("ignore", module="pydicom")
    logging.getLogger("pydicom").setLevel(logging.CRITICAL + 1)
    pydicom.config.settings.reading_validation_mode = pydicom.config.IGNORE
    return pydicom


def _read(file: BinaryIO, **options: Any) -> Any:
    file.seek(0)
    return _pydicom().dcmread(file, **options)


def _transfer_syntax(file: BinaryIO) -> Any:
    """How the pixels are stored. A deflated file would be inflated whole before any of it could be looked at."""
    from pydicom.filereader import read_dataset
    from pydicom.uid import DeflatedExplicitVRLittleEndian

    file.seek(132)
    meta = read_dataset(file, False, True, stop_when=lambda tag, vr, length: tag.group != 2)
    uid = meta.get("TransferSyntaxUID")
    if uid == DeflatedExplicitVRLittleEndian:
        raise Rejected("DICOM: deflated as a whole; save it in another transfer syntax")
    if not uid:
        raise Rejected("DICOM: it does not say how its pixels are stored (transfer syntax); save it again")
    return uid


def _check_decoder(uid: Any) -> None:
    from pydicom.pixels import get_decoder

    try:
        ready = get_decoder(uid).is_available
    except NotImplementedError:
        raise Rejected("DICOM: stored as video or in another way that cannot be read; save it uncompressed") from None
    if not ready:
        raise Rejected(f"DICOM: compressed as {uid.name}; {_COMPRESSED}")


def _shown(dataset: Any, found: Header, frame: int) -> np.ndarray:
    from pydicom.pixels import apply_color_lut, apply_modality_lut, pixel_array

    if not any(name in dataset for name in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        raise Rejected("a DICOM file without an image: it has no pixel data")
    if dataset.file_meta.TransferSyntaxUID.is_encapsulated:
        _check_stream(dataset, found, frame)
    stored = pixel_array(dataset, index=frame)
    kind = str(dataset.get("PhotometricInterpretation", "")).strip()
    if kind == "PALETTE COLOR":
        stored = apply_color_lut(stored, dataset)[..., :3]
        return stored if stored.dtype == np.uint8 else stored.astype(np.uint16)
    if stored.ndim == 3:
        return stored if stored.dtype == np.uint8 else to_levels(stored / (2 ** int(dataset.BitsStored) - 1))
    tags = _tags(dataset, frame)
    values = apply_modality_lut(stored, tags)
    share = _windowed(values, tags)
    bits = int(dataset.get("BitsStored") or 16)
    if share is None and bits <= 8 and stored.dtype == np.uint8:
        share = stored / (2**bits - 1)
    if share is None:
        share = stretched(values, ~_padding(stored, dataset))
    if kind == "MONOCHROME1":
        share = 1 - share
    return to_levels(share, np.uint8 if bits <= 8 else np.uint16)


def _check_stream(dataset: Any, found: Header, frame: int) -> None:
    """The compressed frame has a size of its own, which its decoder believes: it has to be the file's."""
    from pydicom.encaps import get_frame
    from pydicom.uid import RLELossless

    stream = get_frame(dataset.PixelData, frame, number_of_frames=found.slices)
    if dataset.file_meta.TransferSyntaxUID == RLELossless:
        samples = int(dataset.SamplesPerPixel) * int(dataset.BitsAllocated) // 8
        wrong = len(stream) > 64 + 2 * samples * (found.width * found.height + 1024)  # more than it can ever take
    else:
        wrong = headers.size_of(stream) != (found.width, found.height)
    if wrong:
        raise Rejected("DICOM: its compressed pixels are not of the size that it gives")


def _tags(dataset: Any, frame: int) -> Any:
    """What says how values are shown: the file's, or in files of many frames that of the frame."""
    tags = _pydicom().Dataset()
    for name in _SHOWN_BY:
        if name in dataset:
            tags[name] = dataset[name]
    for groups, place in (("SharedFunctionalGroupsSequence", 0), ("PerFrameFunctionalGroupsSequence", frame)):
        for name in _OF_FRAMES if groups in dataset else ():
            group = dataset[groups].value[place]
            if group.get(name):
                tags.update(group[name].value[0])
    return tags


def _windowed(values: np.ndarray, tags: Any) -> np.ndarray | None:
    """From 0 to 1 by the first table or window (DICOM PS3.3, C.11.2); None where there is none that is sound."""
    from pydicom.pixels import apply_voi

    if tags.get("VOILUTSequence"):
        top = 2 ** int(tags.VOILUTSequence[0].LUTDescriptor[2]) - 1
        return apply_voi(np.rint(values).astype(np.int64), tags) / top
    centre, width = (_first(tags.get(name)) for name in ("WindowCenter", "WindowWidth"))
    function = str(tags.get("VOILUTFunction") or "LINEAR").strip().upper()
    if centre is None or width is None or width < (1 if function == "LINEAR" else 1e-6):
        return None
    values = values.astype(np.float64)
    if function == "SIGMOID":
        return 1 / (1 + np.exp(np.clip(-4 * (values - centre) / width, -700, 700)))
    if function == "LINEAR_EXACT":
        return (values - centre) / width + 0.5
    if width == 1:
        return (values > centre - 0.5).astype(np.float64)
    return (values - (centre - 0.5)) / (width - 1) + 0.5


def _first(value: Any) -> float | None:
    """Of one or several numbers."""
    if value is None or value == "":
        return None
    number = float(value[0] if hasattr(value, "__getitem__") and not isinstance(value, str) else value)
    return number if np.isfinite(number) else None


def _padding(stored: np.ndarray, dataset: Any) -> np.ndarray:
    """Where nothing was measured."""
    if dataset.get("PixelPaddingValue") is None:
        return np.zeros(stored.shape, bool)
    ends = [int(dataset.PixelPaddingValue), int(dataset.get("PixelPaddingRangeLimit", dataset.PixelPaddingValue))]
    return (stored >= min(ends)) & (stored <= max(ends))
