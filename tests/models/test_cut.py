"""Cut networks: the parts are the whole, training above the cut is training the whole with the lower part frozen."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from models import cut
from models.classifiers import base_of, build
from models.embedding import with_embedding
from models.initialise import seed_weights
from models.names import CUTS, NAMES, NORMS, check_cut, cuts_of
from models.norms import GroupNorm, groups_of
from models.stages import segments, stages_of
from models.weights import WeightsError, load, save_npz

RNG = np.random.default_rng(0)
LARGE = RNG.random((12, 64, 64, 3), dtype=np.float32)
IMAGES = LARGE[:6, :32, :32]
LABELS = RNG.integers(0, 3, 12)
LARGER = ("densenet169", "densenet201")  # built as densenet121 is, in many more seconds


def network(name: str = "tiny", side: int = 32, **options) -> tf.keras.Model:
    return build(name, input_shape=(side, side, 3), classes=3, **options)


def disturbed(model: tf.keras.Model) -> None:
    """BatchNorm with scales and shifts of its own, and the statistics of a batch: else deep activations run away."""
    generator = np.random.default_rng(1)
    norms = [layer for layer in model.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.gamma.assign(generator.uniform(0.8, 1.2, norm.gamma.shape))
        norm.beta.assign(generator.normal(0, 0.1, norm.beta.shape))
        norm.momentum = 0.0
    model(np.random.default_rng(2).random((16, *model.input_shape[1:]), dtype=np.float32), training=True)
    for norm, momentum in zip(norms, usual):
        norm.momentum = momentum


def trained(model: tf.keras.Model, inputs: np.ndarray, steps: int = 4) -> None:
    """Batches of four, plain gradient steps, in training mode."""
    for step in range(steps):
        places = [(4 * step + place) % 12 for place in range(4)]
        with tf.GradientTape() as tape:
            outputs = model(inputs[places], training=True)
            loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(LABELS[places], outputs))
        variables = model.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(0.01 * gradient)


def gap(first: list[np.ndarray], second: list[np.ndarray]) -> float:
    """The largest difference, of values that are all finite."""
    assert len(first) == len(second) > 0
    assert all(np.isfinite(array).all() for array in (*first, *second))
    return max(float(np.abs(a - b).max()) for a, b in zip(first, second))


def test_every_network_has_cuts():
    assert set(CUTS) == set(NAMES)
    assert cuts_of("resnet18") == ("head", "layer3", "layer2", "layer1", "all")
    assert "block_12_add" in cuts_of("mobilenetv2") and "pool4_pool" in cuts_of("densenet169")
    with pytest.raises(ValueError, match="cut layer9: resnet18 has none of that name; choose one of head, layer3"):
        check_cut("resnet18", "layer9")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LARGER])
def test_the_parts_are_the_whole(name):
    model = network(name)
    disturbed(model)
    expected = model(IMAGES).numpy()
    for stage in cuts_of(name)[:-1]:
        base, rest = cut.split(model, stage)
        assert base is not None
        np.testing.assert_allclose(rest(base(IMAGES)), expected, atol=1e-6)
        assert [id(v) for v in base.weights + rest.weights] == [id(v) for v in model.weights]
        assert not base.trainable_weights and rest.input_names == ["cut_input"]
    assert len(base.weights) < len(rest.weights)  # the last one was the first place of all
    assert (
        base_of(model).output_shape == cut.split(model, "head")[0].output_shape
    )  # nothing of the model itself has changed
    np.testing.assert_array_equal(model(IMAGES), expected)


def test_no_cut_is_the_model_itself():
    model = network()
    base, rest = cut.split(model, "all")
    assert base is None and rest is model and len(model.trainable_weights) == len(network().trainable_weights)


FROZEN = [
    *(("tiny", "block1_pool", norm) for norm in NORMS),
    ("mobilenetv2", "block_12_add", NORMS[0]),
    *(pytest.param("mobilenetv2", "block_12_add", norm, marks=pytest.mark.slow) for norm in NORMS[1:]),
    *(pytest.param("resnet18", "layer3", norm, marks=pytest.mark.slow) for norm in NORMS),
]


@pytest.mark.parametrize(("name", "stage", "norm"), FROZEN)
def test_training_above_the_cut_is_training_with_the_lower_part_frozen(name, stage, norm):
    whole, parted = network(name, 64, seed=3), network(name, 64, seed=3)
    for model in (whole, parted):
        disturbed(model)
    whole, parted = cut.normalised(whole, stage, norm), cut.normalised(parted, stage, norm)
    cut.split(whole, stage)  # freezes
    base, rest = cut.split(parted, stage)
    assert base is not None
    before, below = parted.get_weights(), len(base.weights)
    activations = base(LARGE, training=False).numpy()  # stored once, float32
    trained(whole, LARGE)
    trained(rest, activations)
    for model in (whole, parted):
        assert gap(model.get_weights()[:below], before[:below]) == 0
        assert 1e-3 < gap(model.get_weights()[below:], before[below:]) < 10  # it learned, and did not run away
    assert gap(whole.get_weights()[below:], parted.get_weights()[below:]) < 1e-5


def test_a_lower_part_in_training_mode_would_be_something_else():
    """The equality above can fail: with the statistics of each batch below the cut it does."""
    whole, parted = network(side=64, seed=3), network(side=64, seed=3)
    for model in (whole, parted):
        disturbed(model)
    base, rest = cut.split(parted, "block1_pool")
    assert base is not None
    np.testing.assert_array_equal(base(LARGE, training=True), base(LARGE, training=False))
    trained(whole, LARGE)  # nothing of it is frozen
    trained(rest, base(LARGE).numpy())
    below = len(base.weights)
    assert gap(whole.get_weights()[below:], parted.get_weights()[below:]) > 1e-3


def test_a_place_that_is_passed_by_is_refused(monkeypatch):
    monkeypatch.setitem(CUTS["resnet18"], "inside", "stage2_block1_1_relu")  # the shortcut goes round it
    with pytest.raises(ValueError, match="model resnet18: more than one tensor crosses the cut"):
        cut.split(network("resnet18"), "inside")


@pytest.mark.parametrize(("function", "words"), [
    (lambda model: cut.split(model, "block7"), "cut block7: tiny has none of that name; choose one of head, block2"),
    (lambda model: cut.headed(model, "all"), "cut all: a head needs a feature map"),
    (lambda model: cut.headed(model, "head", "mlp"), "head mlp: unknown"),
    (lambda model: cut.normalised(model, "head", "layer"), "norm layer: unknown; choose one of batch, group, frozen"),
    (lambda model: cut.split(cut.headed(model, "block1_pool"), "block2_pool"), "can be cut at head or all only"),
])  # fmt: skip
def test_bad_arguments_are_named(function, words):
    with pytest.raises(ValueError, match=words):
        function(network())


def test_a_head_on_a_middle_layer():
    model = network(seed=1)
    short = cut.headed(model, "block1_pool", seed=5)
    base, rest = cut.split(short, "head")
    assert base is not None and base.output_shape == (None, 16, 16, 8)
    assert [v.name.split(":")[0] for v in rest.weights if "kernel" in v.name] == [
        "head_conv1/kernel", "head_conv2/kernel", "classifier/kernel",
    ]  # fmt: skip
    np.testing.assert_allclose(rest(base(IMAGES)), short(IMAGES), atol=1e-6)
    embedding, probabilities = with_embedding(short)(IMAGES)
    assert embedding.shape == (6, 128) and probabilities.shape == (6, 3)
    small = cut.split(cut.headed(model, "block1_pool", "conv64", seed=5), "head")[1]
    kernels = [tuple(v.shape) for v in small.weights if "kernel" in v.name]
    assert kernels == [(1, 1, 8, 64), (3, 3, 64, 64), (64, 3)]
    assert small.get_layer("head_conv2").output_shape == (None, 8, 8, 64)  # every other place


def test_a_head_is_of_its_seed_and_the_base_of_the_model(tmp_path):
    model = network(seed=1)
    first, same, other = (cut.headed(model, "block1_pool", seed=seed) for seed in (5, 5, 6))
    below = len(base_of(first).weights)
    for a, b in zip(first.get_weights()[below:], same.get_weights()[below:]):
        np.testing.assert_array_equal(a, b)
    assert any((a != c).any() for a, c in zip(first.get_weights(), other.get_weights()))
    source = network(seed=9)
    save_npz(source, tmp_path / "w.npz")
    load(model, "tiny", str(tmp_path / "w.npz"), seed=0)  # after the head was made
    np.testing.assert_array_equal(first.get_weights()[0], source.get_weights()[0])
    seed_weights(cut.split(first, "head")[1], 6)
    for a, c in zip(first.get_weights()[below:], other.get_weights()[below:]):
        np.testing.assert_array_equal(a, c)


def test_the_convolutional_head_learns_from_a_file_and_leaves_others_their_own(tmp_path):
    conv, gap = network(head="conv", seed=2), network(seed=3)
    save_npz(conv, tmp_path / "conv.npz")
    save_npz(gap, tmp_path / "gap.npz")
    assert load(network(head="conv"), "tiny", str(tmp_path / "conv.npz"), seed=0).part == "model"
    assert load(network(), "tiny", str(tmp_path / "conv.npz"), seed=0).part == "backbone"
    assert load(network(head="conv"), "tiny", str(tmp_path / "gap.npz"), seed=0).part == "backbone"
    arrays = [*base_of(gap).get_weights(), np.zeros((3, 3, 32, 128), np.float32)]  # no head has such a kernel
    np.savez(tmp_path / "more.npz", **{f"{place:04d}": array for place, array in enumerate(arrays)})
    with pytest.raises(WeightsError, match="1 arrays more than its backbone's"):
        load(network(), "tiny", str(tmp_path / "more.npz"), seed=0)


def test_group_normalisation_by_hand():
    norm = tf.keras.layers.BatchNormalization(epsilon=0.0)
    norm.build((None, 1, 2, 4))
    rows = [[1, 1, 2, 2], [0, 0, 0, 5], [9, 9, 9, 9], [7, 7, 7, 7]]  # scale, shift, and statistics that must not matter
    norm.set_weights([np.array(row, np.float32) for row in rows])
    x = tf.constant([[[[1.0, 3.0, 0.0, 2.0], [1.0, 3.0, 0.0, 2.0]]]])  # groups (1, 3, 1, 3) and (0, 2, 0, 2)
    layer = GroupNorm(norm)
    assert layer.groups == 2
    np.testing.assert_allclose(layer(x)[0, 0, 0], [-1, 1, -2, 2 + 5])
    assert [id(v) for v in layer.trainable_weights] == [id(norm.gamma), id(norm.beta)]
    assert [groups_of(channels) for channels in (1, 2, 8, 96, 144, 160, 1280)] == [1, 1, 4, 32, 24, 32, 32]


def test_an_image_does_not_depend_on_its_batch_under_group():
    model = cut.normalised(network(), "block1_pool", "group")
    cut.split(model, "block1_pool")
    together, alone = model(IMAGES, training=True), model(IMAGES[:1], training=True)
    np.testing.assert_allclose(together[:1], alone, atol=1e-5)
    plain = network()
    cut.split(plain, "block1_pool")
    assert np.abs(plain(IMAGES, training=True)[:1] - plain(IMAGES[:1], training=True)).max() > 1e-3


def test_what_each_normalisation_leaves_to_train_and_to_average():
    def names(norm: str, model: tf.keras.Model) -> tuple[set[str], set[str]]:
        rest = cut.split(cut.normalised(model, "block1_pool", norm), "block1_pool")[1]
        trainable = {v.name.split(":")[0] for v in rest.trainable_weights}
        return trainable, {v.name.split(":")[0] for v in rest.weights} - trainable

    trainable, others = names("batch", network())
    assert "block2_bn/gamma" in trainable and "block2_bn/moving_mean" in others
    trainable, others = names("group", network())
    assert "block2_bn/gamma" in trainable and not others  # no statistics at all
    trainable, others = names("frozen", network(head="conv"))
    assert {"block2_bn/gamma", "block2_bn/moving_mean"} < others and "block2_conv/kernel" in trainable
    assert "head_norm1/gamma" in trainable and not any(name.startswith("head_norm1") for name in others)


def test_a_model_with_another_normalisation_is_cut_by_its_own_graph():
    """Its layers belong to the old model too, whose BatchNorm must not come back."""
    model = network()
    disturbed(model)
    grouped = cut.normalised(model, "all", "group")
    assert grouped.name == model.name and np.abs(grouped(IMAGES) - model(IMAGES)).max() > 1e-3
    base, head = cut.split(grouped, "head")
    np.testing.assert_allclose(head(base(IMAGES)), grouped(IMAGES), atol=1e-6)
    x = IMAGES
    for part in segments(grouped, stages_of(grouped)):
        x = part(x)
    np.testing.assert_allclose(x, grouped(IMAGES), atol=1e-6)
    below, above = cut.split(grouped, "block2_pool")
    assert below is not None
    np.testing.assert_allclose(above(below(IMAGES)), grouped(IMAGES), atol=1e-6)
