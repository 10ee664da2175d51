from __future__ import annotations

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from capeval.runs.folder import safe_name

NAME = st.text(st.characters(), max_size=150) | st.from_regex(r"[a-c/.-]{1,3}", fullmatch=True)


@settings(deadline=None)
@given(NAME)
@example("..")
@example("")
@example("a" * 5000)
@example("../../etc/passwd")
@example("C:\\x")
@example("\ud800")
def test_safe_name_is_one_plain_path_component(name: str) -> None:
    safe = safe_name(name)
    assert safe
    assert safe.isascii()
    assert safe.isprintable()
    assert not set(safe) & set('/\\:*?"<>| \x00')
    assert safe not in (".", "..")
    assert not safe.startswith((".", "-"))
    assert not safe.endswith(".")
    assert len(safe) <= 120


@settings(deadline=None)
@given(NAME, NAME)
@example("a/b", "a-b")
@example("a", "a.")
@example("a/b", safe_name("a/b"))
@example("a" * 200, "a" * 201)
def test_distinct_names_stay_distinct(one: str, other: str) -> None:
    assume(one != other)
    assert safe_name(one) != safe_name(other)


@pytest.mark.parametrize("name", ["gpt-4o-2024-08-06@tuna-cap-v1", "lexical-2", "a_b+c.d"])
def test_plain_names_are_kept(name: str) -> None:
    assert safe_name(name) == name
