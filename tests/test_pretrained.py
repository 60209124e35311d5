"""Where weights are looked for before a run, and what happens where they cannot be had. Nothing asks a server."""

import dataclasses
import json
import pathlib
import types

import pytest

from models import weight_sources
from models.weight_sources import Unavailable
from tests.applications import working_in
from tffapps import classify, cli, fnst, plfl
from tffapps.app import App, Common

PRETRAINED = {"model": "mobilenetv2", "weights": "imagenet", "rounds": 3}


class Looking(App):
    """An application whose work is to remember its flags."""

    def part(self, name):
        return types.SimpleNamespace(run=RAN.append)


RAN: list = []


@pytest.fixture(autouse=True)
def _nothing_ran(tmp_path):
    RAN.clear()
    with working_in(tmp_path):
        yield


def looking(app, **profiles):
    values = {field.name: getattr(app, field.name) for field in dataclasses.fields(App)}
    return Looking(**{**values, "profiles": {**app.profiles, **profiles}})


@pytest.fixture
def app():
    return looking(classify.APP, demo=PRETRAINED)


@pytest.fixture
def reachable(monkeypatch):
    """The names of networks whose weights can be had; those that were asked for."""
    known, asked = set(), []

    def imagenet_file(name):
        asked.append(name)
        if name in known:
            return pathlib.Path(name)
        raise Unavailable(f"{name}: no", "the index: cannot be reached", f"{name}_notop.h5")

    monkeypatch.setattr(weight_sources, "imagenet_file", imagenet_file)
    return types.SimpleNamespace(known=known, asked=asked)


def run(app, *arguments):
    """The flags that it ran with."""
    assert cli.main(app, list(arguments)) == 0
    return RAN[-1]


def refused(app, capsys, *arguments):
    """The line that it ended with."""
    assert cli.main(app, list(arguments)) == 2 and not RAN
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_demo_with_weights_is_a_demo(app, reachable, capsys):
    reachable.known.add("mobilenetv2")
    flags = run(app)
    assert (flags.profile, flags[Common].weights) == ("demo", "imagenet") and capsys.readouterr().err == ""


def test_a_demo_without_weights_is_small(app, reachable, capsys):
    flags = run(app, "--seeds", "4", "--results", "out")
    small = cli.parse(app, ["--profile", "small", "--seeds", "4", "--results", "out"])
    assert flags.as_dict() == small.as_dict() and flags[Common].weights == "random"
    (line,) = capsys.readouterr().err.splitlines()
    for words in (
        "of mobilenetv2",
        "cannot be reached",
        "profile small",
        "out/small/classify",
        "tffapps weights mobilenetv2",
    ):
        assert words in line


def test_random_weights_without_a_network_are_small(app, reachable, capsys):
    assert run(app, "--weights", "random").profile == "small"
    (line,) = capsys.readouterr().err.splitlines()
    assert "--weights random: profile small" in line and not reachable.asked
    assert run(app, "--weights", "random", "--model", "resnet18").profile == "demo"
    assert capsys.readouterr().err == ""


def test_what_is_given_is_not_replaced(app, reachable, capsys):
    line = refused(app, capsys, "--weights", "imagenet")
    assert "--weights imagenet (profile demo): no weights of mobilenetv2 can be had" in line
    assert "mobilenetv2_notop.h5" in line and "--weights FILE or --weights random" in line
    assert run(app, "--weights", "mine.h5")[Common].weights == "mine.h5" and reachable.asked == ["mobilenetv2"]


def test_what_stored_settings_give_is_not_replaced(app, reachable, capsys, tmp_path):
    flags = cli.parse(app, []).as_dict()
    content = {"app": "classify", "flags": flags, "labels": {"method": "fedavg", "seed": 0}}
    (tmp_path / "settings.json").write_text(json.dumps(content))
    assert "no weights of mobilenetv2" in refused(app, capsys, "--settings", "settings.json")


def test_other_profiles_look_for_nothing(app, reachable):
    for profile in ("smoke", "small"):
        assert run(app, "--profile", profile).profile == profile
    assert not reachable.asked


def test_a_demo_of_random_weights_stays_one(reachable):
    app = looking(classify.APP, demo={"model": "tiny"})
    assert run(app).profile == "demo" and run(app, "--weights", "random").profile == "demo" and not reachable.asked


def test_every_network_is_looked_for_before_anything_runs(reachable, capsys):
    reachable.known.add("mobilenetv2")
    line = refused(
        looking(plfl.APP), capsys, "--weights", "imagenet", "--models", "mobilenetv2,densenet169,densenet201"
    )
    assert "no weights of densenet169 and densenet201" in line and "choose --models mobilenetv2" in line
    assert f"densenet169_notop.h5 and densenet201_notop.h5 in {weight_sources.cache_folder()}" in line


def test_networks_that_are_not_used_are_not_looked_for(reachable, capsys):
    arguments = ["--profile", "smoke", "--vgg-weights", "imagenet", "--vgg-width", "64"]
    assert "--vgg-weights imagenet" in refused(looking(fnst.APP), capsys, *arguments)
    run(looking(fnst.APP), *arguments, "--methods", "fedavg", "--no-attack")


def test_without_a_network_nobody_is_asked(monkeypatch, tmp_path):
    def never(*arguments):
        raise AssertionError(arguments)

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(weight_sources, "_fetched", never)
    with pytest.raises(Unavailable, match="TFFAPPS_OFFLINE is set") as caught:
        weight_sources.imagenet_file("vgg19")
    assert caught.value.file == weight_sources.IMAGENET["vgg19"].file
