"""A network of the user's own: built, made repeatable, and refused in one line where it does not fit."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
import tensorflow as tf

from models import own
from models.assembled import assemble
from models.dropout import ImageDropout, SeedOfImages
from models.embedding import embedding_size
from models.initialise import seed_weights
from models.names import is_own
from models.stages import segments, stages_of
from models.weights import WeightsError, save_npz

SHAPE = (16, 16, 3)
IMAGES = np.random.default_rng(0).random((4, *SHAPE), dtype=np.float32)
BODY = """
import tensorflow as tf
layers, kinds = tf.keras.layers, tf.keras

def network(shape, classes):
    images = layers.Input(shape)
    x = layers.Conv2D(4, 3, strides=2, padding="same", name="first")(images)
    base = tf.keras.Sequential([layers.Conv2D(4, 3, padding="same"), layers.BatchNormalization(), layers.ReLU()])
    x = layers.Add(name="second")([x, base(x)])
    x = {middle}
    x = layers.GlobalAveragePooling2D()(x)
    return tf.keras.Model(images, {end}(x))
"""
END = 'layers.Dense(classes, activation="softmax")'
PLAIN = BODY.format(middle="x", end=END)
_numbers = itertools.count()


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Writes a module of the user's; gives the name of a network in it."""
    monkeypatch.syspath_prepend(tmp_path)
    written = []

    def write(middle: str = "x", end: str = END, more: str = "", text: str = "") -> str:
        name = f"users_own_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text((text or BODY.format(middle=middle, end=end)) + more)
        written.append(name)
        return f"{name}:network"

    yield write
    for name in written:
        sys.modules.pop(name, None)


def test_names():
    assert is_own("a:b") and is_own("package.module:function")
    for name in ("tiny", "a.b", ":f", "a:", "a:b:c", "../a:b", "a b:c", "1a:b", "a..b:c", "a:b\n"):
        assert not is_own(name)


def test_it_is_built_flat_and_seeded(made):
    model = own.build(made(), input_shape=SHAPE, classes=3)
    assert model.name == "own_network" and not any(isinstance(layer, tf.keras.Model) for layer in model.layers)
    first = model.get_weights()
    seed_weights(model, 1)
    assert np.abs(model.get_weights()[0] - first[0]).max() > 0.01
    seed_weights(model, 0)
    assert all((one == other).all() for one, other in zip(model.get_weights(), first))
    assert embedding_size(model) == 4
    assert stages_of(model) == ("second",)  # the addition goes round what is before it
    (below, above) = segments(model, stages_of(model))
    np.testing.assert_allclose(above(below(IMAGES)), model(IMAGES), atol=1e-6)


def test_its_file_is_its_identity(made, tmp_path):
    first, second, third = made(), made(), made(more="# changed\n")
    assert own.identity(first) == own.identity(second) != own.identity(third)


def test_dropout_can_be_repeated(made):
    """The masks follow from the images: the same in another model and process, others for another batch or layer."""
    drops = 'layers.Dropout(0.5, name="two")(layers.SpatialDropout2D(0.5, name="one")(x))'
    model = own.build(made(drops), input_shape=SHAPE, classes=3)
    assert sum(isinstance(layer, ImageDropout) for layer in model.layers) == 2
    again = own.build(made(drops), input_shape=SHAPE, classes=3)
    trained, plain = model(IMAGES, training=True), model(IMAGES, training=False)
    np.testing.assert_array_equal(trained, again(IMAGES, training=True))
    assert np.abs(trained - plain).max() > 1e-3
    assert embedding_size(
        own.build(made(end=f"(lambda y: {END}(layers.Dropout(0.5)(y)))"), input_shape=SHAPE, classes=3)
    )


def test_masks():
    seed = SeedOfImages()
    assert int(seed(IMAGES)) != int(seed(IMAGES[::-1].copy())) != int(seed(IMAGES[:2]))
    whole = np.ones((8, 6, 6, 50), np.float32)
    kept = ImageDropout(0.25, (1, 2), 0)([whole, seed(IMAGES)], training=True).numpy()
    np.testing.assert_allclose(np.unique(kept), [0, 1 / 0.75], rtol=1e-6)
    assert 0.15 < (kept == 0).mean() < 0.35
    assert (kept == kept[:, :1, :1]).all()  # whole channels
    other = ImageDropout(0.25, (1, 2), 1)([whole, seed(IMAGES)], training=True).numpy()
    assert (kept != other).any()


