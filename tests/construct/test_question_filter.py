import json
import random
import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import capeval
from capeval.captioners.protocol import Captioned, CaptionRequest, Uncaptioned
from capeval.errors import InputError
from tests.mcq.answering import own_folder
from tests.server import LoopbackServer
from tests.world import FakeCaptioner, captioned, lines
from tests.world import capeval as typed_capeval

Answerer = Callable[[random.Random, int], bool | str | None]
"""Takes the number of frames; says whether it knows the answer, or what it says; None: a guess."""

ANSWERERS: dict[str, tuple[Answerer, float, float]] = {
    "guess": (lambda rng, frames: None, 0.0, 0.05),
    "fixed letter": (lambda rng, frames: "C", 0.0, 0.0),
    "one frame is enough": (lambda rng, frames: frames >= 1 and rng.random() < 0.9, 0.0, 0.05),
    "blind": (lambda rng, frames: rng.random() < 0.9, 0.0, 0.05),
    "wrong option": (lambda rng, frames: ("two", "three", "one")[min(frames, 2)], 0.0, 0.0),
    "temporal": (lambda rng, frames: frames > 1 and rng.random() < 0.9, 0.65, 0.85),
}


def write_questions(folder: Path, count: int) -> Path:
    texts = ("right", "one", "two", "three")
    rows = [
        {"question": f"What happens, number {n}?", "options": [f"{one} {n}" for one in texts]}
        for n in range(count)
    ]
    return own_folder(folder, *(row | {"video": "ab"[n % 2]} for n, row in enumerate(rows)))


def model(answerer: Answerer, broken: str = "") -> FakeCaptioner:
    """A model that finds the letter of the right option in its prompt, if it knows it."""
    rng = random.Random(0)

    def answer(request: CaptionRequest) -> Captioned | Uncaptioned:
        if broken and broken in request.index:
            return Uncaptioned(request.index, "no memory left")
        knows = answerer(rng, len(request.frames))
        letters = {
            line[3:].partition(" ")[0]: line[0]
            for line in request.prompt.splitlines()
            if line[1:3] == ". "
        }
        if isinstance(knows, str):
            letter = letters.get(knows, knows)
        elif knows:
            letter = letters["right"]
        else:
            letter = rng.choice(["A", "B", "C", "D"])
        return captioned(request.index, letter)

    return FakeCaptioner(name="sim-vlm", answer=answer, batch_size=8)


@pytest.mark.parametrize("name", ANSWERERS)
def test_only_questions_that_need_frames_are_kept(name: str, tmp_path: Path) -> None:
    answerer, least, most = ANSWERERS[name]
    found = capeval.construct_filter(write_questions(tmp_path, 20), model=model(answerer))
    assert least <= found.counts["kept"] / len(found.items) <= most
    if name == "wrong option":
        assert found.control == (20, 60)
    assert found.counts["undecided"] == 0


def test_blind_answers_are_asked_first_and_decided_questions_no_further(tmp_path: Path) -> None:
    knows = model(lambda rng, frames: True)
    found = capeval.construct_filter(write_questions(tmp_path, 10), model=knows)
    assert {one.by for one in found.items} == {"blind"}
    assert max(len(one.given["blind"]) for one in found.items) == 6  # the first block, and 2
    assert {frames for batch in knows.batches for frames in batch} == {0}


def test_a_failed_call_leaves_its_question_undecided_until_the_next_run(tmp_path: Path) -> None:
    file = write_questions(tmp_path, 4)
    answerer = ANSWERERS["temporal"][0]
    found = capeval.construct_filter(file, model=model(answerer, broken="q2#"))
    assert found.items[2].status == "undecided"
    assert "no memory left" in str(found.items[2].reason)
    kept = {one["id"] for one in lines(tmp_path / "questions.kept.jsonl")}
    (file_of_all,) = tmp_path.rglob("decisions.jsonl")
    status = {one["id"]: one["status"] for one in lines(file_of_all)}
    assert (status["q2"], kept) == ("undecided", {n for n in status if status[n] == "kept"})
    again = model(answerer)
    found = capeval.construct_filter(file, model=again)
    assert found.counts["undecided"] == 0
    assert sum(map(len, again.batches)) <= 8 * 6  # of this one question


def test_replies_are_kept_and_a_mended_question_is_asked_again(tmp_path: Path) -> None:
    file = write_questions(tmp_path, 6)
    knows: Answerer = lambda rng, frames: frames > 1  # noqa: E731
    first = capeval.construct_filter(file, model=model(knows))
    passed, total = first.control
    assert (passed, total >= 12) == (0, True)
    kept = map(json.loads, (tmp_path / "questions.kept.jsonl").read_text().splitlines())
    assert [one["filtered_by"] for one in kept] == [["sim-vlm"]] * first.counts["kept"]
    again = model(knows)
    second = capeval.construct_filter(file, model=again)
    assert again.batches == []
    assert [one.json() for one in first.items] == [one.json() for one in second.items]
    lines = file.read_text(encoding="utf-8").replace("number 3?", "exactly?").splitlines(True)
    reviewed = tmp_path / "reviewed.jsonl"
    reviewed.write_text("".join(lines[1:]), "utf-8")  # one is dropped, one mended
    mended = model(knows)
    capeval.construct_filter(reviewed, model=mended)
    assert {index.partition("#")[0] for index in mended.prompts} == {"q3"}


@pytest.mark.parametrize("reply", ["", "<think>A or B"])
def test_an_empty_or_unfinished_reply_leaves_a_question_undecided(
    reply: str, tmp_path: Path
) -> None:
    silent = FakeCaptioner(name="m", answer=lambda request: captioned(request.index, reply))
    found = capeval.construct_filter(write_questions(tmp_path, 2), model=silent)
    assert found.counts == {"undecided": 2}
    found.show(Console(file=(out := StringIO())))
    assert out.getvalue().startswith("0 of 2 questions decided by m.\n")


def test_questions_without_four_options_are_refused(tmp_path: Path) -> None:
    file = write_questions(tmp_path, 2)
    file.write_text(file.read_text(encoding="utf-8").replace(', "three 1"', ""), "utf-8")
    with pytest.raises(InputError, match=r"q1: options: has 3 options"):
        capeval.construct_filter(file, model=model(lambda rng, frames: True))


def sees_frames(request: dict[str, Any]) -> str:
    """Answer right with several frames, else with the first letter."""
    content = request["messages"][-1]["content"]
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    text = " ".join(part.get("text", "") for part in parts)
    right = re.findall(r"^([A-D])\. right", text, re.MULTILINE)
    return right[0] if right and sum(part["type"] == "image_url" for part in parts) > 1 else "A"


async def test_the_command_asks_a_server_after_a_dry_run(tmp_path: Path) -> None:
    write_questions(tmp_path, 4)
    command = ("mcq", "construct", "filter", "questions.jsonl", "--model", "m")
    async with LoopbackServer(sees_frames, models=["m"]) as server:
        given = (*command, "--base-url", server.url, "--yes")
        key: Any = {"OPENAI_API_KEY": "sk-test-1"}
        dry = await typed_capeval(tmp_path, *given, "--dry-run", **key)
        assert (dry.code, server.calls) == (0, 0), dry.err
        assert "4 questions: at most 192 calls; most are decided with fewer" in dry.out
        assert not (tmp_path / "filter").exists()
        done = await typed_capeval(tmp_path, *given, "--json", **key)
        assert done.code == 0, done.err
        assert done.json["counts"] == {"kept": 4}
        assert server.calls <= 4 * 48 + 1
