"""The three stages together: what is asked, what is not, and what repeats make of it."""

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.errors import RetriesExhausted
from capeval.judging.contracts import load_prompts
from capeval.judging.judges import LLMJudge, repair_order
from capeval.judging.judging_work import inputs_of, judge_caption
from capeval.llm.replies import ChatReply, ChatRequest
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


LACK, BOTH = ("lack", "lack"), ("entailment", "entailment")


@pytest.mark.parametrize(
    ("caption", "matches", "relations", "asked"),
    [
        (CAPTION.caption, (1, 2), (BOTH, ("entailment", "contradiction")), "split match classify"),
        ("A man runs. The car is red.", (1, 1), (BOTH, LACK), "split match classify"),
        ("Waves roll in. Birds sing.", (None, None), (LACK, LACK), "split match"),
    ],
)
async def test_each_stage_is_one_call_if_there_is_anything_to_ask(
    caption: str, matches: Any, relations: Any, asked: str
) -> None:
    judge, client = ask_all()
    judgment = await judged(judge, caption)
    assert isinstance(judgment, Scored)
    assert (judgment.matches, judgment.relations) == (matches, relations)
    assert stages(client) == asked.split()
    assert {stage: usage.calls for stage, usage in judgment.usage.items()} == dict.fromkeys(
        asked.split(), 1
    )
    assert (judgment.notes, judgment.repeats) == ((), ())


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (("lack", "entailment", "entailment"), "entailment"),
        (("lack", "entailment"), "lack"),
        (("contradiction", "lack", "entailment"), "contradiction"),
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


Matches = list[int | None]

SEQUENCES = st.lists(st.tuples(st.none() | st.integers(1, 5), st.integers(0, 4)), max_size=10)


def by_brute_force(matches: Sequence[int | None], sizes: Sequence[int]) -> Matches:
    matched = [place for place, match in enumerate(matches) if match is not None]
    kept = max(
        (
            places
            for count in range(len(matched) + 1)
            for places in combinations(matched, count)
            if all((matches[a] or 0) <= (matches[b] or 0) for a, b in pairwise(places))
        ),
        key=lambda places: (len(places), sum(sizes[at] for at in places), [-at for at in places]),
    )
    return [match if place in kept else None for place, match in enumerate(matches)]


@given(SEQUENCES)
def test_repair_is_the_best_of_all_subsequences(pairs: list[tuple[int | None, int]]) -> None:
    matches, sizes = [m for m, _ in pairs], [s for _, s in pairs]
    assert repair_order(matches, sizes) == by_brute_force(matches, sizes)
