"""The command `tffapps`: what it lists, where it leads, what it calls itself."""

import importlib.util
import os
import subprocess
import sys

import pytest
from setuptools.config.pyprojecttoml import read_configuration

from tests.architecture import ROOT
from tffapps import __main__, __version__, systems

SCRIPT = "import sys\nfrom tffapps.__main__ import main\nsys.exit(main())\n"  # as .venv/bin/tffapps is
TIMED = """
import sys, time
from tffapps.__main__ import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print([name for name in ("tensorflow", "tensorflow_federated", "pandas", "numpy") if name in sys.modules])
print(time.process_time())
"""
NO_SUCH = (
    f"no such command; choose from plfl, fedsda, fnst, fedstyle, fedtransfer, classify, {', '.join(__main__.TOOLS)}"
)


def run(*command, **variables: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **variables}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)


def test_what_is_installed_is_this_command():
    project = read_configuration(ROOT / "pyproject.toml")["project"]
    module, _, function = project["scripts"]["tffapps"].partition(":")
    assert getattr(importlib.import_module(module), function) is __main__.main
    assert project["version"] == __version__


def test_every_command_is_listed():
    done = run("-m", "tffapps", "--help")
    assert done.returncode == 0, done.stderr
    names = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("tffapps ")]
    assert names == [*systems.packages(), *__main__.TOOLS] and {"data", "segment", "watch", "doctor"} <= {*names}
    assert run("-m", "tffapps").stdout == done.stdout


HELPS = [(), *((name,) for name in (*systems.packages(), *__main__.TOOLS)), ("site", "serve"), ("fedstyle", "query")]


@pytest.mark.parametrize("command", HELPS, ids=" ".join)
def test_help_answers_at_once(command):
    """Without what takes seconds to import; measured in the processor's time, as the machine may be busy."""
    done = run("-c", TIMED, *command, "--help")
    lines = done.stdout.splitlines()
    usage = " ".join(command)
    if command == ("weights",):  # of the package models
        assert lines[0].startswith("usage: python -m tffapps weights ["), done.stderr
    elif len(command) == 1 and command[0] in __main__.TOOLS:
        module = __main__.TOOLS[command[0]].module.removesuffix(".__main__")
        assert lines[0].startswith((f"usage: python -m {module} [", f"usage: python -m tffapps.{usage} [")), done.stderr
    elif command:
        assert lines[0].startswith(f"usage: python -m tffapps.{usage} ["), done.stderr
    imported, seconds = lines[-2:]
    light = "['numpy']" if command == ("weights",) else "[]"
    assert imported == light and float(seconds) < 1, done.stderr


@pytest.mark.parametrize("command", ["classify", "data", "site", "report", "doctor"])
def test_usage_names_the_command_as_it_was_called(command, tmp_path):
    script = tmp_path / "tffapps"
    script.write_text(SCRIPT)
    assert run(script, command, "--help").stdout.startswith(f"usage: tffapps {command} ")
    assert run("-m", "tffapps", command, "--help").stdout.startswith(f"usage: python -m tffapps {command} ")
    assert run("-m", f"tffapps.{command}", "--help").stdout.startswith(f"usage: python -m tffapps.{command} ")


@pytest.mark.parametrize(
    ("called", "name"),
    [("/bin/tffapps", "tffapps classify"), ("/project/tffapps/classify/__main__.py", "tffapps.classify")],
)
def test_mistakes_name_it_too(called, name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [called])
    assert __main__.main(["classify", "--rounds", "0"]) == 2
    assert capsys.readouterr().err == f"{name}: error: --rounds 0: must be 1 or more\n"
    with pytest.raises(SystemExit) as stopped:
        __main__.main(["classify", "--nothing"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith(f"{name}: error: unrecognized arguments: --nothing")


def test_a_command_that_does_not_exist(capsys):
    assert __main__.main(["plfk", "--help"]) == 2
    assert capsys.readouterr().err == f"tffapps: error: plfk: {NO_SUCH}\n"


def test_the_version(capsys):
    assert __main__.main(["--version"]) == 0
    assert capsys.readouterr().out == f"tffapps {__version__}\n"


def test_every_system_can_be_called_by_its_module():
    for package in systems.packages().values():
        assert importlib.util.find_spec(f"{package}.__main__") is not None


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A package beside this one, and what it declares."""

    def write(name: str, text: str) -> None:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text(text)
        monkeypatch.setenv("TFFAPPS_SYSTEMS", name.replace("/", "."))

    monkeypatch.syspath_prepend(tmp_path)
    return write


def test_a_system_of_ones_own_and_its_command(own, tmp_path, capsys):
    own(
        "console_own",
        "from tffapps import App\nAPP = App('console_own', __name__, 'mine', '', (), {'demo': {}}, ('m',), ('ask',))\n",
    )
    (tmp_path / "console_own" / "trials.py").write_text("def run(flags):\n    print('ran', flags.profile)\n")
    (tmp_path / "console_own" / "ask.py").write_text(
        "def main(arguments):\n    print('asked', arguments)\n    return 7\n"
    )
    assert __main__.main(["console_own"]) == 0 and __main__.main(["console_own", "ask", "--who"]) == 7
    assert capsys.readouterr().out == "ran demo\nasked ['--who']\n"


@pytest.mark.parametrize(
    ("package", "text", "complaint"),
    [
        ("nowhere.at_all", None, "no package nowhere.at_all is found; set PYTHONPATH to its folder"),
        ("console_empty", "", "console_empty has no APP; its __init__.py must declare one (tffapps.App)"),
    ],
)
def test_a_system_that_is_not_one(package, text, complaint, own, monkeypatch, capsys):
    monkeypatch.setenv("TFFAPPS_SYSTEMS", package)
    if text is not None:
        own(package, text)
    assert __main__.main([package.rpartition(".")[2]]) == 2
    assert capsys.readouterr().err == f"tffapps: error: TFFAPPS_SYSTEMS: {complaint}\n"


def test_what_a_broken_system_lacks_is_not_hidden(own):
    own("console_broken", "import a_package_that_is_not_there\n")
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        __main__.main(["console_broken"])
