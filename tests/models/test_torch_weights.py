"""PyTorch's and safetensors' files with torchvision's names: the same weights in every form."""

from __future__ import annotations

import base64
import re
import zlib

import numpy as np
import pytest
import tensorflow as tf

from models import torchvision_names, vgg
from models.classifiers import base_of, build
from models.weight_files import opened_state
from models.weights import load, save_npz
from tests.models.torch_files import ARRAYS, Entry, pth, safetensors, shuffled, small, state_of, torch_names

# {"w": tensor([[1., 2., 3.], [4., 5., 6.]]).t(), "n": tensor(7)} as PyTorch 2.13 saved it, and {"p": Parameter of
# bfloat16 [1.5, -2]} under "state_dict", both deflated: neither reader nor writer is ours.
WRITTEN_BY_TORCH = {
    "plain.pth": (
        "c-o~@&ui0A9Dhl=G-k8ys<0o2ojhbPyZq>n&7mDZa*1G_2*XRr(%1&GWG{VfQ4j{=U>CuQcoMJv1$q$#FJ8TP@+KnULGUl|y=3i@"
        "ly*OS^zmr>{rt%HeLrdFOa=gs10$;diogu4w$rm$n<g?#dk<Yr&4K%gwNF2RK-i`*pbsev`4~|$y2x=myb;(tUB_)2$o4vZVDw}j"
        "(t@y^#l;<5X|`<0L=awceG}b{e&k^$BoyJ)HiJ)VuM1h7MKF6u2RftE2awY#ojHIP4lT=fUE4yA?{)awLDLTG=1s>!Jmi<R;533W"
        "TkvAY=D}PWtG5S=w|uWP6wHSu5-hY?okDOH3oS1nwh2cO!Ao24a<|mbv)tbg&)MI&lI+IV*3IGO4O&-v;0L=VGJ1B<!6r3zCecBO"
        "u)h2A?J3cxCbBMq+A-@<{|wW0THdbhAx%|MS97XWEfWLvKKw;v33{S|Sx_Gu*m;C(pR`+3H_oFwSgwPRYZDL8u76)(u?joULk`?X"
        "Oy#Pmsn`C)008@SOuLCcc<<x=2JerX#L<->>kISv&-oJ^tt1^unkt;yQTB+1=<R*|=@S8NqFx?s4E2UXRXcAB6rL!5dEL5q^8GIX"
        "`FH@sNA1{wgD3E@N%ChnO-(JG(TG^7N|Lx%k(H{nUag50dA%&kWkr%JVtGv|%ZeyhWJw_|KQsNe0`?(<E-7Mm=rbP7!ie+qdn}EP"
        "2XHQd+@Qd?D5pu{AzDn3yoi&GBsa|y55jDMr$~d*0H)#bsm&$eFKLj<P8u7Zz$8{+QdlXCjn7a%fqfOjj_F<eYL}AFoB<~cT|;Nt"
        "mBENISBFS0bxzaK`93p<92=(Z6B~Vx-o8_8gyF*asP-RX&4@b"
    ),
    "checkpoint.pth": (
        "c-o~@%Wl&^6rI?K9Sr1ADphpRb&w#99Xm;>Ad-d5!VA&>Qs~BV?IE#n;*32B52+FoM1aIM@Cz*2_76~5uwvH*V#O~o6Nl7xNPzZA"
        "*2wlf_nf(N?zD6^4L~*v7NP*wfazO3XAHM(6PxAX6IWAnU_TZwnL`9h9f1G>Y+`8Gj)hU`5HTHEv+vm>7nX;JwXjEum5mX0+(0mV"
        "crbEY+ZdX@*@qbV0!lAQ!Eg|GzA=^rlqr=u{FKV`%`QY-2oY4x^-L_*?uXw6#CK98t%9;0maNurgf8d|M#7#BbY_As>Zu93^v<$8"
        "*M$~#yg?w`^KIxu`wr1Bpv%|VD2GwLjS6pj^riR)t+mmWppzl>;Lx*rXkBMV<(AH8KfPan4JaRZT1)%60e0v8EI;=AzKM-7^aDb!"
        "sr5u#|2f2|fS=!9&G=Uc*aY=c0kaMort5SEeK^3HT0M(~noI>WpQ0ZOp<q@DD1zo(z`=72J=$?i-978xX}Au?E~FYJw@$8dgoRtF"
        "AqQ^9T)kb<)SKrJaMT1xl%3z(KOvMLy^=j2>A?K#&$a)mK-rH!bRYh`|64#hHNbT90rVZ>fEOkm0mHF1wfvuAM5Qh@#GM^Q6dQ_M"
        "ldBb}R#B>=To)x-Q7W=nks6JvLRCKcD19#x9i^$t6cszy8J(fRg7V}&w1AEbz(x$&N`Yllmn;%B@n)>ZakR+7<Rt4vjaZD;X)|DP"
        "0Fv;ilX5ZmR|X`!o5V(akdI*>upsHYBsh9JTQTsL2>8#&Y3Uqy{kP578*?O|SU;!2^;vp$JUTc1b(ag@!y7Eag&2OCALjl7ig|!N"
    ),
}


