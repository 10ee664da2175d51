"""Lists that tables store as text."""

from __future__ import annotations

import ast
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.mcq.formats.list_text import parse_list

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


@given(
    st.lists(st.sampled_from(["'", '"', "a", "b's", "1", ",", " ", "\n", "]", "\\n"]), max_size=16)
)
def test_what_is_read_is_what_python_means_but_for_fused_items(parts: list[str]) -> None:
    text = f"[{''.join(parts)}]"
    try:
        found = parse_list(text)
    except ValueError:
        return
    try:
        evaluated = [str(item) for item in ast.literal_eval(text)]
    except SyntaxError:  # numbers that only blanks separate
        assert "1 " in text or "1\n" in text or " 1" in text or "\n1" in text
        return
    if len(found) == len(evaluated):
        assert found == evaluated
    else:
        assert "," not in text or any("," in item for item in found)
        assert len(found) > len(evaluated)


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
    ("text", "reason"),
    [
        ("left, right", "is not a list"),
        ("('left', 'right')", "is not a list"),
        ("['left', 'right'", "is not a list"),
        ("[left, right]", "neither a quoted text nor a number: left"),
        ("['a''b']", "no comma between two items"),
        ("['a', 'b' 'c']", "commas between some of its items only"),
        ("['a' 'b', 'c']", "commas between some of its items only"),
        ("['it's', 'b']", "no comma between two items"),
        ("['a',, 'b']", "neither a quoted text nor a number: , 'b'"),
        ("['a', 'b',]", "neither a quoted text nor a number: ]"),
        ("['a' ... 'b']", "neither a quoted text nor a number: ..."),
        ("['a', None]", "neither a quoted text nor a number: None"),
        ("['a', True]", "neither a quoted text nor a number: True"),
        ('["a", null]', "neither a quoted text nor a number: null"),
        ('["a", ["b"]]', "neither a quoted text nor a number: ["),
        ("[np.str_('a'), np.str_('b')]", "neither a quoted text nor a number: np.str_"),
        ("[b'a', b'b']", "neither a quoted text nor a number: b'a'"),
        ("['a', __import__('os')]", "neither a quoted text nor a number: __import__"),
        ("[1. 2.5]", "neither a quoted text nor a number: 1."),
        ("[01, 2]", "neither a quoted text nor a number: 01"),
        ("['a', 'b'] + ['c']", "goes on after the list: + ['c']"),
        (r"['\q', 'b']", r"an unknown escape: \q"),
        (r"['\U00110000', 'b']", "an escape that is no character"),
        (r"['\ud800', 'b']", "an unpaired surrogate"),
        (r'["\ud800", "b"]', "an unpaired surrogate"),
        ("['a\nb', 'c']", "neither a quoted text nor a number"),
        ("[" * 50_000 + "]", "neither a quoted text nor a number: ["),
        ("['a" + "\\'" * 50_000 + "]", "neither a quoted text nor a number"),
    ],
)
def test_a_list_that_is_unclear_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as caught:
        parse_list(text)
    assert reason in str(caught.value)
