"""The contract of numbered segments: what is shown and read, and the reasons of `--explain`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from capeval.judging.contracts import Contract, load_prompts
from capeval.judging.judging_work import judge_caption
from capeval.llm.types import ChatRequest
from capeval.schema import Caption, Judgment, Scored, Unscored
from tests.files.making import annotation_of
from tests.judging.conftest import judge_of
from tests.scripted_client import ScriptedClient
from tests.six_videos import right

SPANS, EXPLAINED = Contract(), Contract(explain=True)
RUN, STOP, BARK = "A man runs.", "He stops.", "A dog barks."
DROPPED = "split: 1 caption event was a duplicate and was dropped"
KEPT_2 = "split: segment 2 repeats no earlier one; its event was kept"
KEPT = "split: segment 3 repeats no earlier one; its event was kept"


@pytest.mark.parametrize(
    ("caption", "starts", "repeats", "events", "notes"),
    [
        ([RUN, STOP, BARK], [1, 2, 3], [], [RUN, STOP, BARK], []),
        ([RUN, STOP, BARK], [1, 3], [], [f"{RUN} {STOP}", BARK], []),
        ([RUN, STOP, BARK], [1], [], [f"{RUN} {STOP} {BARK}"], []),
        ([RUN, STOP, RUN], [1, 2, 3], [3], [RUN, STOP], [DROPPED]),
        # Not every part of an earlier sentence repeats it.
        (
            ["The gate never opens.", "The gate opens."],
            [1, 2],
            [2],
            ["The gate never opens.", "The gate opens."],
            [KEPT_2],
        ),
        ([RUN, STOP, "a man RUNS!", BARK], [1, 3, 4], [3], [f"{RUN} {STOP}", BARK], [DROPPED]),
        # A repeat inside an event stays: an event is one span of the caption.
        ([RUN, STOP, RUN, BARK], [1, 2], [3], [RUN, f"{STOP} {RUN} {BARK}"], []),
        # A judge that calls something new a repeat loses nothing of the caption.
        ([RUN, STOP, BARK], [1, 2, 3], [3], [RUN, STOP, BARK], [KEPT]),
        ([RUN, STOP, "A dog runs."], [1, 2, 3], [3], [RUN, STOP, "A dog runs."], [KEPT]),
    ],
)
def test_events_are_spans_of_the_caption(
    caption: list[str], starts: list[int], repeats: list[int], events: list[str], notes: list[str]
) -> None:
    found: list[str] = []
    value = {"starts": starts, "repeats": repeats}
    assert SPANS.read_split(value, " ".join(caption), found) == events
    assert found == notes


ANNOTATION = annotation_of(
    ("A man runs to a red car.", "A man runs.", "The car is red."),
    ("A dog barks at the man.", "A dog barks.", "The dog is black."),
    ("The camera pans.", "The camera pans left."),
)


async def judged(caption: str, script: Any, repeats: int = 1) -> Judgment:
    judge = judge_of(ScriptedClient(script), load_prompts(explain=True))
    shown = Caption(index="V1", caption=caption)
    return await judge_caption(judge, ANNOTATION, shown, repeats=repeats)


@pytest.mark.parametrize("contract", [SPANS, EXPLAINED])
def test_a_reply_on_many_lines_is_not_cut_off(contract: Contract) -> None:
    # Four characters are about one token.
    replies: dict[Any, Any] = {
        "split": {"starts": [*range(1, 100)], "repeats": [*range(2, 100)]},
        "match": {"matches": [[n, n] for n in range(1, 100)]},
        "classify": {"relations": [[n, "contradiction"] for n in range(1, 100)]},
    }
    for stage, reply in replies.items():
        expected, limit = contract.reply_tokens(stage, 99), contract.max_tokens(stage, 99)
        assert expected < limit
        assert len(json.dumps(reply, indent=1)) / 4 < limit


REASON = "It says so.\n\x1b[31m[red]</b>" + "x" * 400


def explaining(reason: Any) -> Callable[[ChatRequest], str]:
    def reply(request: ChatRequest) -> str:
        value = json.loads(right(request))
        for item in value.get("relations", ()):
            item["reason"] = reason
        return json.dumps(value)

    return reply


async def test_reasons_are_one_line_each() -> None:
    judgment = await judged("A man runs to a red car. It rains.", explaining(REASON))
    assert isinstance(judgment, Scored)
    assert judgment.explanations is not None
    assert judgment.explanations[1:] == (("", ""), ("",))
    assert all(
        one.startswith("It says so. \\x1b[31m[red]</b>xxx") for one in judgment.explanations[0]
    )
    assert {len(one) for one in judgment.explanations[0]} == {300}
    assert judgment.model_dump(mode="json")["explanations"][2] == [""]


@pytest.mark.parametrize(
    ("reason", "wrong"),
    [
        *((one, "Input should be a valid string") for one in (None, 3, ["x"])),
        *((one, "must be a text with words") for one in ("", "...", "…")),
    ],
)
async def test_a_reason_is_text_with_words(reason: Any, wrong: str) -> None:
    judgment = await judged("A man runs. It rains.", explaining(reason))
    assert isinstance(judgment, Unscored)
    assert f"reason: {wrong}" in judgment.reason


async def test_with_repeats_a_reason_is_that_of_the_label_that_counts() -> None:
    labels = ("lack", "entailment", "entailment")

    def reply(request: ChatRequest) -> str:
        value = json.loads(right(request))
        for item in value.get("relations", ()):
            item |= {"relation": labels[request.repeat], "reason": f"repeat {request.repeat}"}
        return json.dumps(value)

    judgment = await judged("A man runs. It rains.", reply, repeats=3)
    assert isinstance(judgment, Scored)
    assert judgment.relations[0] == ("entailment", "entailment")
    assert judgment.explanations == (("repeat 1", "repeat 1"), ("", ""), ("",))
    assert [one.explanations[0][0] for one in judgment.repeats if one.explanations] == [
        f"repeat {n}" for n in range(3)
    ]