@pytest.fixture(scope="module")
def sources() -> dict[str, tf.keras.Model]:
    models = {name: build(name, input_shape=(32, 32, 3), classes=3) for name in ("resnet18", "densenet121")}
    for model in models.values():
        shuffled(model)
    return models


def in_every_form(model: tf.keras.Model, tmp_path) -> list:
    arrays = torch_names(model)
    (tmp_path / "a.pth").write_bytes(pth(state_of(arrays)))
    (tmp_path / "b.safetensors").write_bytes(safetensors(arrays))
    keras_order = {name: a.transpose(2, 3, 1, 0) if a.ndim == 4 else a for name, a in arrays.items()}
    np.savez(tmp_path / "c.npz", **keras_order)
    return [tmp_path / name for name in ("a.pth", "b.safetensors", "c.npz")]


@pytest.mark.parametrize("name", ["resnet18", pytest.param("densenet121", marks=pytest.mark.slow)])
def test_the_same_weights_in_every_form(name, sources, tmp_path):
    source, model = sources[name], build(name, input_shape=(32, 32, 3), classes=3, seed=4)
    head = model.get_weights()[-2]
    for path in in_every_form(source, tmp_path):
        used = load(model, name, str(path), seed=4)
        assert (used.part, used.names, used.label) == ("backbone", "torchvision", f"file:{path.name}")
        for ours, theirs in zip(base_of(model).get_weights(), base_of(source).get_weights()):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(model.get_weights()[-2], head)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnet18", ["conv1.weight", "bn1.running_var", "layer1.1.conv2.weight", "layer4.0.downsample.1.bias"]),
        (
            "densenet121",
            [
                "features.conv0.weight", "features.norm0.bias", "features.denseblock4.denselayer16.norm2.running_mean",
                "features.denseblock1.denselayer6.conv2.weight", "features.transition3.conv.weight",
                "features.norm5.weight",
            ],
        ),
    ],
)  # fmt: skip
def test_names_are_torchvisions(name, expected, sources):
    names = [found for found, _ in torchvision_names._backbone(sources[name])]
    assert set(expected) < set(names) and len(set(names)) == len(names)
    # as many tensors as torchvision's networks have, without the last layer and the counters
    assert len(names) == {"resnet18": 100, "densenet121": 604}[name]


def test_vgg_is_found_by_its_places():
    names = [name for name, _ in torchvision_names._backbone(vgg.build("relu5_4", width=1))]
    places = [0, 2, 5, 7, 10, 12, 14, 16, 19, 21, 23, 25, 28, 30, 32, 34]
    assert names == [f"features.{place}.{part}" for place in places for part in ("weight", "bias")]


def test_old_names_of_densenets(sources, tmp_path):
    arrays = torch_names(sources["densenet121"])
    old = {re.sub(r"(denselayer\d+\.(?:norm|conv))(\d\.)", r"\1.\2", name): array for name, array in arrays.items()}
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    (tmp_path / "old.pth").write_bytes(pth(state_of(old)))
    model = build("densenet121", input_shape=(32, 32, 3), classes=3)
    load(model, "densenet121", str(tmp_path / "old.pth"), seed=0)
    np.testing.assert_array_equal(model.get_weights()[7], sources["densenet121"].get_weights()[7])


