"""What modules import and call, read from their source: nothing is executed."""

from __future__ import annotations

import ast
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping

ROOT = pathlib.Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True)
class Import:
    importer: str  # a module's full name
    imported: str  # a module's, or one of a name in a module
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def modules(*packages: str, root: pathlib.Path = ROOT) -> dict[str, ast.Module]:
    """Every module of some packages by its full name."""
    trees = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            trees[name] = ast.parse(path.read_text(), str(path))
    return trees


def imports(trees: Mapping[str, ast.Module]) -> list[Import]:
    """All imports of these modules, wherever they stand: in functions and for type checkers alone too.

    `from a import b` is an import of a.b, also where b is no module.
    """
    return [
        Import(name, imported, node.lineno)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        for imported in _imported(node)
    ]


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0 and node.module, "write imports with the full name"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and chain(node.func).endswith("import_module"):
        yield from (str(name.value) for name in node.args[:1] if isinstance(name, ast.Constant))


def chain(node: ast.AST) -> str:
    """`a.b.c` of an expression that is one; of another only what follows its last call or index."""
    if isinstance(node, ast.Attribute):
        return f"{chain(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def chains(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name and dotted name that a module uses, and where."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield chain(node), node.lineno


def unit(name: str) -> str:
    """The part of `tffapps` that a module is of: a package in it, or a module beside those; "" for another's."""
    package, _, rest = name.partition(".")
    return rest.partition(".")[0] if package == "tffapps" else ""


def cycle(found: Iterable[Import]) -> list[str]:
    """Units that import each other in a ring, the first of them again at the end; none: an empty list."""
    graph: dict[str, set[str]] = {}
    for each in found:
        importer, imported = unit(each.importer), unit(each.imported)
        if importer and imported and importer != imported:
            graph.setdefault(importer, set()).add(imported)
    finished: set[str] = set()

    def search(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name not in finished:
            for following in sorted(graph.get(name, ())):
                ring = search(following, [*path, name])
                if ring:
                    return ring
            finished.add(name)
        return []

    return next((ring for ring in (search(name, []) for name in sorted(graph)) if ring), [])
