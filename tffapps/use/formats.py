"""Files of a network for other programs, each written and played back: what is compared is what the file says.

    keras        Keras's own .keras file
    savedmodel   a folder for TensorFlow, TensorFlow Serving and what reads those
    tflite       for phones and small boards
    onnx         for ONNX Runtime and most other programs; needs requirements-export.txt

All take float32 pixels 0 … 255 (n, height, width, channels) and give probabilities; tflite one image at a time.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tffapps.errors import UserError

Answers = Callable[[np.ndarray], np.ndarray]
_OPSET = 17  # of ONNX: what programs of 2022 and later read
_EXTRA = ("tf2onnx", "onnx", "onnxruntime")


class Format(NamedTuple):
    write: Callable[[tf.keras.Model, Path], None]
    read: Callable[[Path], Answers]  # what the file itself answers to pixels


def check_installed(name: str) -> None:
    """That what a format needs is here."""
    missing = [package for package in _EXTRA if importlib.util.find_spec(package) is None]
    if name == "onnx" and missing:
        raise UserError(
            f"--to onnx: {', '.join(missing)} not installed; pip install --no-deps -r requirements-export.txt"
        )


def _write_keras(model: tf.keras.Model, path: Path) -> None:
    model.save(path, save_format="keras")


def _read_keras(path: Path) -> Answers:
    # Under safe mode no code in the file is run.
    return _of_model(tf.keras.models.load_model(path, compile=False, safe_mode=True))


def _write_savedmodel(model: tf.keras.Model, path: Path) -> None:
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # it lists what it has written
        model.export(str(path))


def _read_savedmodel(path: Path) -> Answers:
    loaded = tf.saved_model.load(str(path))
    return lambda pixels: loaded.serve(tf.constant(pixels)).numpy()


def _of_model(model: tf.keras.Model) -> Answers:
    return lambda pixels: model(pixels, training=False).numpy()


def _write_tflite(model: tf.keras.Model, path: Path) -> None:
    # One image at a time: not every operation of it lets the number be another than when it was written.
    spec = tf.TensorSpec((1, *model.input_shape[1:]), tf.float32, name="pixels")
    one = tf.function(lambda pixels: model(pixels, training=False)).get_concrete_function(spec)
    path.write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([one], model).convert())


def _read_tflite(path: Path) -> Answers:
    interpreter = tf.lite.Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    given, got = (
        details[0]["index"] for details in (interpreter.get_input_details(), interpreter.get_output_details())
    )

    def answer(image: np.ndarray) -> np.ndarray:
        interpreter.set_tensor(given, image[None])
        interpreter.invoke()
        return interpreter.get_tensor(got)[0]

    return lambda pixels: np.stack([answer(image) for image in pixels])


def _write_onnx(model: tf.keras.Model, path: Path) -> None:
    import tf2onnx

    signature = [tf.TensorSpec(model.input_shape, tf.float32, name="pixels")]
    tf2onnx.convert.from_keras(model, input_signature=signature, opset=_OPSET, output_path=str(path))


def _read_onnx(path: Path) -> Answers:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda pixels: session.run(None, {name: pixels})[0]


FORMATS = {
    "keras": Format(_write_keras, _read_keras),
    "savedmodel": Format(_write_savedmodel, _read_savedmodel),
    "tflite": Format(_write_tflite, _read_tflite),
    "onnx": Format(_write_onnx, _read_onnx),
}
