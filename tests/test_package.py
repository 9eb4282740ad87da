"""The package as people get it: one import for everything, a wheel with all it needs, commands with their names."""

import ast
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import othello_nn
from othello_nn import program, resources
from othello_nn.cli import main as cli
from othello_nn.cli import scripts
from othello_nn.cli.train import parser as train_parser

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "othello_nn"
NETS = sorted(path.name for path in (ROOT / "checkpoints").glob("*.safetensors"))
BOOKS = sorted(path.name for path in (ROOT / "checkpoints").glob("*.book"))


def run(*words: object, **keywords) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", **keywords
    )
    assert done.returncode == 0, done.stderr
    return done


# --- one import ------------------------------------------------------------------------------------------------------


def run_code(code: str) -> str:
    return run(sys.executable, "-c", code, env=os.environ | {"PYTHONPATH": str(ROOT)}).stdout.strip()


def test_the_import_is_light_and_so_are_the_players():
    heavy = "print(sorted({'numpy', 'numba', 'torch'} & set(sys.modules)))"
    code = f"import sys, othello_nn; {heavy}; othello_nn.make_player('swh'); {heavy}; othello_nn.Limit; {heavy}"
    assert run_code(code).splitlines() == ["[]", "[]", "['numba', 'numpy']"]


def test_every_public_name_is_there():
    assert {"Position", "Engine", "Limit", "search", "solve", "make_player", "load_net"} <= set(othello_nn.__all__)
    for name in othello_nn.__all__:
        assert getattr(othello_nn, name) is not None
    assert set(othello_nn.__all__) <= set(dir(othello_nn))
    with pytest.raises(AttributeError, match="'othello_nn' has no attribute 'serach'"):
        othello_nn.serach  # noqa: B018 (asking is the test)


def test_no_module_is_called_like_a_public_name():
    """Importing a module puts it on the package, in place of whatever has its name."""
    modules = {module.name for module in pkgutil.iter_modules(othello_nn.__path__)}
    assert "engine" in modules
    assert not modules & set(othello_nn.__all__)


@pytest.mark.parametrize(
    "imports",
    [
        "import othello_nn.engine; from othello_nn import Limit, Position, search",
        "from othello_nn import Limit, Position, search; import othello_nn.engine",
        "from othello_nn import *; import othello_nn.engine.driver",
    ],
)
def test_the_engine_and_the_search_in_any_order(imports):
    code = f"{imports}\nprint(search(Position.start(), limit=Limit(depth=4)).depth, othello_nn.engine.search is search)"
    assert run_code(code) == "4 True"


def test_a_shipped_net_is_loaded_and_plays_as_it_says():
    net = othello_nn.load_net(resources.CHECKPOINTS / "triangle.safetensors")
    assert sum(parameter.numel() for parameter in net.parameters()) > 0
    choice = othello_nn.make_player("swh").choose(othello_nn.Position.start())
    assert str(choice.move) in ("d3", "c4", "f5", "e6")


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("started", "installed"),
    [
        ("play.py", False),
        ("/home/ann/othello_nn/play.py", False),
        ("train.py", False),
        ("-c", False),
        ("", False),
        ("/home/ann/.local/bin/othello", True),
        ("/home/ann/.local/bin/othello-train", True),
        ("othello.exe", True),
        (str(PACKAGE / "__main__.py"), True),
        (str(PACKAGE / "train.py"), True),  # torchrun -m othello_nn.train
    ],
)
def test_programs_are_called_what_was_typed(monkeypatch, capsys, started, installed):
    monkeypatch.setattr(sys, "argv", [started])
    play, train = ("othello", "othello-train") if installed else ("play.py", "train.py")
    assert cli.main(["slove"]) == 2
    assert capsys.readouterr().err.startswith(f"{play}: unknown command 'slove'")
    assert cli.main(["perft", "x"]) == 2
    assert capsys.readouterr().err.endswith(f"(see {play} perft --help)\n")
    assert cli.main(["--player", "swh", "perft"]) == 2
    assert f"as in {play} perft --help" in capsys.readouterr().err
    assert train_parser().format_usage().startswith(f"usage: {train} ")
    assert program.command(program.PLAY) == (play if installed else f"python {play}")


