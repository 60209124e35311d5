"""What a site may publish: anything else is named, and nothing is made of it."""

from __future__ import annotations

import json

import pytest

from tffapps.wire import description

GOOD = {
    "name": "north", "version": "1", "protocol": 2, "frameworks": {"tensorflow": "2"}, "classes": ["a", "b"],
    "images": {"train": {"a": 2, "b": 1}, "val": {"a": 0, "b": 0}, "test": {"a": 1, "b": 0}}, "masks": 4,
    "sizes": {"8x8": 4}, "formats": ["png"], "left_out": 0, "stand_in": False, "subjects": False, "fingerprint": "0f",
}  # fmt: skip
TRAIN = GOOD["images"]["train"]


def with_train(**counts) -> dict:
    return {**GOOD, "images": {**GOOD["images"], "train": {**TRAIN, **counts}}}


def test_a_description():
    assert description.read(json.dumps({**GOOD, "more": 1}).encode()) == {**GOOD, "more": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        *({**GOOD, field: None} for field in GOOD),
        {field: value for field, value in GOOD.items() if field != "sizes"},
        {**GOOD, "name": "a\nb"},
        {**GOOD, "name": 1000 * "n"},
        {**GOOD, "frameworks": ["tensorflow"]},
        {**GOOD, "classes": ["a", "a"]},
        {**GOOD, "images": {"train": TRAIN}},
        {**GOOD, "images": {**GOOD["images"], "other": TRAIN}},
        {**GOOD, "masks": 5},
        {**GOOD, "sizes": {"8x8": 5}},
        with_train(a=-1),
        with_train(a=True),
        with_train(a=1.5),
        with_train(a=10**8),
        with_train(a=999_999),
        with_train(c=1),
        [GOOD],
        "north",
    ],
    ids=lambda wrong: json.dumps(wrong)[-40:],
)
def test_what_is_none(wrong):
    with pytest.raises(ValueError, match=r".{6,80}"):
        description.read(json.dumps(wrong).encode())


@pytest.mark.parametrize("content", [b"", b"\xff", b"[" * 10**5, b'{"name": NaN}', bytes(2**24 + 1)])
def test_what_is_no_json(content):
    with pytest.raises(ValueError, match=r".{6,80}"):
        description.read(content)
