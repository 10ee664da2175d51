"""The commands, options, links and tables in the README and the docs are true."""

from __future__ import annotations

import csv
import importlib
import inspect
import operator
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import capeval as public
from capeval.cli.app import app
from tests.files.workbooks import save_workbook
from tests.test_imports import COMMON, PACKAGE, ROOMS
from tests.test_public_functions import FUNCTIONS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PAGES}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(TEXTS[page]) if kind == language]


SHOWN = [
    (page, *block.split("\n", 1))
    for page in TEXTS
    for block in blocks(page, "console")
    if block.startswith("$ capeval ")
]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    capeval(folder, "judge", "sample", "--judge", "lexical")
    # The sample's labels as docs/tables.md describes them.
    with (ROOT / "annotations" / "sample" / "human.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    header = ["Clip", "Model", "Element", "Annotator", "Verdict", "Comment"]
    save_workbook(folder / "labels.xlsx", [header, *([*row, None] for row in rows)])
    return folder


def capeval(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "capeval", *arguments],
        cwd=folder,
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


@pytest.mark.parametrize(("page", "command", "output"), SHOWN)
def test_commands_print_what_is_shown(
    page: str, command: str, output: str, judged: Path, tmp_path: Path
) -> None:
    if "--labels" in command:
        # The run keeps the labels, and later commands would show calibrated scores.
        judged = Path(shutil.copytree(judged, tmp_path / "judged"))
    arguments = [
        str(ROOT / part) if part.startswith("annotations/") else part
        for part in shlex.split(command)[2:]
    ]
    printed = capeval(judged, *arguments)
    position = 0
    # "…" stands for lines that are not shown.
    for part in re.split(r"^…\n", output, flags=re.MULTILINE):
        found = printed.find(part.rstrip(), position)
        assert found >= 0, f"{page}: {command}: not printed: {part}"
        position = found + len(part.rstrip())


def test_the_readme_shows_output() -> None:
    assert [page for page, *_ in SHOWN].count("README.md") == 1


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield every `capeval ...` command of a code block, with its page."""
    for page in TEXTS:
        for line in "".join([*blocks(page, ""), *blocks(page, "console")]).splitlines():
            for part in re.split(r"&&|\|\|?", line.removeprefix("$ ")):
                text = re.split(r"\s[#>]\s?|\s\(", part.strip())[0]
                if text.startswith("capeval ") and "[" not in text:
                    yield page, shlex.split(text)[1:]


def typed_commands() -> Any:
    from typer.main import get_command

    return get_command(app)


@pytest.mark.parametrize(("page", "arguments"), list(commands()))
def test_options_of_shown_commands_exist(page: str, arguments: list[str]) -> None:
    command = typed_commands()
    known = set(option_names(command))
    for word in arguments:
        if word.startswith("-") and not re.fullmatch(r"-?\d.*", word):
            assert word in known | {"--help", "-h"}, f"{page}: capeval {' '.join(arguments)}"
        elif word in getattr(command, "commands", {}):
            command = command.commands[word]
            known |= set(option_names(command))


@pytest.mark.parametrize("page", sorted(set(TEXTS) - {"CHANGELOG.md", "docs/dependencies.md"}))
def test_options_in_the_text_exist(page: str) -> None:
    # Options of scripts and of other programs.
    others = {"--matrix", "--against", "--python", "--dependencies", "--part", "--index-url"}
    others |= {"--reasoning-parser", "--reasoning-format"}
    others |= {"--mm-processor-kwargs", "--media-io-kwargs", "--max-model-len"}
    known = {name for command in all_commands(typed_commands()) for name in option_names(command)}
    inline = " ".join(re.findall(r"`([^`\n]+)`", BLOCK.sub("", TEXTS[page])))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", inline))
    assert sorted(named - known - others - {"--help"}) == []


def test_the_table_of_functions_is_that_of_their_signatures() -> None:
    rows = re.findall(
        r"^\| `capeval\.(\w+)` \|(.*?)\|(.*)\|$", TEXTS["docs/python.md"], re.MULTILINE
    )
    assert sorted(name for name, *_ in rows) == sorted(FUNCTIONS)
    for name, listed, _ in rows:
        named = re.findall(r"`(\w+)`", listed)
        parameters = inspect.signature(getattr(public, name)).parameters
        assert [one for one in named if one not in parameters] == [], name
        needed = [one.name for one in parameters.values() if one.default is one.empty]
        assert named[: len(needed)] == needed, name


def test_the_places_that_the_map_of_the_code_names_exist() -> None:
    """A name that is not a path is in one of the files of its row."""
    for row in TEXTS["docs/code.md"].splitlines():
        named = re.findall(r"`([^`]+)`", row.partition("| ")[2].partition(" | ")[2])
        paths = [name for name in named if re.match(r"capeval/|tests/", name)]
        assert [path for path in paths if not (ROOT / path).exists()] == [], row
        modules = [
            importlib.import_module(path.removesuffix(".py").replace("/", "."))
            for path in paths
            if path.endswith(".py") and path.startswith("capeval/")
        ]
        for name in set(named) - set(paths) - {"tuna-cap-v1", "scores.json", "-q", "compare"}:
            found = [one for one in modules if has(one, name)]
            assert found, f"{name}: {row}"


def has(module: Any, name: str) -> bool:
    try:
        return bool(operator.attrgetter(name)(module))
    except AttributeError:
        return False


def option_names(command: Any) -> list[str]:
    return [name for option in command.params for name in (*option.opts, *option.secondary_opts)]


def all_commands(command: Any) -> Iterator[Any]:
    yield command
    for inner in getattr(command, "commands", {}).values():
        yield from all_commands(inner)


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_somewhere(page: str) -> None:
    broken = []
    for link in re.findall(r"\]\(((?!https?:)[^)]+)\)", TEXTS[page]):
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_index() -> None:
    names = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert names == set(re.findall(r"^\| \[([\w-]+\.md)\]", TEXTS["docs/README.md"], re.MULTILINE))


def test_the_readme_is_short() -> None:
    assert TEXTS["README.md"].count("\n") <= 200


def test_modules_named_in_the_docs_exist() -> None:
    named = {
        (page, path)
        for page, text in TEXTS.items()
        if page != "CHANGELOG.md"
        for path in re.findall(r"`(capeval/[\w/]+(?:\.py|\.toml|/))", text)
    }
    assert [(page, path) for page, path in sorted(named) if not _in_checkout(path).exists()] == []


def _in_checkout(path: str) -> Path:
    # The tests may run without the source tree, on the installed package.
    return PACKAGE.parent / path


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needs = [*project["dependencies"], *(need for extra in extras.values() for need in extra)]
    names = {match[0] for need in needs if (match := re.match(r"[\w-]+", need))} - {"capeval"}
    rows = re.findall(r"^\| .+ \|$", TEXTS["docs/dependencies.md"], re.MULTILINE)
    words = {word.lower() for row in rows for word in re.findall(r"[\w-]+", row)}
    assert sorted(name for name in names if name.lower() not in words) == []


def test_layout_in_contributing_is_that_on_disk() -> None:
    section = TEXTS["CONTRIBUTING.md"].split("## Layout")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \|$", section, re.MULTILINE)
    on_disk = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if is_code(path)}
    assert {name for name, _ in rows} == on_disk - COMMON
    above: set[str] = set()
    for name, imports in rows:
        allowed = above if imports == "all above" else set(re.findall(r"`(\w+)`", imports))
        assert allowed == (ROOMS[name] & on_disk) - COMMON, name
        above |= {name}
    (common,) = re.findall(r"\nEvery package may import (.+?)\. Tests", section, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", common)) == COMMON


def is_code(path: Path) -> bool:
    if path.is_dir():
        return any(path.glob("*.py"))
    return path.suffix == ".py" and not path.name.startswith("_")