def test_help_speaks_of_the_installed_programs(monkeypatch):
    in_checkout = [cli.build_parser().format_help(), train_parser().format_help()]
    monkeypatch.setattr(sys, "argv", ["/usr/bin/othello"])
    installed = [cli.build_parser().format_help(), train_parser().format_help()]
    for before, after in zip(in_checkout, installed, strict=True):
        assert "python play.py" in before
        assert not {"play.py", "train.py", "python"} & set(after.split())
    assert "  othello bestmove f5d6c3d3c4 --player" in installed[0]
    assert "  othello-train --preset league " in installed[1]
    assert "torchrun --nproc-per-node 2 train.py --preset" in in_checkout[1]


@pytest.mark.parametrize("is_inside", [True, False], ids=["wheel", "editable install"])
def test_torchrun_is_told_of_a_program_that_is_there(monkeypatch, tmp_path, is_inside):
    """A wheel has the module ``othello_nn.train``; an editable install has only the checkout's ``train.py``."""
    monkeypatch.setattr(sys, "argv", ["/usr/bin/othello-train"])
    if is_inside:
        (tmp_path / "train.py").touch()
    monkeypatch.setattr(program, "__file__", str(tmp_path / "program.py"))
    expected = "-m othello_nn.train" if is_inside else str(ROOT / "train.py")
    assert program.torchrun_program() == expected
    assert f"torchrun --nproc-per-node 2 {expected} --preset" in train_parser().format_help()


def test_the_command_for_training_runs_train_py_of_a_checkout(monkeypatch, capsys):
    assert resources.TRAIN == ROOT / "train.py"
    assert resources.CHECKPOINTS == ROOT / "checkpoints"
    monkeypatch.delitem(sys.modules, "train", raising=False)
    monkeypatch.setattr(sys, "argv", ["othello-train", "--preset", "league", "--print-config"])
    assert scripts.train() == 0
    assert json.loads(capsys.readouterr().out)["preset"] == "league"
    assert Path(sys.modules.pop("train").__file__) == ROOT / "train.py"


# --- what it needs ---------------------------------------------------------------------------------------------------

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IMPORTED_AS = {"PIL": "pillow"}


def test_whatever_is_imported_is_declared():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            found |= {name.split(".")[0] for name in names}
    found -= {"othello_nn", "train", *sys.stdlib_module_names}
    declared = {Requirement(line).name.lower() for line in PROJECT["dependencies"]}
    declared |= {Requirement(line).name.lower() for line in PROJECT["optional-dependencies"].get("web", [])}
    assert {IMPORTED_AS.get(name, name) for name in found} <= declared


def test_numba_is_bounded_since_private_parts_of_it_are_used():
    [numba] = [Requirement(line) for line in PROJECT["dependencies"] if line.startswith("numba")]
    assert any(part.operator == "<" for part in numba.specifier)


