"""The text of messages: what a mistyped name means, and what a word is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.language import word_count, words
from capeval.text import nearest, normal_form

NAMES = ["camera", "scene", "action", "attribute"]


@pytest.mark.parametrize(
    ("typed", "valid", "meant"),
    [
        ("ACTION", NAMES, "action"),
        ("score", NAMES, None),
        ("a", NAMES, None),
        ("index", ["idx", "caption"], "idx"),
        ("TUNA_001", ["TUNA_0001"], "TUNA_0001"),
        ("TUNA_0123", ["TUNA_0987"], None),
        (5, NAMES, None),
    ],
)
def test_only_a_name_that_is_likely_meant_is_suggested(
    typed: object, valid: list[str], meant: str | None
) -> None:
    assert nearest(typed, valid) == (f'; did you mean "{meant}"?' if meant else "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("एक आदमी सड़क पर चलता है।", ["एक", "आदमी", "सड़क", "पर", "चलता", "है"]),
        ("ஒரு மனிதன் நடக்கிறான்", ["ஒரு", "மனிதன்", "நடக்கிறான்"]),
        ("رَجُلٌ يَمْشِي.", ["رَجُلٌ", "يَمْشِي"]),
        ("הַכֶּלֶב רָץ", ["הַכֶּלֶב", "רָץ"]),
        ("کتاب\u200cها اینجا", ["کتابها", "اینجا"]),
        ("Cafe\u0301 -- \u0301 ❤\ufe0f!", ["caf\xe9"]),
        ("在2024年 red车・ที่", ["在", "2024", "年", "red", "车", "ที่"]),
    ],
)
def test_words_of_every_script_are_whole(text: str, expected: list[str]) -> None:
    assert words(text) == [normal_form(word) for word in expected]


@given(text=st.one_of(st.text(), st.text("ab' _-’1é")))
def test_words_are_counted_as_they_are_found(text: str) -> None:
    assert word_count(text) == len(words(text))
