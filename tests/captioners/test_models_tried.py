"""The table of models in docs/generating.md, against the catalogue and the tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from capeval.captioners.catalogue import read_catalogue

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
HEADING = "## The models, and what was tried"
ROW = re.compile(
    r"^\| (?P<models>(?:`[^`|]+`(?:, )?)+) \| (?P<how>[^|]+) "
    r"\| (?P<shown>(?:`(?P<family>[^`|]+)`|none)(?:; [^|]+)?) \| (?P<never>[^|]*?) ?\|$"
)


def _table() -> list[re.Match[str]]:
    page = (ROOT / "docs" / "generating.md").read_text(encoding="utf-8")
    section = page.split(HEADING, 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    matches = [ROW.match(row) for row in rows]
    assert all(matches), [row for row, match in zip(rows, matches, strict=True) if not match]
    return [match for match in matches if match]


def _models(row: re.Match[str]) -> list[str]:
    return re.findall(r"`([^`]+)`", row["models"])


def test_every_model_of_the_catalogue_is_in_the_table_once() -> None:
    assert sorted(name for row in _table() for name in _models(row)) == sorted(read_catalogue())


def test_the_table_says_how_each_is_reached() -> None:
    catalogue = read_catalogue()
    for row in _table():
        for name in _models(row):
            entry = catalogue[name]
            assert ("in this process" in row["how"]) == (entry.reached == "transformers"), name
            assert ("not at all" in row["how"]) == (entry.reached == "nowhere"), name
            assert ("a server" in row["how"]) == (entry.serve is not None), name
            assert ("server" in row["never"]) == (entry.serve is not None), name


def test_what_runs_in_this_process_has_a_checkpoint_in_the_tests() -> None:
    from tests.captioners import tiny, tiny_newer

    made, catalogue = {*tiny.FAMILIES, *tiny_newer.FAMILIES}, read_catalogue()
    for row in _table():
        in_process = {catalogue[name].reached == "transformers" for name in _models(row)}
        assert in_process == {row["family"] in made}, row["models"]
    # What is made and not listed is said not to be in the catalogue.
    assert made - {row["family"] for row in _table()} == {"kimi-k2.5"}


def test_the_tests_that_it_names_exist() -> None:
    named = {name for row in _table() for name in re.findall(r"test_\w+\.py", row["shown"])}
    assert named
    assert all((ROOT / "tests" / "captioners" / name).is_file() for name in named)