def test_a_head_of_as_many_classes_is_taken(sources, tmp_path):
    arrays = torch_names(sources["resnet18"])
    matrix = np.arange(3 * 512, dtype=np.float32).reshape(3, 512)
    arrays.update({"fc.weight": matrix, "fc.bias": np.array([1, 2, 3], np.float32)})
    (tmp_path / "whole.pth").write_bytes(pth(state_of(arrays)))
    model = build("resnet18", input_shape=(32, 32, 3), classes=3)
    assert load(model, "resnet18", str(tmp_path / "whole.pth"), seed=0).part == "model"
    np.testing.assert_array_equal(model.get_weights()[-2], matrix.T)
    other = build("resnet18", input_shape=(32, 32, 3), classes=5)
    assert load(other, "resnet18", str(tmp_path / "whole.pth"), seed=0).part == "backbone"


def test_vgg_with_torchvisions_names_has_torchvisions_preprocessing(tmp_path):
    source, model = small(), vgg.build("relu1_2", width=4)
    (tmp_path / "v.pth").write_bytes(pth(state_of(torch_names(source))))
    vgg.load(model, str(tmp_path / "v.pth"))
    colour = tf.constant([0.485, 0.456 + 0.224, 0.406 - 0.225])[None, None, None]
    for network in (model, vgg.frozen(model)):
        np.testing.assert_allclose(network.get_layer("preprocess")(colour)[0, 0, 0], [0, 1, -1], atol=1e-5)
    save_npz(source, tmp_path / "own.npz")
    vgg.load(model, str(tmp_path / "own.npz"))
    np.testing.assert_allclose(model.get_layer("preprocess")(colour)[0, 0, 0, 2], 0.485 * 255 - 123.68, atol=1e-4)


@pytest.mark.parametrize("kind", ["float16", "float64", "bfloat16"])
def test_other_precisions(kind, tmp_path):
    source, model = small(), vgg.build("relu1_2", width=4)
    entries = state_of(torch_names(source))
    for name, array in torch_names(source).items():
        if kind == "bfloat16":
            upper = (np.ascontiguousarray(array).view(np.uint32) >> 16).astype("<u2")
            entries[name] = Entry.of(array, storage="torch BFloat16Storage", data=upper.tobytes())
        else:
            entries[name] = Entry.of(array.astype(kind))
    (tmp_path / "v.pth").write_bytes(pth(entries))
    vgg.load(model, str(tmp_path / "v.pth"))
    tolerance = {"float16": 1e-3, "float64": 0, "bfloat16": 1e-2}[kind]
    for ours, theirs in zip(model.get_weights(), source.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance)


def test_tensors_that_share_a_storage(tmp_path):
    flat = np.concatenate([array.ravel() for array in ARRAYS.values()])
    entries, place = {}, 0
    for name, array in ARRAYS.items():
        entries[name] = Entry.of(array, key="0", offset=place, size=flat.size, data=b"" if place else flat.tobytes())
        place += array.size
    assert_loads(tmp_path / "v.pth", pth(entries))


def test_a_tensor_that_lies_transposed(tmp_path):
    name, kernel = next(iter(ARRAYS.items()))  # out × in × height × width, kept as in × out × …
    entries = state_of(ARRAYS)
    entries[name] = Entry.of(kernel, data=kernel.transpose(1, 0, 2, 3).tobytes(), strides=(9, 36, 3, 1))
    assert_loads(tmp_path / "v.pth", pth(entries))


def assert_loads(path, contents: bytes) -> None:
    path.write_bytes(contents)
    model = vgg.build("relu1_2", width=4)
    vgg.load(model, str(path))
    for ours, theirs in zip(model.get_weights(), small().get_weights()):
        np.testing.assert_array_equal(ours, theirs)


def test_what_pytorch_itself_wrote(tmp_path):
    for name, text in WRITTEN_BY_TORCH.items():
        (tmp_path / name).write_bytes(zlib.decompress(base64.b85decode(text)))
    with opened_state(tmp_path / "plain.pth") as state:
        assert state.torch_order and set(state.arrays) == {"w", "n"} and state.arrays["n"].dtype == "int64"
        np.testing.assert_array_equal(state.arrays["w"].read(), [[1, 4], [2, 5], [3, 6]])
        assert state.arrays["n"].read() == 7
    with opened_state(tmp_path / "checkpoint.pth") as state:
        np.testing.assert_array_equal(state.arrays["p"].read(), [1.5, -2])
