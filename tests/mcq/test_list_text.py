"""Lists that tables store as text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.mcq.layouts import parse_list

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LISTS = st.lists(TEXTS, min_size=2, max_size=26)


@given(LISTS)
def test_a_list_is_read_from_json_and_from_what_python_prints(items: list[str]) -> None:
    assert parse_list(repr(items)) == items
    assert parse_list(json.dumps(items, ensure_ascii=False, indent=1)) == items


@given(LISTS, st.data())
def test_a_lost_comma_never_fuses_items(items: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(items) - 1))
    first, second = (", ".join(map(repr, part)) for part in (items[:at], items[at:]))
    blank = data.draw(st.sampled_from(["", " ", "\n "]))
    with pytest.raises(ValueError, match="is not a list"):
        parse_list(f"[{first}{blank}{second}]")


@pytest.mark.parametrize(
    "text",
    ["left, right", "[left, right]", "['a', None]", '["a", ["b"]]', "[" * 50_000 + "]"],
)
def test_what_is_no_list_of_texts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a list"):
        parse_list(text)


def test_numbers_become_texts() -> None:
    assert parse_list("[1, 2.50, 1e3]") == ["1", "2.50", "1e3"]
    assert parse_list("['a', -3]") == ["a", "-3"]
