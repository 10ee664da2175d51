"""The commands, options and links in the README and the docs are true."""

import os
import re
import runpy
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from capeval.cli.app import app
from tests.world import ROOT, typed

PAGES = [*(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PAGES}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(TEXTS[page]) if kind == language]


SHOWN = [(page, *text.split("\n", 1)) for page in TEXTS for text in blocks(page, "console")]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of docs/comparing.md: 40 videos, each two clips of the sample."""
    folder = tmp_path_factory.mktemp("pairs")
    runpy.run_path(str(ROOT / "scripts" / "make_sample"))["write_pairs"](folder / "pairs", 40)
    files = [str(folder / "pairs" / f"{name}.jsonl") for name in ("confused", "terse", "thorough")]
    annotations = str(folder / "pairs" / "annotations.json")
    capeval(folder, "judge", *files, "--annotations", annotations, "--judge", "lexical")
    return folder


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, judged, and the responses of docs/mcq.md."""
    folder = tmp_path_factory.mktemp("readme")
    capeval(folder, "judge", "sample", "--judge", "lexical")
    (responses,) = (text for text in blocks("docs/mcq.md", "json") if '"reply"' in text)
    (folder / "responses.jsonl").write_text(responses, encoding="utf-8")
    return folder


def capeval(folder: Path, *arguments: str) -> str:
    env = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    done = typed(folder, *arguments, columns=80, env=env)
    assert done.code == 0, done.err
    return "\n".join(line.rstrip() for line in done.out.splitlines())


@pytest.mark.parametrize(("page", "command", "output"), SHOWN)
def test_commands_print_what_is_shown(
    page: str, command: str, output: str, judged: Path, pairs: Path, tmp_path: Path
) -> None:
    # Some commands change the run that later ones would show.
    runs = pairs if page in {"README.md", "docs/comparing.md"} else judged
    folder = Path(shutil.copytree(runs, tmp_path / "judged"))
    arguments = [
        str(ROOT / part) if part.startswith("annotations/") else part
        for part in shlex.split(command)[2:]
    ]
    printed = capeval(folder, *arguments)
    position = 0
    # "…" stands for lines that are not shown.
    for part in re.split(r"^…\n", output, flags=re.MULTILINE):
        found = printed.find(part.rstrip(), position)
        assert found >= 0, f"{page}: {command}: not printed: {part}"
        position = found + len(part.rstrip())


def options_of(command: Any) -> list[str]:
    return [name for option in command.params for name in (*option.opts, *option.secondary_opts)]


def test_options_of_shown_commands_exist() -> None:
    unknown = []
    for page, arguments in commands():
        command: Any = get_command(app)
        known = {"--help", *options_of(command)}
        for word in arguments:
            if word in getattr(command, "commands", {}):
                command = command.get_command(None, word)
                known |= {*options_of(command)}
            elif re.match(r"--?[a-z]", word) and word not in known:
                unknown.append(f"{page}: {word} in capeval {' '.join(arguments)}")
    assert unknown == []


def commands() -> Iterator[tuple[str, list[str]]]:
    for page in TEXTS:
        for line in "".join([*blocks(page, ""), *blocks(page, "console")]).splitlines():
            for part in line.removeprefix("$ ").split("&&"):
                text = re.split(r"\s#\s", part.strip())[0]
                if text.startswith("capeval "):
                    yield page, shlex.split(text)[1:]


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
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_index() -> None:
    names = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    users = set(re.findall(r"^\| \[([\w-]+\.md)\]", TEXTS["docs/README.md"], re.MULTILINE))
    contributors = set(re.findall(r"\(docs/([\w-]+\.md)\)", TEXTS["CONTRIBUTING.md"]))
    assert users | contributors == names
    assert not users & {"code.md", "dependencies.md", "benchmarks.md"}
