"""Headers that NumPy itself stumbles over are refused like other damage."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from preprocessing import npz
from preprocessing.errors import Rejected


def write(path, **members):
    with zipfile.ZipFile(path, "w") as file:
        for name, header in members.items():
            text = header.encode("latin1")
            file.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"\0" * 8)


def refused(path, line, read):
    with pytest.raises(Rejected) as error, npz.opened(path, 10**6, Rejected, "a test") as archive:
        read(archive)
    assert str(error.value).startswith(f"{path}: {line}") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<i8', 'fortran_order': False, 'shape': (1,",
        "(" * 3000,
        "-" * 5000 + "1",
        "'''",
        "{'descr': '<i8'}",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }" + " " * 20000,
        "{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,), }",
        "__import__('os').abort()",
    ],
    ids=["cut", "nested", "deep", "open", "keys", "long", "type", "code"],
)
def test_broken_headers(header, tmp_path):
    write(tmp_path / "a.npz", x=header)
    refused(tmp_path / "a.npz", "damaged, or not an .npz: ", lambda archive: archive.array("x", np.int64, (1,)))


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", None),
        ("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }", "x claims the shape (-1,)"),
        ("{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999999999,), }", "x claims the shape (9999999"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", "x is float64 (1,), expected int64 (None,)"),
        ("{'descr': '>i8', 'fortran_order': False, 'shape': (1,), }", "x is >i8 (1,), expected int64 (None,)"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "x is pickled objects (1,), expected int64"),
        ("{'descr': '<i8', 'fortran_order': False, 'shape': (1, 1), }", "x is int64 (1, 1), expected int64 (None,)"),
    ],
    ids=["good", "negative", "huge", "double", "big-endian", "pickle", "dimensions"],
)
def test_headers_that_say_something_else(header, line, tmp_path):
    write(tmp_path / "a.npz", x=header)
    if line is None:
        with npz.opened(tmp_path / "a.npz", 10**6, Rejected, "a test") as archive:
            assert archive.array("x", np.int64, (None,)).tolist() == [0]
    else:
        refused(tmp_path / "a.npz", line, lambda archive: archive.array("x", np.int64, (None,)))


def test_names_in_short(tmp_path):
    np.savez(tmp_path / "a.npz", **{f"number{n}": np.zeros(1) for n in range(99)})
    refused(tmp_path / "a.npz", "wrong names: 'number0.npy', ", lambda archive: archive.check_names(["x"], "one"))


def test_an_encrypted_or_unknown_kind_of_member(tmp_path):
    write(tmp_path / "a.npz", x="{}")
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[data.index(b"PK\x01\x02") + 10] = 77  # a method of compression that there is not
    (tmp_path / "a.npz").write_bytes(data)
    refused(tmp_path / "a.npz", "damaged, or not an .npz: ", lambda archive: archive.array("x", np.int64, (1,)))


def test_texts(tmp_path):
    np.savez(tmp_path / "a.npz", x=npz.as_text("grün"), empty=npz.as_text(""), long=npz.as_text("x" * 201))
    with npz.opened(tmp_path / "a.npz", 10**6, Rejected, "a test") as archive:
        assert archive.text("x") == "grün" and archive.text("empty") == ""
    refused(tmp_path / "a.npz", "long is <U201 (), expected a short text", lambda archive: archive.text("long"))
    assert npz.is_line("a b") and not npz.is_line("a\nb") and not npz.is_line("x" * 201)
