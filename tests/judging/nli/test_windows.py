"""Long premises: nothing is cut off."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.errors import JudgeError
from capeval.judging.nli.windows import combined, encode
from capeval.schema import Relation
from tests.judging.nli.tiny_nli import _SPECIAL, _WORDS, tokenizer

TOKENIZER: Any = tokenizer()
SEP = 3
WORDS = [word for word in _WORDS if word.isalpha()]
# The events of the element, its hypothesis.
HYPOTHESIS = [("1.1", "a man runs")]
RELATIONS: list[Relation] = ["entailment", "lack", "contradiction"]


def parts(ids: list[int]) -> tuple[list[int], list[int]]:
    """Split the tokens of a window into those of the premise and of the hypothesis."""
    assert ids[0] == _SPECIAL.index("[CLS]")
    end = ids.index(SEP)
    assert ids[-1] == SEP
    return ids[1:end], ids[end + 1 : -1]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=400),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=8),
    st.integers(24, 64),
)
def test_every_word_is_in_a_window_and_each_passage_of_half_a_window_is_whole_in_one(
    premise: list[str], hypothesis: list[str], limit: int
) -> None:
    text = " ".join(hypothesis)
    (pair,) = encode(TOKENIZER, " ".join(premise), [("1.1", text)], limit)
    every = TOKENIZER(" ".join(premise), add_special_tokens=False)["input_ids"]
    asked = TOKENIZER(text, add_special_tokens=False)["input_ids"]
    read = []
    for window in pair.windows:
        assert len(window["input_ids"]) <= limit
        own, other = parts(list(window["input_ids"]))
        assert other == asked
        read.append(own)
    room = limit - 3 - len(asked)
    half = room // 2
    assert (len(read) == 1) == (len(every) <= room)
    starts = range(max(1, len(every) - half + 1))
    joined = ["".join(f"{token} " for token in own) for own in read]
    for start in starts:
        passage = "".join(f"{token} " for token in every[start : start + half])
        assert any(passage in f" {own}" or own.startswith(passage) for own in joined)


def test_a_hypothesis_that_takes_more_than_half_is_refused() -> None:
    just = " ".join(["dog"] * 30)
    assert len(encode(TOKENIZER, "a cat", [("1.1", just)], 64)[0].windows) == 1
    with pytest.raises(JudgeError, match=r"element 2\.3 has 31 tokens, more than half of the 61"):
        encode(TOKENIZER, "a cat", [*HYPOTHESIS, ("2.3", f"{just} dog")], 64)


def test_a_premise_beyond_any_description_is_refused_and_not_cut_off() -> None:
    fits = " ".join(["dog"] * (58 + 63 * 29))
    assert len(encode(TOKENIZER, fits, HYPOTHESIS, 64)[0].windows) == 64
    with pytest.raises(JudgeError, match="need 65 windows, more than 64"):
        encode(TOKENIZER, f"{fits} dog", HYPOTHESIS, 64)


@given(st.lists(st.sampled_from(RELATIONS), min_size=1))
def test_one_entailment_is_enough_and_a_contradiction_must_not_be_beside_one(
    windows: list[Relation],
) -> None:
    if "entailment" in windows:
        assert combined(windows) == "entailment"
    elif "contradiction" in windows:
        assert combined(windows) == "contradiction"
    else:
        assert combined(windows) == "lack"


def test_a_premise_without_a_token_says_nothing_and_such_a_hypothesis_is_refused() -> None:
    (pair,) = encode(TOKENIZER, " ", [("1.1", "a man")], 24)
    assert pair.windows == ()
    assert combined([]) == "lack"
    with pytest.raises(JudgeError, match=r"element 1\.2 has nothing that the model has"):
        encode(TOKENIZER, "a man", [("1.1", "a man"), ("1.2", " ")], 24)
