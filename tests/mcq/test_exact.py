import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.mcq.exact import Reading, read_answer
from capeval.schema import OPTION_LETTERS
from tests.world import lines

HERE = Path(__file__).parent
SETS: dict[str, list[str]] = json.loads((HERE / "option_sets.json").read_text(encoding="utf-8"))
REPLIES = lines(HERE / "replies.jsonl")


def options_of(row: dict[str, Any]) -> list[str]:
    named = row["options"]
    return SETS[named] if isinstance(named, str) else named


def letter(option: int | None) -> str | None:
    return None if option is None else OPTION_LETTERS[option]


def wrongly_read(replies: list[dict[str, Any]]) -> tuple[list[str], int]:
    """Return the replies that are read as another option, and how many are not read."""
    found = [(row, letter(read_answer(row["reply"], options_of(row)).option)) for row in replies]
    other = [row["reply"] for row, read in found if read not in (None, row["answer"])]
    return other, sum(read is None and row["answer"] is not None for row, read in found)


def test_no_reply_is_read_as_another_option_than_by_a_careful_reader() -> None:
    """The figures of docs/mcq.md, of `exact` and of the first capital letter."""
    assert len(REPLIES) == 996
    assert wrongly_read(REPLIES) == ([], 56)
    first = [re.search("[A-D]", row["reply"]) for row in REPLIES]
    pairs = zip(first, REPLIES, strict=True)
    assert sum((found and found[0]) == row["answer"] for found, row in pairs) == 511


def test_replies_in_four_languages_are_read_as_by_a_careful_reader() -> None:
    replies = lines(HERE / "multilingual_replies.jsonl")
    assert len(replies) == 310
    assert wrongly_read(replies) == ([], 8)


def test_what_is_not_stated_is_not_read() -> None:
    assert wrongly_read(lines(HERE / "unstated_replies.jsonl")) == ([], 0)


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        (" \n", "empty"),
        ("C", "symbol"),
        ("Berries.", "text"),
        ("I choose C.", "statement"),
        ("Here we see berries.", "mention"),
        (r"\boxed{C}", "box"),
        ("<think>A or B", "unfinished reasoning"),
        ("A tree.", "no option"),
        ("A or B", "several options"),
        ("It is not A.", "denied"),
        ("B. Berries.", "contradictory"),
        ("I can't tell.", "abstains"),
    ],
)
def test_rules_are_named(reply: str, rule: str) -> None:
    assert read_answer(reply, SETS["fruit"]).rule == rule


def test_options_that_are_alike_cannot_be_meant_by_their_text() -> None:
    assert read_answer("left", ["left", "Left.", "right"]) == Reading(None, "no option")
    assert read_answer("B", ["left", "Left.", "right"]) == Reading(1, "symbol")


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(reply: str) -> None:
    found = read_answer(reply, SETS["fruit"])
    assert found.option is None or 0 <= found.option < 4


# fmt: off
HOSTILE = [
    "A", "A ", "\nA", "((((A", "not ", '"', "[{<*", "if A but B. ", "Apples.\n", "\\boxed{",
    "\\text{", "<answer>", "the answer is ", "A. wait no B. ", "option ", "$", "答案是",
    "is most likely the ", '{"answer": "', "<p ", "{{", "\\color{", "A would be ",
    "Apples and then ", "Apples, which is ", "\n2. a", "A/",
]
# fmt: on


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_replies_of_20_000_characters_end(part: str) -> None:
    """Each takes less than half a second; patterns that backtrack would take minutes."""
    read_answer((part * 20_000)[:20_000], SETS["fruit"])
    read_answer("The answer is " + (part * 20_000)[:20_000] + "x", SETS["fruit"])
