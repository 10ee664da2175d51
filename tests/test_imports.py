"""Who may import whom: the rooms of the design."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import capeval
from capeval import evaluation

PACKAGE = Path(capeval.__file__).parent

# Everyone may import errors and version.
ROOMS: dict[str, set[str]] = {
    "schema": set(),
    "errors": set(),
    "version": set(),
    "files": {"schema"},
    "stats": set(),
    "llm": {"schema"},
    "video": {"schema"},
    "judging": {"schema", "files", "llm"},
    "scoring": {"schema", "stats"},
    "captioners": {"schema", "files", "video", "llm"},
    "metrics": {"schema", "llm", "stats"},
    "correlation": {"schema", "files", "stats", "scoring"},
    "mcq": {"schema", "files", "captioners", "llm", "stats"},
    "evaluation": {
        "schema",
        "files",
        "video",
        "judging",
        "llm",
        "scoring",
        "captioners",
        "correlation",
    },
}
# The parts of `evaluation`, in the order of its docstring.
PARTS: dict[str, set[str]] = {
    "config": set(),
    "sources": set(),
    "scores": set(),
    "generating": {"config", "sources"},
    "judging": {"config", "scores"},
    "correlating": {"sources", "scores"},
    "judged": {"sources", "scores"},
    "comparing": {"judged"},
    "leaderboard": {"config", "sources", "scores"},
}
EVERYTHING = {*ROOMS, "evaluation"}
ROOMS |= {
    "reporting": EVERYTHING | {"api"},
    "api": EVERYTHING,
    "cli": EVERYTHING | {"reporting", "api"},
    "__init__": {"api", "correlation", "evaluation", "schema", "scoring"},
    "__main__": {"cli"},
}
# The nouns and the exceptions know nothing of ours at all.
ALONE = {"schema", "errors", "version"}
HEAVY = {
    "torch",
    "scipy",
    "numpy",
    "openai",
    "aiohttp",
    "transformers",
    "av",
    "matplotlib",
    "jinja2",
}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE / "evaluation").parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and full name of every import, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name


def test_every_room_is_in_the_design() -> None:
    rooms = {room_of(path) for path in PACKAGE.rglob("*.py")}
    assert rooms <= set(ROOMS)


@pytest.mark.parametrize("room", sorted({room_of(path) for path in PACKAGE.rglob("*.py")}))
def test_room_imports_only_what_it_may(room: str) -> None:
    allowed = {room} | ROOMS[room] | (set() if room in ALONE else {"errors", "version"})
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


def test_parts_of_evaluation_import_one_way() -> None:
    folder = PACKAGE / "evaluation"
    trespasses = [
        f"{path.relative_to(folder)}:{line}: {name}"
        for path in folder.rglob("*.py")
        for line, name in imported(path)
        if name.startswith("capeval.evaluation.")
        and name.split(".")[2] not in {part_of(path), *PARTS.get(part_of(path), set())}
    ]
    assert trespasses == []


def test_parts_of_evaluation_are_those_of_its_docstring() -> None:
    parts = {part_of(path) for path in (PACKAGE / "evaluation").rglob("*.py")}
    assert parts == {"__init__", *PARTS}
    told = [re.findall(r"`(\w+)`", line) for line in (evaluation.__doc__ or "").splitlines()]
    assert [(part, set(may)) for part, *may in filter(None, told)] == list(PARTS.items())
    for place, part in enumerate(PARTS):
        assert PARTS[part] <= set(list(PARTS)[:place]), part


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
        "collections",
        "dataclasses",
        "functools",
        "itertools",
        "math",
        "threading",
        "typing",
        "numpy",
        "scipy",
        "capeval",
    }


@pytest.mark.parametrize(
    "act",
    [
        "import capeval; capeval.__version__; dir(capeval)",
        (
            "import sys; sys.argv = ['capeval', '--help']\n"
            "from capeval.cli import main\n"
            "try: main()\n"
            "except SystemExit as end: assert not end.code"
        ),
        (
            "import sys; sys.argv = ['capeval', 'score', '--help']\n"
            "from capeval.cli import main\n"
            "try: main()\n"
            "except SystemExit as end: assert not end.code"
        ),
        (
            "import sys; sys.argv = ['capeval', 'correlate', '--help']\n"
            "from capeval.cli import main\n"
            "try: main()\n"
            "except SystemExit as end: assert not end.code"
        ),
        (
            "import sys; sys.argv = ['capeval', 'inspect', '--help']\n"
            "from capeval.cli import main\n"
            "try: main()\n"
            "except SystemExit as end: assert not end.code"
        ),
        (
            "import sys; sys.argv = ['capeval', 'plot', '--help']\n"
            "from capeval.cli import main\n"
            "try: main()\n"
            "except SystemExit as end: assert not end.code"
        ),
    ],
    ids=["import", "help", "score help", "correlate help", "inspect help", "plot help"],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(act: str) -> None:
    code = f"{act}\nimport sys\nprint(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