def test_the_tests_run_with_versions_that_are_known():
    """All that the tests need is pinned within what is declared, by versions alone: no place, no build for a GPU."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {}
    for line in (line for line in lines if not line.startswith("#")):
        name, equals, version = line.partition("==")
        assert equals
        assert re.fullmatch(r"[0-9.]+", version), f"{line} is more than a version"
        pinned[name.lower().replace("_", "-")] = version
    extras = PROJECT["optional-dependencies"]
    for line in (*PROJECT["dependencies"], *extras["dev"], *extras["web"]):
        needed = Requirement(line)
        if needed.name not in ("setuptools", PROJECT["name"]):  # the former builds, and is what the system has
            assert needed.specifier.contains(pinned[needed.name.lower()]), line
    assert "-c constraints.txt" in (ROOT / "README.md").read_text(encoding="utf-8")


# --- the wheel -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """What a build needs, in a folder of its own: a build leaves things behind."""
    folder = tmp_path_factory.mktemp("sources")
    ignored = ("__pycache__", ".*", "runs", "build", "dist", "*.egg-info")
    for name in ("othello_nn", "checkpoints", "docs", "tests", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(*ignored))
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(sources, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    offline = ("--no-build-isolation", "--no-deps", "--no-index")
    run(sys.executable, "-m", "pip", "wheel", "-q", *offline, "-w", folder, sources)
    [path] = folder.iterdir()
    return path


def test_the_wheel_holds_the_modules_the_nets_the_presets_and_train_py(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("othello_nn/")}
        for path in (*(ROOT / "checkpoints" / name for name in NETS + BOOKS), ROOT / "train.py"):
            assert archive.read(f"othello_nn/{path.relative_to(ROOT).as_posix()}") == path.read_bytes()
    inside = {path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*") if path.suffix in (".py", ".toml")}
    fitted = {path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.safetensors")}
    page = {path.relative_to(ROOT).as_posix() for path in (PACKAGE / "cli" / "web" / "page").iterdir()}
    assert "othello_nn/cli/web/page/index.html" in page
    assert len(inside) > 140
    assert len(fitted) >= 2
    taken_along = {"othello_nn/train.py", *(f"othello_nn/checkpoints/{name}" for name in NETS + BOOKS)}
    assert names == inside | fitted | page | taken_along | {"othello_nn/py.typed"}


def test_the_source_distribution_can_build_the_same(sources, tmp_path):
    code = f"import setuptools.build_meta; setuptools.build_meta.build_sdist({str(tmp_path)!r})"
    run(sys.executable, "-c", code, cwd=sources)
    [path] = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"setup.py", "pyproject.toml", "README.md", "LICENSE", "train.py", "play.py", "tests/conftest.py"}
    needed |= {f"checkpoints/{name}" for name in NETS + BOOKS}
    needed |= {"othello_nn/presets/quick.toml", "othello_nn/cli/main.py"}
    assert needed <= names
    assert not [name for name in names if name.startswith("runs") or name.endswith(".pyc")]


class Installed:
    """An environment with the wheel and what it needs, without the checkout; commands run from another folder."""

    def __init__(self, folder: Path, wheel: Path):
        self.folder, self.here, self.cache = folder, folder / "here", folder / "cache"
        self.here.mkdir()
        venv.create(folder / "venv", symlinks=os.name != "nt")
        self.bin = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        self.site = Path(self.run("python", "-c", code).stdout.strip())
        # A folder named in a .pth is searched for packages, but its own .pth files, such as an editable installation's,
        # are not read.
        dependencies = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
        (self.site / "dependencies.pth").write_text("\n".join(dependencies))
        offline = ("--ignore-installed", "--no-deps", "--no-index", "--no-compile")
        run(sys.executable, "-m", "pip", "--python", self.bin / "python", "install", "-q", *offline, wheel)

    def run(self, name: str, *words: object) -> subprocess.CompletedProcess:
        hidden = ("PYTHONPATH", "NUMBA_CACHE_DIR")
        environment = {key: value for key, value in os.environ.items() if key not in hidden}
        environment |= {"XDG_CACHE_HOME": str(self.cache), "PYTHONIOENCODING": "utf-8"}
        return run(self.bin / name, *words, cwd=self.here, env=environment)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"), wheel)


def test_an_installed_package_finds_everything_inside_itself(installed):
    code = "import sys, othello_nn.resources as r; print(r.__file__, r.CHECKPOINTS, r.TRAIN, *sys.path, sep='\\n')"
    module, checkpoints, train, *path = map(Path, installed.run("python", "-c", code).stdout.splitlines())
    inside = installed.site / "othello_nn"
    assert (module, checkpoints, train) == (inside / "resources.py", inside / "checkpoints", inside / "train.py")
    assert ROOT not in path
    listed = [
        json.loads(line)
        for line in installed.run("python", "-m", "othello_nn", "players", "--json").stdout.splitlines()
    ]
    assert {Path(name).stem for name in NETS} <= {player["name"] for player in listed}
    assert installed.run("othello", "--help").stdout.startswith("usage: othello ")
    assert "othello-train --preset league" in installed.run("othello-train", "--help").stdout


def test_installed_commands_play_and_train_from_any_folder(installed):
    """One test for all that compiles: from an empty cache it takes half a minute."""
    words = ("bestmove", "start", "--player", "champion:depth=2", "--json")
    first, second = installed.run("othello", *words), installed.run("othello", *words)
    found = json.loads(first.stdout)
    assert (found["depth"], found["move"]) == (2, json.loads(second.stdout)["move"])
    assert (first.stderr, second.stderr) == ("compiling (first run only) …\n", "")
    assert list(installed.cache.glob("othello_nn/site-packages-*/*/engine/*.nbc"))
    assert not list(installed.site.glob("othello_nn/**/*.nb?"))

    runs = installed.folder / "mine"
    words = (
        "--games",
        16,
        "--threads",
        1,
        "--run",
        "tiny",
        "--runs",
        runs,
        "--set",
        "net.tuples=all-1",
        "--set",
        "measure.probcut=0",
    )
    done = installed.run("othello-train", *words)
    assert f"othello match {runs / 'tiny'} swh" in done.stdout
    assert (runs / "tiny" / "state.safetensors").is_file()
    assert not list(installed.here.iterdir())
