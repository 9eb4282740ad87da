"""Imports go one way: a module imports only from its own layer and from those before it."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "othello_nn"
LAYERS = (
    ("errors", "files", "locked", "options", "program", "progress", "resources", "sparkline"),
    ("game",),
    ("checkpoint", "modules", "search_options"),
    ("kinds",),
    ("config",),
    ("kernels",),
    ("engine",),
    ("nets",),
    ("book",),
    ("players",),
    ("arena",),
    ("collection",),
    ("fit",),
    ("learn",),
    ("cli",),
    ("__main__",),
)
NAMED_FOR = {"othello_nn.kinds": "othello_nn.nets.base"}
"""Who imports what a module only names."""
REFERENCE = re.compile(r"([a-z_]+(?:\.[a-z_]+)*):[A-Za-z_]+")
"""A string ``module:name``, for something that is imported when it is needed."""
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def modules(package: Path) -> dict[str, Path]:
    found = {}
    for path in package.rglob("*.py"):
        parts = (package.name, *path.relative_to(package).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """Modules of the package that a module imports, at its top or inside a function, unless only for type checkers.

    The package itself is among them if more than its version is taken from it.
    """
    tree, found = ast.parse(path.read_text(encoding="utf-8")), set()
    root = name.split(".")[0]
    here = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*here.split(".")[: len(here.split(".")) - node.level + 1], *base.split(".")]).strip(
                    "."
                )
            names = {alias.name for alias in node.names if (base, alias.name) != (root, "__version__")}
            found |= {f"{base}.{word}" if f"{base}.{word}" in known else base for word in names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {word.value for word in node.args if isinstance(word, ast.Constant)}
    return {module for module in found if module in known and module != name}


def references(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """Modules that a module names in strings ``module:name``: in full, from the top, or from its own package."""
    places = ("", f"{name.split('.')[0]}.", f"{name.rpartition('.')[0]}.")
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and (match := REFERENCE.fullmatch(node.value))
        ):
            found |= {place + match[1] for place in places} & set(known)
    return found


def graph(package: Path) -> dict[str, set[str]]:
    known = modules(package)
    return {name: imports(name, path, known) for name, path in known.items()}


def layer(module: str) -> str:
    return module.split(".")[1]


def backward_edges(edges: dict[str, set[str]], package: str) -> list[str]:
    """``a → b`` for each import of a later layer. The package's own ``__init__`` offers names of all layers, so it may
    import everything, and nothing inside may import it."""
    return sorted(
        f"{name} → {target}"
        for name, targets in edges.items()
        for target in targets
        if name != package and (target == package or RANK[layer(target)] > RANK[layer(name)])
    )


def in_cycles(edges: dict[str, set[str]]) -> set[str]:
    """Modules from which a path of imports leads back to themselves."""

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = list(edges.get(start, ()))
        while waiting:
            module = waiting.pop()
            if module not in seen:
                seen.add(module)
                waiting.extend(edges.get(module, ()))
        return seen

    return {name for name in edges if name in reachable(name)}


@pytest.fixture(scope="module")
def edges() -> dict[str, set[str]]:
    return graph(PACKAGE)


def test_every_module_has_a_layer(edges):
    assert {layer(name) for name in edges if "." in name} == set(RANK)
    assert sum(len(targets) for targets in edges.values()) > 300  # the graph was read


def test_imports_go_one_way(edges):
    assert backward_edges(edges, PACKAGE.name) == []


def test_modules_named_in_strings_go_the_same_way():
    known = modules(PACKAGE)
    named = {name: references(name, path, known) for name, path in known.items()}
    assert {"othello_nn.kinds", "othello_nn.players.catalog", "othello_nn.cli.main"} <= {n for n in named if named[n]}
    assert backward_edges({NAMED_FOR.get(name, name): found for name, found in named.items()}, PACKAGE.name) == []


def test_no_module_imports_itself_through_others(edges):
    assert in_cycles({name: targets - {PACKAGE.name} for name, targets in edges.items() if "." in name}) == set()


def test_a_backward_import_and_a_cycle_are_seen(tmp_path):
    package = tmp_path / "othello_nn"
    for folder in ("", "game", "cli"):
        (package / folder).mkdir()
        (package / folder / "__init__.py").touch()
    (package / "errors.py").write_text("def late():\n    from othello_nn.cli import main\n")
    (package / "cli" / "main.py").write_text("from othello_nn.game.a import x\nfrom ..errors import late\n")
    (package / "game" / "a.py").write_text("from . import b\nfrom othello_nn import __version__\n")
    (package / "game" / "c.py").write_text(
        "import importlib\nfrom othello_nn import search\nimportlib.import_module('othello_nn.cli')\n"
        "LATER = 'cli.main:play', 'b:x'\n"
    )
    (package / "game" / "b.py").write_text(
        "import typing\nimport othello_nn.game.a\nif typing.TYPE_CHECKING:\n    import othello_nn.cli.main\n"
    )
    found = graph(package)
    assert backward_edges(found, "othello_nn") == [
        "othello_nn.errors → othello_nn.cli.main",
        "othello_nn.game.c → othello_nn",
        "othello_nn.game.c → othello_nn.cli",
    ]
    named = references("othello_nn.game.c", package / "game" / "c.py", modules(package))
    assert named == {"othello_nn.cli.main", "othello_nn.game.b"}
    assert {"othello_nn.game.a", "othello_nn.game.b"} <= in_cycles(found)
    assert "othello_nn.game" not in in_cycles(found)
