"""The three stages together: what is asked, what is not, and what repeats make of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.errors import BudgetReached, EndpointRefused, RequestRefused, RetriesExhausted
from capeval.judging.contracts import load_prompts
from capeval.judging.judging_work import inputs_of, judge_caption
from capeval.judging.llm_judge import LLMJudge, repair_order
from capeval.llm.types import ChatReply, ChatRequest
from capeval.runs.concurrency import work_through
from capeval.schema import Annotation, Caption, Judgment, Scored, Unscored, Usage
from tests.files.making import annotation_of
from tests.judging.conftest import judge_of
from tests.scripted_client import ScriptedClient
from tests.six_videos import right

ANNOTATION = annotation_of(
    ("A man runs to a red car.", "A man runs.", "The car is red."),
    ("A dog barks at the man.", "A dog barks.", "The dog is black."),
)
CAPTION = Caption(index="V1", caption="A man runs to a red car. A dog barks at the man.")


def stages(client: ScriptedClient) -> list[str]:
    names = {"starts": "split", "matches": "match", "relations": "classify"}
    return [names[request.schema.name] for request in client.requests if request.schema]


def labelling(*labels: str) -> Callable[[ChatRequest], str]:
    """Right replies, but in each repeat the label of its number for all elements."""

    def reply(request: ChatRequest) -> str:
        text = right(request)
        for label in ("entailment", "contradiction", "lack"):
            text = text.replace(f'"{label}"', '"?"')
        return text.replace('"?"', f'"{labels[request.repeat]}"')

    return reply


def ask_all(script: Any = right) -> tuple[LLMJudge, ScriptedClient]:
    client = ScriptedClient(script)
    return judge_of(client, load_prompts()), client


async def judged(judge: LLMJudge, caption: str | Caption = CAPTION, repeats: int = 1) -> Judgment:
    if isinstance(caption, str):
        caption = Caption(index="V1", caption=caption)
    return await judge_caption(judge, ANNOTATION, caption, repeats=repeats)


async def test_three_calls_judge_a_video() -> None:
    judge, client = ask_all()
    judgment = await judged(judge)
    assert isinstance(judgment, Scored)
    assert judgment.matches == (1, 2)
    assert judgment.relations == (("entailment", "entailment"), ("entailment", "contradiction"))
    assert stages(client) == ["split", "match", "classify"]
    assert {stage: usage.calls for stage, usage in judgment.usage.items()} == {
        "split": 1,
        "match": 1,
        "classify": 1,
    }
    assert judgment.notes == ()
    assert judgment.repeats == ()


async def test_unmatched_event_lacks_every_element() -> None:
    judge, client = ask_all()
    judgment = await judged(judge, "A dog barks at the man.")
    assert judgment.matches == (2,)
    assert judgment.relations[0] == ("lack", "lack")
    # Nothing of the first event is shown, so nothing of it is paid for.
    asked = str(client.requests[-1].messages[0]["content"])
    assert ("A dog barks." in asked, "The car is red." in asked) == (True, False)


async def test_a_caption_that_matches_nothing_is_not_classified() -> None:
    judge, client = ask_all()
    judgment = await judged(judge, "Waves roll in. Birds sing.")
    assert isinstance(judgment, Scored)
    assert judgment.matches == (None, None)
    assert judgment.relations == (("lack", "lack"), ("lack", "lack"))
    assert stages(client) == ["split", "match"]


@pytest.mark.parametrize("caption", ["", "  \n", "\u200b\u202e", "\x00"])
async def test_an_empty_caption_lacks_everything_and_costs_nothing(caption: str) -> None:
    judge, client = ask_all()
    judgment = await judged(judge, caption, repeats=3)
    assert isinstance(judgment, Scored)
    assert judgment.relations == (("lack", "lack"), ("lack", "lack"))
    assert (client.requests, judgment.usage) == ([], {})
    assert len(judgment.repeats) == 3
    assert judgment.notes == ("the caption is empty",)


async def test_several_candidates_of_one_event_are_judged_together() -> None:
    judge, client = ask_all()
    judgment = await judged(judge, "A man runs. The man runs to a car. The car is red.")
    assert judgment.matches == (1, 1, 1)
    assert "A man runs. The man runs to a car. The car is red." in str(
        client.requests[-1].messages[0]["content"]
    )


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (("lack", "entailment", "entailment"), "entailment"),
        (("lack", "entailment"), "lack"),
        (("contradiction", "lack", "entailment"), "contradiction"),
        (("lack", "entailment", "contradiction", "contradiction"), "contradiction"),
        (("lack", "entailment", "contradiction", "contradiction", "entailment"), "entailment"),
    ],
)
async def test_the_majority_of_repeats_counts_and_a_tie_takes_the_first(
    labels: tuple[str, ...], wanted: str
) -> None:
    judge, _ = ask_all(labelling(*labels))
    judgment = await judged(judge, repeats=len(labels))
    assert isinstance(judgment, Scored)
    assert judgment.relations == ((wanted, wanted), (wanted, wanted))
    assert [verdict.relations[0][0] for verdict in judgment.repeats] == list(labels)
    assert judgment.usage["classify"].calls == len(labels)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (
            "not JSON",
            "repeat 2: classify: the reply must be one complete JSON value and nothing else",
        ),
        (RequestRefused("filtered"), "repeat 2: classify: filtered"),
        (RetriesExhausted("6 attempts failed"), "repeat 2: classify: 6 attempts failed"),
    ],
)
async def test_one_failed_repeat_leaves_the_video_unscored(failure: Any, reason: str) -> None:
    def fails(request: ChatRequest) -> Any:
        wanted = request.schema and request.schema.name
        return failure if (request.repeat, wanted) == (1, "relations") else right(request)

    judge, _ = ask_all(fails)
    judgment = await judged(judge, repeats=3)
    assert isinstance(judgment, Unscored)
    assert judgment.reason == reason
    assert judgment.relations == ()
    assert len(judgment.repeats) == 1
    # What failed was paid for as well.
    assert judgment.usage["split"].calls == 2


async def test_repeated_requests_are_noted_and_counted() -> None:
    def stutters(request: ChatRequest) -> str:
        return right(request) if len(request.messages) > 1 else "Hm."

    judge, client = ask_all(stutters)
    judgment = await judged(judge)
    assert isinstance(judgment, Scored)
    assert judgment.notes == tuple(
        f"{stage}: asked again: the reply must be one complete JSON value and nothing else"
        for stage in ("split", "match", "classify")
    )
    assert judgment.usage["split"].calls == 2
    assert stages(client) == ["split", "split", "match", "match", "classify", "classify"]


async def test_who_answered_is_recorded() -> None:
    def reply(request: ChatRequest) -> ChatReply:
        name = request.schema.name if request.schema else ""
        return ChatReply(
            right(request), "stop", f"snapshot-{name}", f"fp_{name}", Usage(), left_off=("seed",)
        )

    judge, _ = ask_all(reply)
    provenance = (await judged(judge)).provenance
    assert provenance.models == ("snapshot-matches", "snapshot-relations", "snapshot-starts")
    assert provenance.fingerprints == ("fp_matches", "fp_relations", "fp_starts")
    assert provenance.left_off == ("seed",)


def test_a_verdict_depends_on_its_inputs_and_not_on_weights() -> None:
    judge = judge_of(ScriptedClient([]))
    base = inputs_of(judge, ANNOTATION, CAPTION)
    raw = ANNOTATION.model_dump(mode="json")
    raw["events"][0]["visual_elements"][0]["weight"] = 3
    raw["events"][0]["visual_elements"][0]["type"] = "scene"
    assert inputs_of(judge, Annotation.model_validate(raw), CAPTION) == base
    raw["events"][0]["visual_elements"][0]["content"] += "!"
    assert inputs_of(judge, Annotation.model_validate(raw), CAPTION) != base
    other = Caption(index="V1", caption=CAPTION.caption + " ")
    assert inputs_of(judge, ANNOTATION, other) != base
    again = judge_of(ScriptedClient([]), load_prompts())
    assert inputs_of(again, ANNOTATION, CAPTION) != base


def work_of(count: int) -> list[tuple[Annotation, Caption]]:
    return [
        (
            annotation_of((f"Man {n} runs.", f"Man {n} runs."), index=f"V{n}"),
            Caption(index=f"V{n}", caption=f"Man {n} runs. Birds sing."),
        )
        for n in range(count)
    ]


@pytest.mark.parametrize(
    "failure", [EndpointRefused("no key"), BudgetReached("spent")], ids=lambda f: type(f).__name__
)
async def test_what_no_call_can_overcome_stops_all_and_keeps_what_is_done(
    failure: Exception,
) -> None:
    calls = 0

    def reply(request: ChatRequest) -> Any:
        nonlocal calls
        calls += 1
        return right(request) if calls <= 60 else failure

    judge, _ = ask_all(reply)
    recorded: list[Judgment] = []
    with pytest.raises(type(failure)):
        await work_through(
            work_of(50),
            lambda item: judge_caption(judge, *item, repeats=1),
            concurrency=4,
            record=lambda _, judgment: recorded.append(judgment),
        )
    assert 16 <= len(recorded) <= 20
    assert all(isinstance(judgment, Scored) for judgment in recorded)
    # Each of four workers found it out at most once.
    assert calls <= 64


Matches = list[int | None]

SEQUENCES = st.lists(st.tuples(st.none() | st.integers(1, 5), st.integers(0, 4)), max_size=10)


def by_brute_force(matches: Sequence[int | None], sizes: Sequence[int]) -> Matches:
    matched = [place for place, match in enumerate(matches) if match is not None]
    best: tuple[int, int, list[int]] | None = None
    kept: tuple[int, ...] = ()
    for count in range(len(matched) + 1):
        for places in combinations(matched, count):
            numbers = [matches[place] or 0 for place in places]
            if numbers != sorted(numbers):
                continue
            words = sum(sizes[place] for place in places)
            rank = (count, words, [-place for place in places])
            if best is None or rank > best:
                best, kept = rank, places
    return [match if place in kept else None for place, match in enumerate(matches)]


@given(SEQUENCES)
def test_repair_is_the_best_of_all_subsequences(pairs: list[tuple[int | None, int]]) -> None:
    matches, sizes = [m for m, _ in pairs], [s for _, s in pairs]
    assert repair_order(matches, sizes) == by_brute_force(matches, sizes)
