"""The contracts of replies: numbered segments, reasons, and the form of the benchmark."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from capeval.errors import InputError, ReplyError
from capeval.judging.contracts import Contract, EventToClassify, PublishedContract, load_prompts
from capeval.judging.judging_work import judge_caption
from capeval.llm.replies import ChatRequest, read_reply
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


def explaining(reason: Any, labels: Sequence[str] = ()) -> Callable[[ChatRequest], str]:
    """Reply with a reason; with `labels`, each repeat has its own label and reason."""

    def reply(request: ChatRequest) -> str:
        value, n = json.loads(right(request)), request.repeat
        for item in value.get("relations", ()):
            item["reason"] = reason
            if labels:
                item |= {"relation": labels[n], "reason": f"{reason} {n}"}
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
    reply = explaining("repeat", ("lack", "entailment", "entailment"))
    judgment = await judged("A man runs. It rains.", reply, repeats=3)
    assert isinstance(judgment, Scored)
    assert judgment.relations[0] == ("entailment", "entailment")
    assert judgment.explanations == (("repeat 1", "repeat 1"), ("", ""), ("",))
    assert [one.explanations[0][0] for one in judgment.repeats if one.explanations] == [
        f"repeat {n}" for n in range(3)
    ]


CHECKOUT = '''"""Prompts in the manner of the benchmark's."""
import os
raise SystemExit("this is data and must not run")
LIMIT = 3
PROMPT_SPLIT_EVENT = """Split this into a list of events: {caption}"""
PROMPT_MATCH_EVENT = """Match {candidate_events} with {reference_events} as [(1, id or None)]."""
PROMPT_CLASSIFY_RELATION = """Classify {match_data} as [{{"visual_elements": [...]}}]."""
'''
PUBLISHED = PublishedContract()
CAPTION = f"{RUN} {STOP} {BARK}"
PARTS = (
    EventToClassify(1, RUN, ("A man runs.", "He wears red.")),
    EventToClassify(3, BARK, ("A dog barks.",)),
)


def checked_out(folder: Path, text: str = CHECKOUT) -> str:
    file = folder / "evaluation" / "tool" / "prompt.py"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    return f"tuna:{folder}"


def test_the_prompts_are_read_and_not_run(tmp_path: Path) -> None:
    found = load_prompts(checked_out(tmp_path / "TUNA"))

    assert found.label == f"tuna@{found.hash[:6]}"
    assert found.render("split", {"caption": "{x}"}).endswith("events: {x}")
    shown = found.render("classify", {"match_data": "[]"})
    assert shown == 'Classify [] as [{"visual_elements": [...]}].'
    changed = checked_out(tmp_path / "other", CHECKOUT.replace("Split", "Divide"))
    assert load_prompts(changed).hash != found.hash


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CHECKOUT.replace("MATCH_EVENT", "OTHER"), "has no text PROMPT_MATCH_EVENT"),
        (CHECKOUT.replace("{caption}", ""), "PROMPT_SPLIT_EVENT: must contain the placeholder"),
        (CHECKOUT + "def", "is not Python"),
    ],
)
def test_a_checkout_without_the_prompts_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        load_prompts(checked_out(tmp_path, text))
    with pytest.raises(InputError, match="--explain"):
        load_prompts(f"tuna:{tmp_path}", explain=True)
    with pytest.raises(InputError, match="does not exist"):
        load_prompts(f"tuna:{tmp_path / 'none'}")


@pytest.mark.parametrize(
    ("reply", "events"),
    [
        ([f"{RUN} {STOP}", BARK], [f"{RUN} {STOP}", BARK]),
        # A resolved pronoun, and exact repeats.
        ([RUN, "Man stops.", BARK, "a dog barks"], [RUN, "Man stops.", BARK]),
        ([RUN, STOP, BARK, " "], [RUN, STOP, BARK]),
    ],
)
def test_events_are_the_captions(reply: list[str], events: list[str]) -> None:
    notes: list[str] = []
    assert PUBLISHED.read_split(reply, CAPTION, notes) == events
    assert len(notes) == (len(reply) > len(events) and bool(reply[-1].strip()))


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ([], "no events"),
        ({"events": [RUN]}, "list"),
        ([RUN, 3], "string"),
        ([RUN, BARK, STOP], "order"),
        ([RUN, "She does not stop.", BARK], "not"),
        ([CAPTION, "The sun sets over a red barn."], "sun"),
        ([RUN, STOP], "leave out"),
        ([RUN, STOP, BARK, "A man barks."], "not in the caption"),
    ],
)
def test_other_events_are_requested_again(reply: Any, message: str) -> None:
    with pytest.raises(ReplyError, match=message):
        PUBLISHED.read_split(reply, CAPTION, [])


def element(content: str, label: str) -> dict[str, str]:
    return {"content": content, "relationship": label}


def event(*elements: dict[str, str]) -> dict[str, Any]:
    return {"candidate_event": "copied", "visual_elements": [*elements]}


FIRST = event(element("he wears RED", "Lack"), element("A man runs.", "entailment"))
SECOND = event(element("A dog barks.", "contradiction"))


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ([FIRST], "1 event.* 2 were given"),
        ([FIRST, event()], "not answered"),
        ([FIRST, event(element("A cat.", "lack"))], "no visual element"),
        ([FIRST, event(element("A dog barks.", "maybe"))], "relation"),
        ([FIRST, {"visual_elements": [{"content": "A dog barks."}]}], "relationship"),
    ],
)
def test_wrong_labels_are_requested_again(reply: Any, message: str) -> None:
    with pytest.raises(ReplyError, match=message):
        PUBLISHED.read_relations(reply, PARTS, [])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[(1, 1), (2, None)]", [(1, 1), (2, None)]),
        ("```python\n[(1, 1), (2, None)]\n```", [(1, 1), (2, None)]),
        ("['a' 'b']", None),
        ('["it\'s red"]', ["it's red"]),
        ("[(1, 1)]  # or (1, 2)", None),
        ("[(1, 1)] [(1, 2)]", None),
        ("__import__('os')", None),
        ("[" * 50_000, None),
    ],
)
def test_a_list_may_be_as_python_prints_it(text: str, value: Any) -> None:
    if value is None:
        with pytest.raises(ReplyError):
            read_reply(text, lambda found, _: found, printed=True)
    else:
        assert read_reply(text, lambda found, _: found, printed=True)[0] == value
    if "(" in text:
        with pytest.raises(ReplyError):
            read_reply(text, lambda found, _: found)


async def test_a_caption_is_judged_with_the_published_prompts(tmp_path: Path) -> None:
    first = ("A man runs.", *PARTS[0].elements)
    annotation = annotation_of(first, ("A dog barks.", "A dog barks."))
    replies = {
        "Split": json.dumps([f"{RUN} {STOP}", BARK]),
        "Match": "[(1, 1), (2, 2)]",
        "Class": json.dumps([FIRST, SECOND]),
    }
    seen: list[ChatRequest] = []

    def answer(request: ChatRequest) -> str:
        seen.append(request)
        return replies[str(request.messages[0]["content"])[:5]]

    judge = judge_of(ScriptedClient(answer), load_prompts(checked_out(tmp_path)))
    caption = Caption(index="V1", caption=CAPTION)
    judged: Scored | Unscored = await judge_caption(judge, annotation, caption, repeats=1)

    assert isinstance(judged, Scored)
    assert judged.matches == (1, 2)
    assert judged.relations == (("entailment", "lack"), ("contradiction",))
    assert "[{'id': 1, 'event': 'A man runs. He stops.'}, " in str(seen[1].messages[0]["content"])
    assert "'candidate_event': 'A man runs. He stops.'" in str(seen[2].messages[0]["content"])
    assert [request.schema for request in seen] == [None] * 3
