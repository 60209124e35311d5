"""What profiles promise: the same names everywhere, and tables of the small network in a folder of their own."""

import pathlib

import pytest

from preprocessing.style_settings import settings_for
from tests.applications import working_in
from tffapps import cli, systems

APPS = {app.name: app for app in systems.every()}


@pytest.mark.parametrize("name", APPS)
def test_every_system_has_the_same_profiles(name):
    assert list(APPS[name].profiles) == ["smoke", "small", "demo", "paper"]


@pytest.mark.parametrize(
    ("profile", "folder"), [("small", "out/small/fnst"), ("demo", "out/fnst"), ("smoke", "out/fnst")]
)
def test_the_small_network_never_replaces_tables_of_a_real_one(profile, folder):
    flags = cli.parse(APPS["fnst"], ["--profile", profile, "--results", "out"])
    assert APPS["fnst"].folder(flags) == pathlib.Path(folder)


# What the papers say, where the settings' own defaults or the other profiles differ.
PAPERS = {
    "plfl": {
        "models": ("mobilenetv2", "densenet169", "densenet201"), "weights": "imagenet", "size": 224,
        "head": "flatten256", "contrast": "equalize", "augment": "affine", "batch": 32, "learning_rate": 1e-4,
        "gold_epochs": 20, "epochs": 10, "csfl_rounds": 3, "plfl_rounds": 2, "fssfl_rounds": 2, "tau": 0.8,
        "labelled_batch": 2, "mu": 2, "threshold": 0.7,
    },
    "fnst": {
        "model": "resnet18", "weights": "random", "vgg_weights": "imagenet", "vgg_width": 64, "init": "noise",
        "style_weight": 0.0, "content_weight": 0.0, "rounds": 50, "epochs": 10, "alone_epochs": 100, "alone_every": 2,
        "rare": (5, 10, 20), "augmentations": ("S5C5", "S5C10", "S5C20", "S10C10", "S20C10"),
    },
    "fedsda": {
        "model": "densenet121", "weights": "random", "size": 96, "rounds": 100, "epochs": 1, "batch": 128,
        "optimizer": "sgd", "learning_rate": 1e-3, "diffusion_rounds": 3, "diffusion_epochs": 300,
        "diffusion_batch": 65536, "diffusion_learning_rate": 2e-4, "diffusion_weight_decay": 3e-2,
        "ccst_weights": "imagenet", "ccst_side": 512, "inception": "imagenet",
    },
    "fedstyle": {
        "model": "resnet18", "weights": "random", "rounds": 100, "epochs": 5, "batch": 32, "learning_rate": 0.01,
        "momentum": 0.5, "style_ce": 10.0, "style_contrast": 0.05, "style_mse": 20.0, "style_server_ce": 10.0,
        "style_server_contrast": 0.005, "artists": 18, "scalability": (20, 22, 24, 26),
    },
    "fedtransfer": {
        "generator": "hd", "generator_epochs": 50, "generator_batch": 2, "generator_learning_rate": 2e-4,
        "tile": 400, "folds": 5, "width": 64, "rounds": 20, "alone_rounds": 40, "batch": 8, "optimizer": "adam",
        "learning_rate": 1e-4,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PAPERS)
def test_paper_is_what_the_paper_says(name):
    flags = cli.parse(APPS[name], ["--profile", "paper"]).as_dict()
    assert {key: flags[key] for key in PAPERS[name]} == PAPERS[name]


def test_the_weights_of_style_are_the_papers_where_vgg_is():
    assert (settings_for("imagenet").content_weight, settings_for("imagenet").style_weight) == (1000, 0.01)


# Arguments, and the files that a run would have to find; nothing where everything is random.
REFUSED = {
    "plfl": ([], ["mobilenet_v2", "densenet169", "densenet201"], "--weights"),
    "plfl one": (["--models", "densenet169"], ["densenet169"], "--weights"),
    "fnst": ([], ["vgg19"], "--vgg-weights"),
    "fedsda": ([], ["vgg19"], "--ccst-weights"),
    "fedsda pictures": (["--ccst-weights", "random"], ["inception_v3"], "--inception"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_paper_does_not_start_without_its_weights(case, monkeypatch, tmp_path, capsys):
    arguments, networks, flag = REFUSED[case]
    monkeypatch.setenv("HOME", str(tmp_path))
    with working_in(tmp_path):
        assert cli.main(APPS[case.split()[0]], ["--profile", "paper", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    for network in networks:
        assert f"{network}_weights_tf_dim_ordering_tf_kernels" in line
    assert f"error: {flag} imagenet (profile paper)" in line and f"{flag} random" in line
    assert list(tmp_path.iterdir()) == []


FREE = {
    "plfl": ["--weights", "random"],
    "fnst": ["--vgg-weights", "random"],
    "fnst without styles": ["--methods", "fedavg", "--no-attack"],
    "fedsda": ["--ccst-weights", "random", "--inception", "random"],
    "fedsda plain": ["--sides", "none"],
    "fedstyle": [],
    "fedtransfer": [],
}


@pytest.mark.parametrize("case", FREE)
def test_paper_looks_for_no_weights_that_it_does_not_need(case):
    app = APPS[case.split()[0]]
    flags = cli.parse(app, ["--profile", "paper", *FREE[case]])
    assert not [flag for flag in app.networks(flags) if flags.as_dict()[flag] == "imagenet"]
