"""Malformed replies, kept as data: each is repaired and noted, asked again, or unscored."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from capeval.judging.judging_work import judge_caption
from capeval.llm.replies import ChatReply, ChatRequest
from capeval.llm.wire import reply_from
from capeval.schema import Caption, Judgment, Scored, Unscored, Usage
from tests.files.making import annotation_of
from tests.judging.conftest import judge_of
from tests.scripted_client import ScriptedClient

DATA = tomllib.loads((Path(__file__).parent / "data" / "replies.toml").read_text(encoding="utf-8"))
ROWS: list[dict[str, Any]] = [
    {**row, "stage": stage} for stage, rows in DATA.items() for row in rows
]

EVENTS = ["A man in a red shirt walks to the left.", "A dog runs across a field.", "Birds sing."]
ANNOTATION = annotation_of(
    ("A man in red walks and turns.", "A man walks.", "The shirt is red.", "He turns right."),
    ("A dog runs through snow.", "A dog runs.", "There is snow."),
    ("The camera pans.", "The camera pans right."),
)
CAPTION = Caption(index="V1", caption=" ".join(EVENTS))
MATCHES = [1, 2, 0]
LABELS = [["entailment", "entailment", "contradiction"], ["entailment", "lack"], ["lack"]]

RIGHT = {
    "split": '{"starts":[1,2,3],"repeats":[]}',
    "match": json.dumps({"matches": [[n, m or None] for n, m in enumerate(MATCHES, 1)]}),
    "classify": json.dumps({"relations": list(enumerate(LABELS[0] + LABELS[1], 1))}),
}
RIGHT_PARTS: dict[str, list[Any]] = {"split": EVENTS, "match": MATCHES, "classify": LABELS}


def name_of(row: dict[str, Any]) -> str:
    return f"{row['stage']}-{row['name']}".replace(" ", "_")


def reply_of(row: dict[str, Any]) -> ChatReply:
    finish = row.get("finish", "stop")
    if "message" in row:
        choice = {"message": json.loads(row["message"]), "finish_reason": finish}
        return reply_from({"choices": [choice]}, "judge-model", ())
    whole = row.get("before", "") + row.get("unit", "") * row.get("times", 0) + row.get("after", "")
    return ChatReply(row.get("text", whole), finish, "judge-model", None, Usage(calls=1))


def stage_of(request: ChatRequest) -> str:
    return str(request.messages[0]["content"]).split("\n", 1)[0]


class Actor:
    """Gives the row's reply for its stage, `times` times, and right ones otherwise."""

    def __init__(self, row: dict[str, Any], times: int) -> None:
        self.row, self.left = row, times
        self.asked: list[ChatRequest] = []

    def __call__(self, request: ChatRequest) -> str | ChatReply:
        stage = stage_of(request)
        if stage == self.row["stage"]:
            self.asked.append(request)
            if self.left:
                self.left -= 1
                return reply_of(self.row)
        if stage == "classify" and self.row.get("value") not in (None, True):
            # Other matches than the right ones: all that is asked for is lacking.
            return everything_lacks(request)
        return RIGHT[stage]


def everything_lacks(request: ChatRequest) -> str:
    numbers = re.findall(r"^(\d+): ", str(request.messages[0]["content"]), re.MULTILINE)
    return json.dumps({"relations": [[int(number), "lack"] for number in numbers]})


def part_of(judgment: Judgment, stage: str) -> list[Any]:
    match stage:
        case "split":
            return list(judgment.candidate_events)
        case "match":
            return [match or 0 for match in judgment.matches]
        case _:
            return [list(labels) for labels in judgment.relations]


async def judge(row: dict[str, Any], times: int) -> tuple[Judgment, Actor]:
    actor = Actor(row, times)
    judge = judge_of(ScriptedClient(actor))
    return await judge_caption(judge, ANNOTATION, CAPTION, repeats=1), actor


@pytest.mark.parametrize("row", ROWS, ids=name_of)
async def test_a_reply_ends_as_its_row_says(row: dict[str, Any]) -> None:
    judgment, actor = await judge(row, 1)
    stage, notes = row["stage"], list(judgment.notes)
    if "refused" in row:
        assert isinstance(judgment, Unscored)
        assert row["refused"] in judgment.reason
        assert len(actor.asked) == 1
        return
    assert isinstance(judgment, Scored)
    if "asked_again" in row:
        assert len(actor.asked) == 2
        last = actor.asked[1].messages[-1]
        assert (last["role"], row["asked_again"] in last["content"]) == ("user", True)
        assert [row["asked_again"] in n for n in notes if n.startswith(f"{stage}: asked again: ")]
        assert part_of(judgment, stage) == RIGHT_PARTS[stage]
        return
    assert len(actor.asked) == 1
    wanted = RIGHT_PARTS[stage] if row["value"] is True else row["value"]
    assert part_of(judgment, stage) == wanted
    for wanted_note in row.get("notes", []):
        assert any(wanted_note in note for note in notes), notes
    assert bool(row.get("notes")) == bool(notes)
    assert len(notes) <= 10


@pytest.mark.parametrize("row", [r for r in ROWS if "value" not in r], ids=name_of)
async def test_a_reply_that_stays_bad_leaves_the_video_unscored(row: dict[str, Any]) -> None:
    judgment, actor = await judge(row, 99)
    assert isinstance(judgment, Unscored)
    assert judgment.reason.startswith(f"{row['stage']}: ")
    assert not judgment.relations
    if "refused" not in row:
        assert len(actor.asked) == 3
        assert judgment.reason != f"{row['stage']}: "
        assert "\n" not in judgment.reason


async def test_a_runaway_reply_is_not_sent_back_whole() -> None:
    row = next(row for row in ROWS if row["name"].startswith("forty") and "asked_again" in row)
    _, actor = await judge(row, 1)
    assert len(actor.asked[1].messages[1]["content"]) <= 4000
