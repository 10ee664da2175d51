"""Who may import whom: the rooms of the design. Which versions the tests install."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import capeval

PACKAGE = Path(capeval.__file__).parent

# Every package may import these.
COMMON = {
    "errors",
    "text",
    "version",
    "config",
    "display",
    "options",
    "plugins",
    "thinking",
    "tracing",
}
ROOMS: dict[str, set[str]] = {
    "schema": set(),
    "errors": {"text"},
    "text": set(),
    "version": set(),
    "config": {"errors", "text"},
    "options": {"errors", "plugins", "text"},
    "plugins": {"errors", "text"},
    "thinking": {"errors"},
    "tracing": set(),
    "display": {"errors", "text"},
    "files": {"schema"},
    "stats": set(),
    "llm": {"schema"},
    "video": {"schema"},
    "scoring": {"schema", "stats"},
    "runs": {"schema", "files", "scoring"},
    "local_models": set(),
    "judging": {"schema", "files", "llm", "runs", "local_models"},
    "captioners": {"schema", "files", "video", "llm", "runs", "local_models"},
    "metrics": {"schema", "files", "llm", "stats", "runs", "local_models"},
    "rating": {"schema", "files", "stats", "scoring", "runs"},
    "correlation": {"schema", "files", "stats", "scoring", "runs", "rating"},
    "trust": {"schema", "files", "stats", "scoring", "judging", "runs", "rating"},
    "mcq": {"schema", "files", "video", "captioners", "llm", "stats", "runs"},
    "construct": {
        *("schema", "files", "video", "captioners", "llm", "stats", "runs", "rating"),
        *("judging", "mcq"),
    },
}
ROOMS |= {
    "comparing": {
        *("schema", "files", "stats", "scoring", "runs", "show", "captioners", "mcq"),
    },
}
ROOMS |= {"reporting": set(ROOMS)}
ROOMS |= {"api": set(ROOMS)}
ROOMS |= {
    "cli": set(ROOMS),
    "__init__": {"api", "correlation", "captioners", "judging", "schema", "scoring", "trust"},
    "__main__": {"cli"},
}
# These import nothing else of capeval.
ALONE = {"schema", "text", "version", "config", "errors", "options", "plugins", "tracing"}
HEAVY = {
    "torch",
    "scipy",
    "numpy",
    "aiohttp",
    "genai_prices",
    "openai",
    "tenacity",
    "transformers",
    "av",
    "matplotlib",
    "jinja2",
    "pyarrow",
}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def imported(path: Path) -> list[tuple[int, str]]:
    """Return line and full name of every import, those inside functions too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
    return found


def test_every_room_is_in_the_design() -> None:
    rooms = {room_of(path) for path in PACKAGE.rglob("*.py")}
    assert rooms <= set(ROOMS)


@pytest.mark.parametrize("room", sorted({room_of(path) for path in PACKAGE.rglob("*.py")}))
def test_room_imports_only_what_it_may(room: str) -> None:
    allowed = {room} | ROOMS[room] | (set() if room in ALONE else COMMON)
    trespasses = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in PACKAGE.rglob("*.py")
        if room_of(path) == room
        for line, name in imported(path)
        if name.split(".")[0] == "capeval"
        and name != "capeval.__version__"
        and name.split(".")[1] not in allowed
    ]
    assert trespasses == []


def test_no_module_imports_the_public_face() -> None:
    """Else a room could reach any other through `capeval` itself."""
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in PACKAGE.rglob("*.py")
        for line, name in imported(path)
        if name == "capeval"
    ]
    assert found == []


def test_stats_open_no_file_and_know_no_model() -> None:
    names = {
        name.split(".")[0]
        for path in (PACKAGE / "stats").glob("*.py")
        for _, name in imported(path)
    }
    assert names <= {
        "__future__",
        "bisect",
        "collections",
        "dataclasses",
        "functools",
        "itertools",
        "math",
        "statistics",
        "threading",
        "typing",
        "numpy",
        "scipy",
        "capeval",
    }


HELP = f"""
import sys
import capeval
capeval.__version__, dir(capeval)
from capeval.cli import main
for command in sys.argv[1:]:
    sys.argv = ["capeval", *command.split(), "--help"]
    try: main()
    except SystemExit as end: assert not end.code
    print(command, sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)
import capeval.llm.asker
assert not {{"openai", "tenacity"}} & {{*sys.modules}}
"""
COMMANDS = (
    *(
        "",
        "annotate review",
        "calibrate",
        "compare",
        "correlate",
        "frames",
        "inspect",
        "leaderboard",
    ),
    *("metrics", "mcq construct review", "mcq temporal", "models", "plot", "probe"),
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
    """Return the normalized project name of a requirement."""
    found = re.match(r"[\w.-]+", requirement)
    assert found
    return re.sub(r"[-_.]+", "-", found[0]).lower()
