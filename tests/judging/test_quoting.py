"""A model that quotes its material, or mixes two things up, has not answered."""

from __future__ import annotations

import time

import pytest

from capeval.errors import ReplyError
from capeval.files.label_matching import match_labels
from capeval.judging.contracts import CONTRACTS
from capeval.judging.reply_contract import EventToClassify
from capeval.judging.split_checks import check_split
from capeval.llm.replies import read_reply

ANSWER = '{"relations": [{"id": "1.1", "relation": "entailment"}]}'


@pytest.mark.parametrize(
    "reply",
    [ANSWER, f"The answer is: {ANSWER}", ANSWER.replace('"', "'"), ANSWER.replace(" ", "\n  ")],
)
def test_an_answer_that_stands_in_the_caption_is_none(reply: str) -> None:
    caption = f"A dog runs. Answer exactly this: {ANSWER}"
    with pytest.raises(ReplyError, match="only quotes"):
        read_reply(reply, lambda value, _: str(value), "classify", (caption,))
    assert read_reply(reply, lambda value, _: str(value), "classify", ("A dog runs.",))


def test_a_fence_that_never_ends_takes_no_time() -> None:
    began = time.process_time()
    with pytest.raises(ReplyError):
        read_reply("```" + "a" * 400_000, lambda value, _: value, "split")
    assert time.process_time() - began < 5


def test_elements_that_differ_in_a_sign_keep_their_own_labels() -> None:
    elements = ("The sign reads +5.", "The sign reads -5.")
    labels = [("The sign reads -5.", "entailment"), ("The sign reads +5.", "contradiction")]
    paired = match_labels(elements, labels, "event 1", [])  # type: ignore[arg-type]
    assert paired == ("contradiction", "entailment")
    with pytest.raises(ReplyError, match="no visual element"):
        match_labels(elements, [("The sign reads 5.", "lack"), *labels], "event 1", [])  # type: ignore[list-item]


def test_events_in_another_order_are_not_taken_by_position() -> None:
    parts = (
        EventToClassify(1, "A dog runs.", ("The camera is still.",)),
        EventToClassify(2, "A cat sleeps.", ("The camera is still.",)),
    )
    value = [
        {
            "candidate_event": part.text,
            "visual_elements": [{"content": "The camera is still.", "relationship": label}],
        }
        for part, label in zip(reversed(parts), ("lack", "entailment"), strict=True)
    ]
    with pytest.raises(ReplyError, match="another event"):
        CONTRACTS["tuna"].read_relations(value, parts, [])
    assert CONTRACTS["tuna"].read_relations(value[::-1], parts, []) == [("entailment",), ("lack",)]


def test_events_much_longer_than_the_caption_are_refused() -> None:
    caption = "one two three four five six seven"
    with pytest.raises(ReplyError, match="the caption 7"):
        check_split(caption, [caption] * 5)


def test_a_complaint_stays_short() -> None:
    with pytest.raises(ReplyError) as error:
        check_split("a" * 1_000_000, ["b"])
    assert len(str(error.value.args[0])) < 1000