def test_cuts_are_those_it_names(made):
    name = made(more='network.stages = ("first", "second")\n')
    assert own.stages_of(name) == ("first", "second")
    options = {"input_shape": SHAPE, "classes": 3, "head": "own", "may_be_own": True}
    parts = assemble(name, cut="second", **options)
    np.testing.assert_allclose(parts.above(parts.base(IMAGES)), parts.whole(IMAGES), atol=1e-6)
    assert not parts.base.trainable_weights and len(parts.above.weights) == 2
    with pytest.raises(ValueError, match="it names the stage third, and its model has no layer of that name"):
        assemble(name, cut="third", **options)
    dropped = made("layers.Dropout(0.5)(x)", more='network.stages = ("first",)\n')
    with pytest.raises(ValueError, match="with dropout it cannot be cut"):
        assemble(dropped, cut="first", **options)
    with pytest.raises(ValueError, match="its stages must be a tuple"):
        own.stages_of(made(more="network.stages = 3\n"))


def test_weights(made, tmp_path):
    name = made()
    options = {"input_shape": SHAPE, "classes": 3, "head": "own", "may_be_own": True}
    one, other = assemble(name, **options), assemble(name, **options)
    assert one.load("random", 3).kind == "random"
    save_npz(one.whole, tmp_path / "mine.npz")
    assert other.load(str(tmp_path / "mine.npz"), 0).part == "model"
    np.testing.assert_array_equal(other.whole(IMAGES), one.whole(IMAGES))
    with pytest.raises(WeightsError, match="has no ImageNet weights; choose --weights random"):
        one.load("imagenet", 0)
    with pytest.raises(WeightsError, match="arrays; own_network has"):
        np.savez(tmp_path / "few.npz", **{"0000": np.zeros(3, np.float32)})
        one.load(str(tmp_path / "few.npz"), 0)


def test_only_who_may_runs_code(made):
    with pytest.raises(ValueError, match="unknown; choose one of"):
        assemble(made(), input_shape=SHAPE, classes=3, head="gap")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text": "import no_such_module_at_all\n"}, "cannot be imported .ModuleNotFoundError: No module named"),
        ({"text": "1 / 0\n"}, "cannot be imported .ZeroDivisionError: division by zero"),
        ({"text": "other = 1\n"}, "has no function network"),
        ({"text": "def network(shape, classes):\n    return None\n"}, "it returns NoneType and not a Keras model"),
        ({"text": "def network(shape):\n    return None\n"}, "failed for input_shape=.16, 16, 3., classes=3 .Type"),
        ({"text": PLAIN.replace("Input(shape)", "Input((8, 8, 3))")}, "takes .batch, 8, 8, 3."),
        ({"end": 'layers.Dense(classes + 1, activation="softmax")'}, "gives .batch, 4. and not .batch, 3."),
        ({"end": "layers.Dense(classes)"}, "outputs are no probabilities .they add up to .*softmax"),
        ({"middle": "layers.GaussianNoise(0.1)(x)"}, "draws random numbers .*RandomStandardNormal"),
        ({"middle": 'layers.RandomFlip()(x)'}, "its variable .* is |draws random numbers|is no layer's"),
        ({"text": "import tensorflow as tf\nclass M(tf.keras.Model):\n    pass\ndef network(shape, classes):\n"
          "    return M()\n"}, "not a functional one"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_in_one_line(made, change, words):
    with pytest.raises(ValueError, match=words) as raised:
        own.build(made(**change), input_shape=SHAPE, classes=3)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 500


def test_what_is_not_there():
    with pytest.raises(ValueError, match="no module no_such_package is found; set PYTHONPATH to its folder"):
        own.build("no_such_package.networks:f", input_shape=SHAPE, classes=3)
