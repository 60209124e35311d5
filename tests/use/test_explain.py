"""Heat maps have their peak where the evidence is: known, because the network looks for one thing in one place."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import tensorflow as tf

from models.assembled import assemble
from models.flattened import flattened
from tffapps.__main__ import main
from tffapps.use import EXPLANATIONS, gradcam, occlusion
from tffapps.use.explain import explain

SIDE, SQUARE = 48, 10
CORNERS = [(4, 6), (30, 8), (20, 33)]  # of the bright square, one an image
layers = tf.keras.layers


def images(channels: int = 3) -> np.ndarray:
    """Dim noise with a red square that decides the class, and a larger blue one that does not."""
    found = np.random.default_rng(0).uniform(0, 0.15, (len(CORNERS), SIDE, SIDE, channels)).astype(np.float32)
    for image, (top, left) in zip(found, CORNERS):
        image[-top - 14 : SIDE - top, -left - 14 : SIDE - left, -1] = 1.0
        image[top : top + SQUARE, left : left + SQUARE] = 0
        image[top : top + SQUARE, left : left + SQUARE, 0] = 1.0
    return found


def backbone() -> tf.keras.Model:
    """Red and blue, each smoothed and halved twice."""
    entry = x = layers.Input((SIDE, SIDE, 3))
    for number in (1, 2):
        x = layers.Conv2D(2, 3, strides=2, padding="same", activation="relu", name=f"conv{number}")(x)
    base = tf.keras.Model(entry, x, name="base")
    kernels = [np.zeros((3, 3, channels, 2), np.float32) for channels in (3, 2)]
    kernels[0][:, :, 0, 0] = kernels[0][:, :, 2, 1] = kernels[1][:, :, 0, 0] = kernels[1][:, :, 1, 1] = 1 / 9
    base.set_weights([kernels[0], np.zeros(2), kernels[1], np.zeros(2)])
    return base


def detector(end: str = "dense", nested: bool = False) -> tf.keras.Model:
    """Class 1 is decided by red, class 2 by blue."""
    base = backbone()
    entry = layers.Input((SIDE, SIDE, 3))
    x = base(entry, training=False) if nested else entry
    if not nested:
        for layer in base.layers[1:]:
            x = layer(x)
    x = layers.GlobalAveragePooling2D()(x)
    if end == "dense":
        x = layers.Dense(3, activation="softmax", name="classifier")(x)
    else:
        x = layers.Dense(3, name="classifier")(x)
        x = layers.Softmax()(x) if end == "softmax" else layers.Activation(end)(x)
    model = tf.keras.Model(entry, x, name="detector")
    model.get_layer("classifier").set_weights([np.array([[0, 200, 0], [0, 0, 200]], np.float32), np.zeros(3)])
    return model


def inside(heat: np.ndarray, corner: tuple[int, int], margin: int = 3) -> bool:
    row, column = np.unravel_index(heat.argmax(), heat.shape)
    top, left = corner
    return top - margin <= row < top + SQUARE + margin and left - margin <= column < left + SQUARE + margin


@pytest.mark.parametrize("method", EXPLANATIONS)
@pytest.mark.parametrize("nested", [False, True])
def test_the_peak_is_where_the_evidence_is(method, nested):
    given = images()
    model = detector(nested=nested)
    for index, corners in ((1, CORNERS), (2, None)):
        heat = explain(model, given, [index] * 3, method)
        assert heat.shape == (3, SIDE, SIDE) and heat.dtype == np.float32
        np.testing.assert_allclose(heat.max(axis=(1, 2)), 1, atol=1e-6)
        assert heat.min() >= 0
        assert [inside(each, corner) for each, corner in zip(heat, CORNERS)] == [corners is not None] * 3


@pytest.mark.parametrize("end", ["softmax", "sigmoid"])
def test_other_ends(end):
    heat = explain(detector(end), images() * 0.2, [1] * 3, "gradcam")
    assert all(inside(each, corner) for each, corner in zip(heat, CORNERS))


def test_by_hand():
    """One channel, one place: the map is its activation times the mean gradient, which is the weight over places."""
    entry = layers.Input((2, 2, 1))
    doubled = layers.Rescaling(2.0, name="doubled")(entry)
    output = layers.Dense(2, activation="softmax", use_bias=False)(layers.GlobalAveragePooling2D()(doubled))
    model = tf.keras.Model(entry, output)
    model.set_weights([np.array([[3.0, -1.0]])])
    image = np.array([[[0.1], [0.2]], [[0.3], [0.4]]], np.float32)[None]
    found = gradcam.heat_maps(model, image, [0], layer="doubled")
    np.testing.assert_allclose(found[0], 2 * image[0, :, :, 0] * 3 / 4, rtol=1e-6)
    assert not gradcam.heat_maps(model, image, [1], layer="doubled").any()  # it speaks against class 1
    np.testing.assert_array_equal(explain(model, image, [1], "gradcam"), np.zeros((1, 2, 2)))


def test_occlusion_by_hand():
    """The probability is the brightness of one pixel: covering it takes that away, and nothing else does."""
    entry = layers.Input((4, 4, 1))
    corner = layers.Cropping2D(((1, 2), (2, 1)))(entry)
    model = tf.keras.Model(entry, layers.Flatten()(layers.Concatenate()([corner, corner])))
    image = np.zeros((1, 4, 4, 1), np.float32)
    image[0, 1, 2] = 0.8
    found = occlusion.heat_maps(model, image, [0], patch=1, stride=1, batch=5)
    expected = np.zeros((4, 4))
    expected[1, 2] = 0.8 - 0.8 / 16
    np.testing.assert_allclose(found[0], expected, atol=1e-6)


def test_batches_change_nothing():
    given, model = images(), detector()
    np.testing.assert_allclose(
        gradcam.heat_maps(model, given, [1, 2, 1], batch=2), gradcam.heat_maps(model, given, [1, 2, 1]), atol=1e-6
    )
    assert gradcam.heat_maps(model, given[:0], []).shape == (0, SIDE, SIDE)
    assert explain(model, given[:0], [], "occlusion").shape == (0, SIDE, SIDE)


@pytest.mark.parametrize("cut, head", [("all", "gap"), ("block2_pool", "conv"), ("block1_pool", "flatten256")])
def test_the_projects_own_networks(cut, head):
    whole = assemble("tiny", input_shape=(SIDE, SIDE, 3), classes=3, head=head, cut=cut).whole
    heat = explain(whole, images(), [0, 1, 2], "gradcam")
    assert heat.shape == (3, SIDE, SIDE) and np.isfinite(heat).all()


def test_a_model_inside_a_model_is_written_out():
    entry = layers.Input((8, 8, 3))
    inner = tf.keras.Sequential([layers.Conv2D(4, 3), layers.BatchNormalization(momentum=0.0)])
    middle = tf.keras.Sequential([layers.Input((8, 8, 3)), inner, layers.ReLU()])
    x = middle(entry, training=False) * 2.0  # an operator is a layer with arguments of its own
    model = tf.keras.Model(entry, layers.Dense(2, activation="softmax")(layers.Flatten()(x)))
    flat = flattened(model)
    assert not any(isinstance(layer, tf.keras.Model) for layer in flat.layers)
    assert {id(variable) for variable in flat.weights} == {id(variable) for variable in model.weights}
    given = np.random.default_rng(0).random((2, 8, 8, 3), dtype=np.float32)
    # Equal also in training: BatchNorm was told to stay in inference mode.
    np.testing.assert_allclose(flat(given, training=True), model(given, training=True), atol=1e-6)
    assert flattened(flat) is flat


@pytest.mark.parametrize(
    "wrong, said",
    [
        (lambda: explain(detector(), images(), [1] * 3, "lime"), "lime: unknown; choose one of gradcam, occlusion"),
        (lambda: explain(detector(), images(), [1, 1, 3], "gradcam"), "the model has 3 classes"),
        (lambda: explain(detector(), images(), [1], "gradcam"), "1 classes for 3 images"),
        (lambda: explain(backbone(), images(), [1] * 3, "gradcam"), "not one probability a class"),
        (lambda: gradcam.heat_maps(detector(), images(), [1] * 3, layer="classifier"), "no feature map"),
    ],
)
def test_what_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        wrong()


def test_predict_draws_sheets(kept_bundle, pictures, tmp_path, capsys):
    out = tmp_path / "out.csv"
    (tmp_path / "broken.png").write_bytes(b"\x89PNG")
    given = [*pictures[:2], str(tmp_path / "broken.png")]
    assert main(["predict", str(kept_bundle), *given, "-o", str(out), "--explain", "occlusion"]) == 1  # one is broken
    assert f"sheets: {tmp_path / 'out-occlusion.png'}" in capsys.readouterr().err
    assert cv2.imread(str(tmp_path / "out-occlusion.png")) is not None
    assert main(["predict", str(kept_bundle), "x.svs", "--slides", "--explain", "gradcam"]) == 2
    assert "--explain: not with --slides" in capsys.readouterr().err
