"""The authors' AdaIN pair without its weights: files by place, borders that are reflected, pools that round up."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from models import adain_published, vgg
from models.weights import WeightsError
from tests.models.torch_files import pth, state_of


def arrays_of(model: tf.keras.Model, places: tuple[int, ...]) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    found = {}
    for place, layer in zip(places, [layer for layer in model.layers if layer.weights]):
        for part, variable in zip(("weight", "bias"), layer.weights):
            found[f"{place}.{part}"] = generator.normal(0, 0.03, variable.shape).astype(np.float32)
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adain")
    encoder = arrays_of(adain_published.build_encoder(), (0, 2, 5, 9, 12, 16, 19, 22, 25, 29))
    decoder = arrays_of(adain_published.build_decoder(), (1, 5, 8, 11, 14, 18, 21, 25, 28))
    np.savez(folder / "encoder.npz", **encoder)
    np.savez(folder / "decoder.npz", **decoder)
    return folder, encoder, decoder


def test_it_is_the_published_pair():
    encoder, decoder = adain_published.build_encoder(), adain_published.build_decoder()
    assert encoder.count_params() == vgg.build("relu4_1").count_params() + 12  # and the colours' 3 × 3 + 3
    sizes = [layer.kernel.shape[2:] for layer in decoder.layers if isinstance(layer, tf.keras.layers.Conv2D)]
    assert [tuple(size) for size in sizes] == [
        (512, 256), (256, 256), (256, 256), (256, 256), (256, 128), (128, 128), (128, 64), (64, 64), (64, 3),
    ]  # fmt: skip


def test_files_of_both_kinds(files):
    folder, encoder, decoder = files
    for name, arrays in (("encoder", encoder), ("decoder", decoder)):
        turned = {key: np.ascontiguousarray(a.transpose(3, 2, 0, 1)) if a.ndim == 4 else a for key, a in arrays.items()}
        more = {"35.weight": np.zeros((1, 1, 3, 3), np.float32)} if name == "encoder" else {}  # the whole VGG-19's
        (folder / f"{name}.pth").write_bytes(pth(state_of({**turned, **more})))
    plain = adain_published.load(folder / "encoder.npz", folder / "decoder.npz")
    turned_pair = adain_published.load(folder / "encoder.pth", folder / "decoder.pth")
    np.testing.assert_array_equal(plain.encoder.get_layer("conv4_1").kernel, encoder["29.weight"])
    np.testing.assert_array_equal(plain.decoder.get_layer("conv1_1").bias, decoder["28.bias"])
    for first, second in zip(plain.encoder.get_weights(), turned_pair.encoder.get_weights()):
        np.testing.assert_array_equal(first, second)
    assert plain.sha256 != turned_pair.sha256 and not plain.encoder.trainable_weights


def test_the_files_are_not_to_be_swapped(files):
    folder = files[0]
    with pytest.raises(WeightsError, match=r"decoder\.npz: not the weights of adain_encoder"):
        adain_published.load(folder / "decoder.npz", folder / "encoder.npz")
    with pytest.raises(WeightsError, match=r"none\.npz: no such file"):
        adain_published.load(folder / "none.npz", folder / "decoder.npz")


def test_a_plain_picture_stays_plain(files):
    """Zeros at the border would show in the outermost places."""
    folder = files[0]
    pair = adain_published.load(folder / "encoder.npz", folder / "decoder.npz")
    activations = pair.encoder(tf.fill((1, 32, 32, 3), 0.5)).numpy()
    np.testing.assert_allclose(activations, np.broadcast_to(activations[:, :1, :1], activations.shape), atol=1e-5)


def test_pools_round_up_and_pictures_are_in_range(files):
    folder = files[0]
    pair = adain_published.load(folder / "encoder.npz", folder / "decoder.npz")
    activations = pair.encoder(tf.random.stateless_uniform((1, 33, 40, 3), (0, 0)))
    assert activations.shape == (1, 5, 5, 512)
    decoded = pair.decoder(1e4 * activations).numpy()
    assert decoded.shape == (1, 40, 40, 3) and decoded.min() >= 0 and decoded.max() <= 1
    assert (decoded == 0).any() or (decoded == 1).any()  # it had something to clip


def test_a_frozen_copy_reflects_too(files):
    folder = files[0]
    encoder = adain_published.load(folder / "encoder.npz", folder / "decoder.npz").encoder
    images = tf.random.stateless_uniform((1, 32, 32, 3), (0, 1))
    copy = vgg.frozen(vgg.taps(encoder, ["relu1_1", "relu4_1"]))
    np.testing.assert_allclose(copy(images)[1], encoder(images), atol=1e-5)
    assert copy.weights == []
