"""The benchmark's own prompts: read from a checkout, and how their replies are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capeval.errors import InputError, ReplyError
from capeval.judging.contracts import EventToClassify, PublishedContract, load_prompts
from capeval.judging.judging_work import judge_caption
from capeval.llm.replies import read_reply
from capeval.llm.types import ChatRequest
from capeval.schema import Caption, Scored, Unscored
from tests.files.making import annotation_of
from tests.judging.conftest import judge_of
from tests.scripted_client import ScriptedClient

CHECKOUT = '''"""Prompts in the manner of the benchmark's."""
import os
raise SystemExit("this is data and must not run")
LIMIT = 3
PROMPT_SPLIT_EVENT = """Split this into a list of events: {caption}"""
PROMPT_MATCH_EVENT = """Match {candidate_events} with {reference_events} as [(1, id or None)]."""
PROMPT_CLASSIFY_RELATION = """Classify {match_data} as [{{"visual_elements": [...]}}]."""
'''
CONTRACT = PublishedContract()
RUN, STOP, BARK = "A man runs.", "He stops.", "A dog barks."
CAPTION = f"{RUN} {STOP} {BARK}"
PARTS = (
    EventToClassify(1, RUN, ("A man runs.", "He wears red.")),
    EventToClassify(3, BARK, ("A dog barks.",)),
)


def checked_out(folder: Path, text: str = CHECKOUT) -> str:
    """Write the file of prompts of a checkout, and return the name of the set."""
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
    assert CONTRACT.read_split(reply, CAPTION, notes) == events
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
        ([RUN, STOP, BARK, "A man barks."], "caption has not"),
    ],
)
def test_other_events_are_requested_again(reply: Any, message: str) -> None:
    with pytest.raises(ReplyError, match=message):
        CONTRACT.read_split(reply, CAPTION, [])


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
        CONTRACT.read_relations(reply, PARTS, [])


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
    assert "'candidate_event': 'A man runs. He stops.'" in str(seen[2].messages[0]["content"])
    assert [request.schema for request in seen] == [None] * 3
