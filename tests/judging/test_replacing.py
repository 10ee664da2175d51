"""Verdicts are replaced only by verdicts: whatever stops a rerun, those in force remain."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import BudgetReached, EndpointDown, JudgeError
from capeval.runs.engine import Status
from capeval.runs.folder import JudgeFolder
from capeval.runs.judged_run import load_judged
from tests.six_videos import COUNT, captions, videos

pytestmark = pytest.mark.usefixtures("alone")

INDEXES = [f"V{n}" for n in range(COUNT)]
FOLDER = JudgeFolder(Path("runs/mine/mine-1"))


class Killed(KeyboardInterrupt):
    """Ends a process at this moment."""


class Judge:
    """Its `version` is part of its identity; `fail` says what happens instead at a video, and
    `kill` after which one the process is killed.
    """

    name = "mine-1"
    is_baseline = False

    def __init__(
        self, version: str = "1", fail: dict[str, Exception] | None = None, kill: str = ""
    ) -> None:
        self.identity, self.fail, self.kill = (version,), fail or {}, kill
        self.asked: list[str] = []

    def update(self, status: Status) -> None:
        """Watch the progress of its own work."""
        if status.last and status.last.index == self.kill:
            raise Killed

    async def judge(self, annotation: Any, caption: str) -> dict[str, Any]:
        if annotation.index in self.fail:
            raise self.fail[annotation.index]
        self.asked.append(annotation.index)
        relations = [["lack" for _ in event.visual_elements] for event in annotation.events]
        events = [caption, *self.identity]
        return {"candidate_events": events, "matches": [None, None], "relations": relations}


def judge(by: Judge, texts: dict[str, str] | None = None, **more: Any) -> capeval.Scores:
    Path("a.json").write_text(json.dumps([one.model_dump(mode="json") for one in videos()]))
    folder = Path("runs/mine")
    folder.mkdir(parents=True, exist_ok=True)
    lines = [{"index": i, "caption": text} for i, text in (texts or captions()).items()]
    (folder / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    try:
        return capeval.judge("mine", **{"annotations": "a.json"} | more, judge=by, progress=by)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


def lines(path: Path) -> Iterator[tuple[str, str, str]]:
    """The scored lines of a file: index, caption, version of the judge."""
    for line in path.read_text().splitlines() if path.exists() else ():
        value = json.loads(line)
        if value["status"] == "scored":
            yield value["index"], *value["candidate_events"]


def in_force() -> dict[str, str]:
    """The version that judged each video, as `capeval score` counts them."""
    scored = load_judged("runs/mine", annotations="a.json").scored
    return {index: one.candidate_events[1] for index, one in scored.items()}


STOPS: dict[str, dict[str, Any]] = {
    "limit": {"limit": 3},
    "only": {"only": ["V0", "V4", "V5"]},
    "budget": {"fail": {"V3": BudgetReached("the cap is reached")}},
    "endpoint": {"fail": {"V3": EndpointDown("gone")}},
    "killed": {"kill": "V2"},
    "unscored": {"fail": {i: JudgeError("no") for i in INDEXES[3:]}},
}


@pytest.mark.parametrize("stop", STOPS)
def test_verdicts_of_a_changed_judge_replace_the_others_when_all_are_there(stop: str) -> None:
    judge(Judge("1"))
    before = {path.name: path.read_bytes() for path in FOLDER.path.iterdir()}
    more = dict(STOPS[stop])
    second = Judge("2", more.pop("fail", None), more.pop("kill", ""))
    try:
        part = judge(second, **more)
        assert part.counts.scored == 3
    except (BudgetReached, EndpointDown, Killed):
        assert stop in ("budget", "endpoint", "killed")
    assert len(second.asked) == 3
    assert in_force() == dict.fromkeys(INDEXES, "1")
    assert {name: (FOLDER.path / name).read_bytes() for name in before} == before
    judged = load_judged("runs/mine", annotations="a.json")
    assert len(judged.notices) == 1
    assert "mine: 3 of 6 captions are judged again" in judged.notices[0]
    # No command is spelled out: without its options it would be the default judge's.
    assert "the same `capeval judge` command as before (judge: " in judged.notices[0]
    assert "`capeval judge runs" not in judged.notices[0]
    # Nothing is judged twice, and the first judge has nothing to do.
    assert judge(first := Judge("1")).counts.scored == COUNT
    again = Judge("2")
    assert judge(again).counts.scored == COUNT
    assert (first.asked, sorted(second.asked + again.asked)) == ([], INDEXES)
    assert in_force() == dict.fromkeys(INDEXES, "2")
    assert sorted(path.name for path in FOLDER.path.iterdir()) == ["judgments.jsonl", "scores.json"]
    assert [index for index, *_ in lines(FOLDER.judgments)] == INDEXES


@pytest.mark.parametrize(
    ("allowed", "version"), [("0", "1"), ("1", "2"), ("10%", "1"), ("20%", "2")]
)
def test_a_caption_may_lose_its_verdict_if_the_user_allows_it(allowed: str, version: str) -> None:
    judge(Judge("1"))
    judge(Judge("2", {"V3": JudgeError("no")}), max_unscored=allowed)
    expected = dict.fromkeys(INDEXES, version)
    if version == "2":
        del expected["V3"]
        assert [line[0] for line in lines(FOLDER.aside)] == ["V3"]
    assert in_force() == expected
    judge(Judge("2"))
    assert in_force() == dict.fromkeys(INDEXES, "2")
    assert not FOLDER.next.exists()
    assert not FOLDER.aside.exists()


def test_partial_verdicts_of_one_judge_survive_a_try_with_another() -> None:
    judge(Judge("1"))
    judge(Judge("2"), limit=4)
    judge(Judge("3"), limit=1)
    notices = load_judged("runs/mine", annotations="a.json").notices
    assert "1 of 6 captions are judged again" in notices[0]
    last = Judge("2")
    judge(last)
    assert (last.asked, in_force()) == (["V4", "V5"], dict.fromkeys(INDEXES, "2"))


@pytest.mark.parametrize("stop", ["limit", "unscored", "killed"])
def test_a_verdict_on_another_text_is_set_aside_until_another_is_there(stop: str) -> None:
    judge(Judge())
    changed = captions() | {"V4": "Other.", "V5": "Another."}
    fail: dict[str, Any] = {"unscored": {i: JudgeError("no") for i in ("V4", "V5")}}
    fail["killed"] = {"V4": JudgeError("no")}
    with pytest.raises(Killed) if stop == "killed" else nullcontext():
        stops = Judge(fail=fail.get(stop), kill="V4" if stop == "killed" else "")
        judge(stops, changed, **({"limit": 2} if stop == "limit" else {}))
    assert set(in_force()) == set(INDEXES[:4])
    # The text is as it was: so is its verdict.
    back = Judge(fail=dict.fromkeys(INDEXES, JudgeError("no")))
    assert judge(back).counts.scored == COUNT
    assert not FOLDER.aside.exists()
    judge(Judge(), changed)
    assert {line[1] for line in lines(FOLDER.judgments)} == set(changed.values())
    assert not FOLDER.aside.exists()


@pytest.mark.parametrize("of", ["captions", "annotations"])
def test_verdicts_of_videos_that_are_left_out_come_back_with_them(of: str) -> None:
    judge(Judge())
    if of == "captions":
        judge(Judge(), dict(list(captions().items())[:2]))
    else:
        judge(Judge(), annotations=str(part()), ignore_unknown=True)
    assert [line[0] for line in lines(FOLDER.judgments)] == ["V0", "V1"]
    assert [line[0] for line in lines(FOLDER.aside)] == INDEXES[2:]
    back = Judge(fail=dict.fromkeys(INDEXES, JudgeError("no")))
    assert judge(back).counts.scored == COUNT
    assert not FOLDER.aside.exists()


def part() -> Path:
    """Annotations of the first two videos."""
    path = Path("part.json")
    path.write_text(json.dumps([one.model_dump(mode="json") for one in videos()[:2]]))
    return path


@pytest.mark.parametrize("seed", range(40))
def test_no_sequence_of_stops_loses_or_mixes_verdicts(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    stored: set[tuple[str, str, str]] = set()
    for _ in range(8):
        # Some videos do not exist: then nothing happens.
        fail: dict[str, Exception] = {f"V{rng.randrange(12)}": JudgeError("no")}
        by = Judge(rng.choice("12"), fail, f"V{rng.randrange(12)}")
        texts = captions() if rng.random() < 0.6 else {i: f"{i} b." for i in INDEXES}
        with monkeypatch.context() as patch, suppress(Killed):
            kill_at_write(patch, rng.randrange(9))
            judge(by, texts, limit=rng.randrange(1, COUNT + 1))
        every = {
            line for path in (FOLDER.judgments, FOLDER.next, FOLDER.aside) for line in lines(path)
        }
        counted = in_force() if FOLDER.judgments.exists() else {}
        assert len(set(counted.values())) <= 1
        assert {index for index, *_ in stored - every} <= counted.keys()
        stored = every
    assert judge(Judge("2")).counts.scored == COUNT
    assert in_force() == dict.fromkeys(INDEXES, "2")
    # Of another judge, whose verdicts are still to be completed.
    assert {line[2] for line in lines(FOLDER.next)} <= {"1"}
    assert not FOLDER.aside.exists()


def kill_at_write(patch: pytest.MonkeyPatch, number: int) -> None:
    """Kill the process before the write of this number, of those that end a run."""
    import capeval.runs.verdicts as module

    left = [number]

    def count(write: Any) -> Any:
        def counted(path: Path, *args: Any, **more: Any) -> None:
            if path.parent == FOLDER.path:
                left[0] -= 1
                if left[0] == 0:
                    raise Killed
            write(path, *args, **more)

        return counted

    for name in ("write_judgments", "write_atomic"):
        patch.setattr(module, name, count(getattr(module, name)))
    patch.setattr(Path, "unlink", count(Path.unlink))
