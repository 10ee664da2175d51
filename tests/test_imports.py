"""Who may import whom: the rooms of the design. Which versions the tests install."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import capeval

PACKAGE = Path(capeval.__file__).parent

GROUND = (
    *("version", "text", "language", "errors", "config", "options"),
    *("schema", "files", "stats", "llm", "video", "show", "runs", "local_models"),
)
"""The ground floor: each may import those before it, and no feature."""
FEATURES = (
    *("scoring", "judging", "captioners", "rating", "correlation", "trust", "mcq", "comparing"),
    *("metrics", "construct", "reporting", "evaluating"),
)
"""The features: each may import the ground floor, and those before it."""
ORDER = (*GROUND, *FEATURES)
ROOMS = {room: {*ORDER[:at]} for at, room in enumerate(ORDER)}
# The command line and the public face name features as text.
ROOMS |= {"cli": {*GROUND}, "__init__": {*ORDER}, "__main__": {"cli"}}
SHARED_NAMES = {"__init__", "options", "protocol", "registry"}
"""Names that several modules may have."""
HEAVY = {
    *("PIL", "aiohttp", "av", "genai_prices", "jinja2", "matplotlib", "numpy"),
    *("openai", "pyarrow", "scipy", "tenacity", "torch", "transformers"),
}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def imported(path: Path) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
    return found


MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


@pytest.mark.parametrize("room", sorted({room_of(path) for path in MODULES.values()}))
def test_room_imports_only_what_it_may(room: str) -> None:
    allowed = {room} | ROOMS[room]
    trespasses = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in MODULES.values()
        if room_of(path) == room
        for line, name in imported(path)
        if name.split(".")[0] == "capeval" and name.split(".")[1] not in {*allowed, "__version__"}
    ]
    assert trespasses == []


def test_there_is_no_circle() -> None:
    """Also none inside functions: then any module can be read after those that it imports."""
    needs = {
        module: {
            found
            for _, name in imported(path)
            for found in (name, name.rpartition(".")[0])
            if found in MODULES and found != module and found != "capeval"
        }
        for module, path in MODULES.items()
    }
    while free := [module for module, of in needs.items() if not of & needs.keys()]:
        for module in free:
            del needs[module]
    assert sorted(needs) == []


def test_no_two_modules_have_one_name() -> None:
    names = Counter(path.stem for path in MODULES.values())
    assert {name for name, count in names.items() if count > 1} <= SHARED_NAMES


def test_no_module_imports_the_public_face() -> None:
    """Else a room could reach any other through `capeval` itself."""
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in PACKAGE.rglob("*.py")
        for line, name in imported(path)
        if name == "capeval"
    ]
    assert found == []


HELP = f"""
import sys
import capeval
capeval.__version__, dir(capeval)
from capeval.cli import main
for command in sys.argv[1:]:
    sys.argv = ["capeval", *command.split(), "--help"]
    try: main()
    except SystemExit as end: assert not end.code
    allowed = {{"numpy"}} if command else set()
    print(command, sorted({HEAVY!r} & set(sys.modules) - allowed), file=sys.stderr)
import capeval.llm.asker
assert not {{"openai", "tenacity"}} & {{*sys.modules}}
"""
COMMANDS = (
    *("", "annotate review", "calibrate", "compare", "correlate", "frames", "generate", "inspect"),
    *("leaderboard", "metrics", "mcq construct review", "mcq temporal", "models", "plot", "probe"),
    *("rate merge", "rate sheet", "report", "score"),
)


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    command = [sys.executable, "-c", HELP, *COMMANDS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [f"{command} []" for command in COMMANDS]


def test_every_dependency_is_locked() -> None:
    root = Path(__file__).parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    needs = {need for extra in (project["dependencies"], *extras) for need in extra}
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    pins = [re.fullmatch(r"([a-z0-9-]+)==[\w.]+( ; .+)?", line) for line in lines]
    assert None not in pins
    assert {_project(need) for need in needs} - {_project(line) for line in lines} == {"capeval"}


def _project(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found
    return re.sub(r"[-_.]+", "-", found[0]).lower()
