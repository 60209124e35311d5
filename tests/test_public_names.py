"""What `tffapps` itself offers: the names are there, and importing it imports nothing else."""

import inspect
import subprocess
import sys

import pytest

import tffapps
from tests.architecture import ROOT

CODE = """
import sys
before = set(sys.modules)
import tffapps
print(sorted(name for name in set(sys.modules) - before if name.startswith(("tffapps", "numpy", "tensor", "pandas"))))
from tffapps import Flags, setting
print([name for name in ("numpy", "pandas", "tensorflow") if name in sys.modules])
"""


def test_importing_it_imports_nothing_else():
    done = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['tffapps']", "[]"]


@pytest.mark.parametrize("name", tffapps.__all__)
def test_every_name_is_there_and_explained(name):
    thing = getattr(tffapps, name)
    assert name in dir(tffapps)
    if (isinstance(thing, type) and thing is not dict) or inspect.isfunction(thing):  # not a constant or an alias
        assert inspect.getdoc(thing) and thing.__name__ == name and thing.__module__.startswith(("tffapps.", "preproc"))


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'tffapps' has no attribute 'Nothing'"):
        tffapps.Nothing  # noqa: B018
    from tffapps import cli  # a module is found all the same

    assert inspect.ismodule(cli)


def test_type_checkers_are_told_the_same():
    source = inspect.getsource(tffapps)
    for name, module in tffapps._MODULES.items():
        (line,) = [line for line in source.splitlines() if line.startswith(f"    from tffapps.{module} import ")]
        assert name in line.partition(" import ")[2].split(", ")
