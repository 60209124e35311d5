"""The layers of the project (docs/architecture.md), held by reading the source: see `tests/architecture.py`."""

import ast

import pytest

from tests.architecture import ROOT, chains, cycle, imports, modules, unit
from tffapps import systems

OWN_SYSTEMS = {package.removeprefix("tffapps.") for package in systems.packages().values() if "tffapps." in package}
TFFAPPS = modules("tffapps")
IMPORTS = imports(TFFAPPS)
OTHERS = modules("models", "preprocessing")
# What each of the lower layers may know. Everything above them may know them.
MAY_IMPORT = {
    "wire": {"errors"},
    "secure_sums": set(),
    "engine": {"errors", "secure_sums", "wire"},
    "privacy": {"errors"},
    "federated": {"engine", "errors", "privacy", "settings"},
}
OPENS_FILES = {
    "open", "os", "io", "pathlib", "shutil", "tempfile", "json", "csv", "pickle", "cv2", "print", "to_csv",
    "pd.read_csv", "read_text", "read_bytes", "write_text", "write_bytes", "np.save", "np.savez", "np.load",
    "np.fromfile", "tf.io", "tf.summary", "tf.saved_model",
}  # fmt: skip


def broken(rule) -> list[str]:
    """The imports that a rule forbids, as lines."""
    return sorted(str(each) for each in IMPORTS if rule(each))


def test_no_part_imports_another_that_imports_it():
    """Imports in functions and for type checkers count; there are no exceptions."""
    assert cycle(IMPORTS) == []


def test_the_parts_import_each_other_by_module():
    """What `tffapps` itself offers is what systems are made of: below them it would hide who imports whom."""
    known = {*TFFAPPS, "tffapps.__version__"}

    def by_name(each):
        return each.imported.count(".") == 1 and unit(each.imported) and each.imported not in known

    assert broken(lambda each: by_name(each) and unit(each.importer) not in OWN_SYSTEMS) == []


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_a_lower_layer_imports_no_higher_one(layer):
    allowed = {"", layer, *MAY_IMPORT[layer]}
    assert broken(lambda each: unit(each.importer) == layer and unit(each.imported) not in allowed) == []


def test_bundles_are_used_without_what_trains():
    """A bundle is read on machines that have no training data and run no rounds."""
    above = {"study", "training", "inputs", "classifier", "site", *OWN_SYSTEMS}
    assert broken(lambda each: unit(each.importer) == "use" and unit(each.imported) in above) == []


def test_a_system_is_imported_by_itself_alone():
    """Not by another, and not by what they share: that asks `tffapps.systems`."""
    rule = lambda each: unit(each.imported) in OWN_SYSTEMS and unit(each.importer) != unit(each.imported)  # noqa: E731
    assert broken(rule) == []


def test_federated_opens_no_file():
    used = [
        f"{name}:{line} {used}"
        for name, tree in TFFAPPS.items()
        if unit(name) == "federated"
        for used, line in chains(tree)
        if any(f".{used}.".startswith(f".{each}.") or used.endswith(f".{each}") for each in OPENS_FILES)
    ]
    imported = broken(lambda each: unit(each.importer) == "federated" and each.imported.split(".")[0] in OPENS_FILES)
    assert used + imported == []


def test_models_and_preprocessing_stand_alone():
    found = [each for each in imports(OTHERS) if each.imported.split(".")[0] in ("tffapps", "tensorflow_federated")]
    assert [str(each) for each in found] == []


def test_only_exported_names_of_tff_are_used():
    """`engine/tff_internals.py` says why it reaches further; the messages on the wire (`proto`) are the engine's."""

    def hidden(each):
        parts = each.imported.split(".")
        if parts[0] != "tensorflow_federated" or len(parts) == 1:
            return False
        of_engine = parts[1] == "proto" and unit(each.importer) == "engine"
        return not of_engine and (parts[1] in ("python", "proto") or any(part.startswith("_") for part in parts))

    assert [line for line in broken(hidden) if not line.startswith("tffapps.engine.tff_internals:")] == []
    private = [
        f"{name}:{line} {used}"
        for name, tree in TFFAPPS.items()
        for used, line in chains(tree)
        if used.startswith("tff.") and any(part.startswith("_") for part in used.split("."))
    ]
    assert private == []


def test_no_file_is_long():
    files = [path for folder in ("tffapps", "models", "preprocessing") for path in (ROOT / folder).rglob("*.py")]
    assert [str(path) for path in files if len(path.read_text().splitlines()) > 400] == []


RINGS = {
    "in a function": {"a/__init__.py": "def f():\n    from tffapps.b import g\n", "b.py": "import tffapps.a.c\n"},
    "for type checkers": {
        "a/x.py": "if TYPE_CHECKING:\n    from tffapps import b\n",
        "b.py": "from tffapps.a import x\n",
    },
    "by name": {"a.py": "importlib.import_module('tffapps.b')\n", "b.py": "import tffapps.a\n"},
}


@pytest.mark.parametrize("ring", RINGS)
def test_a_ring_is_found(ring, tmp_path):
    for name, text in RINGS[ring].items():
        path = tmp_path / "tffapps" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert cycle(imports(modules("tffapps", root=tmp_path))) == ["a", "b", "a"]


def test_what_is_read_of_a_module():
    tree = ast.parse("from tensorflow_federated.python import x\nnp.save(tff._private.y)\n")
    assert [each.imported for each in imports({"m": tree})] == ["tensorflow_federated.python.x"]
    assert {("np.save", 2), ("tff._private.y", 2)} <= set(chains(tree))
