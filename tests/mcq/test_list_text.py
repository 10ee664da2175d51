"""Lists that tables store as text."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.mcq.list_text import parse_list

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LISTS = st.lists(TEXTS, min_size=2, max_size=26)


def printed_by_numpy(items: list[str]) -> str:
    return str(np.array([*items, None], dtype=object)[:-1])


@given(LISTS)
def test_a_list_is_read_from_every_notation(items: list[str]) -> None:
    assert parse_list(repr(items)) == items
    assert parse_list(json.dumps(items)) == items
    assert parse_list(json.dumps(items, ensure_ascii=False, indent=1)) == items
    assert parse_list(printed_by_numpy(items)) == items


@given(LISTS, st.data())
def test_a_lost_comma_never_fuses_items(items: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(items) - 1))
    first, second = (", ".join(map(repr, part)) for part in (items[:at], items[at:]))
    blank = data.draw(st.sampled_from(["", " ", "\n "]))
    try:
        found = parse_list(f"[{first}{blank}{second}]")
    except ValueError:
        return
    assert found == items


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("['left', \"it's right\"]", ["left", "it's right"]),
        (r"['it\'s', 'tab\there', '\x41\u00e9\U0001F600']", ["it's", "tab\there", "Aé😀"]),
        ("['a' 'b'\n 'c']", ["a", "b", "c"]),
        ("['a, b' 'c, d']", ["a, b", "c, d"]),
        ("[1, 2.50, -3]", ["1", "2.50", "-3"]),
        ("[ 1  2 10]", ["1", "2", "10"]),
        ('["1e3", 1e3]', ["1e3", "1e3"]),
        (" [] ", []),
        ("['A' , 'B'\n, 'C']", ["A", "B", "C"]),
    ],
)
def test_lists_are_read_as_they_are_written(text: str, items: list[str]) -> None:
    assert parse_list(text) == items


@pytest.mark.parametrize(
    "text",
    [
        "left, right",
        "['left', 'right'",
        "[left, right]",
        "['a''b']",
        "['a', 'b' 'c']",
        "['it's', 'b']",
        "['a', None]",
        '["a", ["b"]]',
        "['a', __import__('os')]",
        r"['\U00110000', 'b']",
        "[" * 50_000 + "]",
        "['a" + "\\'" * 50_000 + "]",
    ],
)
def test_a_list_that_is_unclear_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a list|a broken escape"):
        parse_list(text)
