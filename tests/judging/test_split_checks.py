"""The checks on a split: at least 90% covered, at most 5% foreign."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.errors import ReplyError
from capeval.judging.contracts import CONTRACTS
from capeval.judging.split_checks import check_split, clean, words

TEN = [f"word{n}" for n in range(10)]
HUNDRED = [f"word{n}" for n in range(100)]


def test_ninety_percent_of_the_distinct_words_are_enough() -> None:
    check_split(" ".join(HUNDRED), [" ".join(HUNDRED[:50]), " ".join(HUNDRED[50:90])])
    with pytest.raises(ReplyError, match=r"only 89% .* missing: word89, word90, "):
        check_split(" ".join(HUNDRED), [" ".join(HUNDRED[:89])])
    check_split(" ".join(TEN), [" ".join(TEN[:9])])
    with pytest.raises(ReplyError, match="only 80%"):
        check_split(" ".join(TEN), [" ".join(TEN[:8])])


def test_words_said_often_count_once() -> None:
    check_split(" ".join([*TEN[:9], *["word9"] * 50]), [" ".join(TEN[:9])])


def test_five_percent_of_foreign_words_are_borne() -> None:
    caption = " ".join(HUNDRED)
    check_split(caption, [" ".join(HUNDRED[:95]), "a b c d e"])
    with pytest.raises(ReplyError, match=r"6% .* foreign: a, b, c, d, e, f"):
        check_split(caption, [" ".join(HUNDRED[:94]), "a b c d e f"])


def test_foreign_words_count_as_often_as_they_are_said() -> None:
    caption = " ".join(HUNDRED)
    with pytest.raises(ReplyError, match=r"foreign: very$"):
        check_split(caption, [caption, "very very very very very very"])


def test_case_punctuation_width_and_apostrophes_do_not_count() -> None:
    check_split("The MAN’s Ｒed “car” — STOPS!", ["the man's red car stops."])


def test_scripts_without_spaces_count_by_character() -> None:
    assert words("男が走る。") == ["男", "が", "走", "る"]
    check_split("男が走る。犬が吠える。", ["男が走る", "犬が吠える"])
    with pytest.raises(ReplyError, match="cover only"):
        check_split("男が走る。犬が吠える。", ["男が走る"])


def test_right_to_left_text_is_words_too() -> None:
    check_split("רחוב שקט. כלב רץ.", ["רחוב שקט.", "כלב רץ."])


def test_a_megabyte_of_distinct_words_is_checked_in_no_time() -> None:
    caption = " ".join(f"w{n}" for n in range(150_000))
    began = time.perf_counter()
    with pytest.raises(ReplyError, match="cover only 0%"):
        check_split(caption, ["nothing"])
    check_split(caption, [caption])
    assert time.perf_counter() - began < 5


def test_repeats_are_dropped_and_noted() -> None:
    notes: list[str] = []
    events = ["A dog runs.", " a DOG runs ", "A cat sits.", "A dog runs."]
    assert CONTRACTS["ids"].read_split(events, "A dog runs. A cat sits.", notes) == [
        "A dog runs.",
        "A cat sits.",
    ]
    assert notes == ["split: 2 caption events stood twice and were dropped"]


@given(st.text())
def test_whatever_is_said_is_covered_by_itself(text: str) -> None:
    check_split(text, [text])
    assert clean(text) == text


@given(st.text(alphabet=st.characters(), max_size=50))
def test_cleaned_text_can_be_stored(text: str) -> None:
    assert clean(clean(text).encode("utf-8").decode("utf-8")) == clean(text)


def test_a_whole_pair_of_surrogates_becomes_its_character() -> None:
    assert clean("\ud83d\ude00 \ud83d x") == "😀 \ufffd x"
