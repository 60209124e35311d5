"""Any values for any flags of any application, and any stored settings: accepted within their limits, or one line."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import io
import json
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.strategies import ODD, bounded, check_refusal, damaged
from tffapps import cli, systems
from tffapps.app import App, Common
from tffapps.errors import UserError
from tffapps.settings import Setting, names_own_code
from tffapps.study import paths_of

APPS = {app.name: app for app in systems.every()}
NAMES = tuple(APPS)
TEXTS = [text for text in ODD if "\0" not in text]  # no command line can hold it
NUMBERS = [
    "0",
    "1",
    "-1",
    "2",
    "64",
    "1.5",
    "-0.0",
    "1e-300",
    "1e400",
    "nan",
    "inf",
    "1_000",
    "0x10",
    "٣",
    " 7 ",
    "9" * 12,
    "9" * 5000,
]


def within(setting: Setting, value) -> bool:
    limits, infinity = setting.limits, float("inf")
    if setting.several:
        one = dataclasses.replace(setting, several=False)
        return isinstance(value, tuple) and all(within(one, item) for item in value)
    if type(value) is not setting.kind:
        return False
    if limits.get("choices") and value not in limits["choices"] and not names_own_code(setting, value):
        return False
    return not isinstance(value, (int, float)) or (
        limits.get("least", -infinity) <= value <= limits.get("most", 2**31 if isinstance(value, int) else 1e308)
        and limits.get("above", -infinity) < value < limits.get("below", infinity)
    )


class Trying(App):
    """An application whose work is to look at its flags."""

    def part(self, name):
        return types.SimpleNamespace(run=self.look)

    def has(self, name):
        return False

    def look(self, flags):
        values = flags.as_dict()
        json.dumps(values)
        assert values["methods"] and set(values["methods"]) <= set(self.methods) and flags.profile in self.profiles
        for name, setting in self.flags().items():
            assert within(setting, values[name]) or name == "methods", (name, values[name])
        assert all(flags[owner] for owner in (Common, *self.settings))
        paths_of(values)


def tried(app, arguments):
    """The exit status of a command whose work is to look at its flags."""
    app = Trying(**{field.name: getattr(app, field.name) for field in dataclasses.fields(App)})
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        try:
            status = cli.main(app, arguments)
        except SystemExit as stopped:  # argparse
            status = stopped.code
    lines = errors.getvalue().strip().splitlines()
    assert status in (0, 2)
    if status:
        assert "error: " in lines[-1] and "Traceback" not in errors.getvalue()
    return status


@st.composite
def command_lines(draw):
    app = APPS[draw(st.sampled_from(NAMES))]
    settings = list(app.flags().values())
    arguments = ["--profile", draw(st.sampled_from(sorted(app.profiles)))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 4))):
        setting = draw(st.sampled_from(settings))
        flag = setting.flag
        if setting.kind is bool:
            arguments.append(draw(st.sampled_from([flag, f"--no-{flag[2:]}", f"{flag}=yes"])))
            continue
        choices = [str(choice) for choice in setting.limits.get("choices") or app.methods]
        one = st.one_of(
            st.sampled_from(NUMBERS), st.integers().map(str), st.floats().map(str), st.sampled_from(choices),
            st.sampled_from(TEXTS), st.text(st.characters(exclude_characters="\0"), max_size=9),
        )  # fmt: skip
        value = ",".join(draw(st.lists(one, max_size=3))) if setting.several else draw(one)
        arguments += draw(st.sampled_from([[f"{flag}={value}"], [flag, value]]))
    return app, arguments


@bounded(250)
@given(line=command_lines())
def test_command_lines(line):
    tried(*line)


def stored(app) -> dict:
    flags = cli.parse(app, ["--profile", "smoke"])
    labels = {"method": app.methods[0], "seed": 0, **dict.fromkeys((label for label, _ in app.narrowed), "x")}
    return json.loads(json.dumps({"app": app.name, "flags": flags.as_dict(), "labels": labels}))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(ODD) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["method", "a"]), inner, max_size=2),
    max_leaves=5,
)


@st.composite
def settings_files(draw):
    app = APPS[draw(st.sampled_from(NAMES))]
    content = copy.deepcopy(stored(app))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from([content, content["flags"], content["flags"], content["labels"]]))
        if isinstance(place, dict) and place:
            place[draw(st.sampled_from(sorted(place)))] = draw(anything)
        if not all(isinstance(content[name], dict) for name in ("flags", "labels")):
            break
    return app, json.dumps(content).encode()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("settings") / "settings.json"


@bounded(150)
@given(made=settings_files())
def test_stored_settings(file, made):
    app, contents = made
    file.write_bytes(contents)
    tried(app, ["--settings", str(file)])


@bounded(60)
@given(contents=st.binary(max_size=40) | damaged(json.dumps(stored(APPS["classify"])).encode()))
def test_stored_settings_with_damage(file, contents):
    file.write_bytes(contents)
    tried(APPS["classify"], ["--settings", str(file)])


CHANGED = {
    "profile": ({}, 0),  # the default one instead
    "learning_rate": (10**400, 2),
    "data": ("a" * 300, 2),
    "weights": ("a/" * 3000, 2),
    "results": ("\0", 2),
    "engine": ("\0", 2),
    "batch": (10**30, 2),
    "rounds": (1e9, 2),
    "methods": ([["fedavg"]], 0),  # the run's own
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_was_found_in_stored_settings(file, name):
    content = stored(APPS["classify"])
    content["flags"][name], status = CHANGED[name]
    file.write_text(json.dumps(content))
    assert tried(APPS["classify"], ["--settings", str(file)]) == status


def test_settings_that_are_too_deep(file):
    file.write_text("[" * 100_000)
    assert tried(APPS["classify"], ["--settings", str(file)]) == 2


@pytest.mark.parametrize("value", ["99999999999999999999", "2147483648"])
def test_numbers_that_no_tensor_holds(value):
    assert tried(APPS["classify"], ["--batch", value]) == 2
    with pytest.raises(UserError, match=f"--batch {value}: too large; 2147483647 at most") as caught:
        cli.parse(APPS["classify"], ["--batch", value])
    check_refusal(caught.value)
