"""The table of what was tried, in docs/generating.md, against the catalogue and the tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from capeval.captioners.catalogue import read_catalogue

pytest.importorskip("torch")

DOCS = Path(__file__).parents[2] / "docs" / "generating.md"
ROW = re.compile(
    r"^\| (?P<models>(?:`[^`|]+`(?:, )?)+) \| (?P<how>[^|]+) \| `(?P<family>[^`|]+)` \|"
)


def _table() -> list[re.Match[str]]:
    section = DOCS.read_text(encoding="utf-8").split("## What was tried", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    matches = [ROW.match(row) for row in rows]
    assert all(matches), rows
    return [match for match in matches if match]


def test_every_model_run_in_this_process_is_in_the_table_once() -> None:
    listed = [name for row in _table() for name in re.findall(r"`([^`]+)`", row["models"])]
    entries = read_catalogue().values()
    assert sorted(listed) == sorted(e.name for e in entries if e.reached == "transformers")


def test_the_tests_have_each_checkpoint_of_the_table() -> None:
    from tests.captioners import tiny, tiny_newer

    made = {*tiny.FAMILIES, *tiny_newer.FAMILIES}
    assert {row["family"] for row in _table()} <= made
    # What is made and not listed is said not to be in the catalogue.
    assert made - {row["family"] for row in _table()} == {"kimi-k2.5", "perception-lm"}


def test_a_server_is_among_what_was_never_run_where_there_is_a_line_to_start_one() -> None:
    catalogue = read_catalogue()
    for row in _table():
        for name in re.findall(r"`([^`]+)`", row["models"]):
            never = row.string.rsplit("|", 2)[1]
            assert ("server" in never) == (catalogue[name].serve is not None), name
