import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.captioners import Captioned, CaptionRequest
from capeval.schema import Usage
from tests.mcq.answering import asked, own_folder, replies, seen, text_of, tomato_folder
from tests.server import LoopbackServer, completion, failure
from tests.video.clips import numbers
from tests.world import FakeReader, Said, lines, start
from tests.world import capeval as command


async def here(folder: Path, *arguments: object) -> Said:
    return await command(folder, "mcq", "answer", *map(str, arguments))


async def answered(
    folder: Path, questions: Path, *arguments: object, reply: Any = replies
) -> tuple[Said, list[dict[str, Any]]]:
    """Run to the end against a server; return what was said and the questions' requests."""
    async with LoopbackServer(reply) as server:
        said = await here(
            folder, "--model", "m", "--base-url", server.url, "--questions", questions,
            *arguments,
        )  # fmt: skip
    return said, asked(server.requests)


async def test_tomato_is_answered_and_graded(tmp_path: Path) -> None:
    said, requests = await answered(tmp_path, tomato_folder(tmp_path / "tomato"))
    assert said.code == 0, said.err
    assert "m@16: answered 12/12\n" in said.out
    file = tmp_path / "runs" / "mcq" / "tomato" / "m@16" / "responses.jsonl"
    responses = lines(file)
    assert [one["id"] for one in responses][:3] == ["count/0", "count/1", "direction/0"]
    first = responses[0]
    assert first["reply"].startswith("A. I saw [0, 1, 3,")
    assert first["frames"]["indices"] == [int(n * 23 / 15) for n in range(16)]
    assert (first["frames"]["policy"], first["frames"]["order"]) == ("16", "ordered")
    assert (first["motion_type"], first["composite"]) == ("count", 0)
    assert first["call"]["usage"]["input_tokens"] == 100
    for request in requests:
        assert request["messages"][0]["role"] == "system"
        assert len(seen(request)) == 16
        assert "16 separate frames" in text_of(request)
        assert "A. left\nB. right\nC. up\nD. to " in text_of(request)
    manifest = json.loads((file.parent / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["questions"]["count"] == 12
    assert manifest["generation"]["prompt"]["set"].startswith("mcq-v1@")
    graded = await command(tmp_path, "mcq", "grade", str(file.parent), "--json")
    assert graded.code == 0, graded.err
    # Every reply says A, which is right in every second question of each file.
    assert graded.json["overall"]["accuracy"]["value"] == 0.5


async def test_after_kill_9_it_goes_on(tmp_path: Path) -> None:
    questions = tomato_folder(tmp_path / "tomato")
    file = tmp_path / "runs" / "mcq" / "tomato" / "m@4" / "responses.jsonl"
    async with LoopbackServer(replies, latency=0.1) as server:
        arguments = (
            "--model", "m", "--base-url", server.url, "--questions", str(questions),
            "--frames", "4", "--max-concurrency", "1",
        )  # fmt: skip
        process = await start(tmp_path, "mcq", "answer", *arguments)
        async with asyncio.timeout(60):
            while not (file.is_file() and file.read_bytes().count(b"\n") >= 3):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert process.returncode is None
        process.kill()
        await process.communicate()
        server.latency = 0
        before = lines(file)
        with file.open("ab") as half:
            half.write(b'{"id": "count/1", "repl')
        calls = len(asked(server.requests))
        said = await here(tmp_path, *arguments)
        again = len(asked(server.requests)) - calls
        assert said.code == 0, said.err
        assert f"answered 12/12, {12 - len(before)} of them new" in said.out
        assert again <= 12 - len(before)
        # Nothing is left to do.
        done = file.read_bytes()
        assert (await here(tmp_path, *arguments)).code == 0
    assert file.read_bytes() == done
    after = lines(file)
    assert len(after) == 12
    assert [one for one in after if one["id"] in {b["id"] for b in before}] == before


async def test_shuffled_frames_are_exactly_the_ordered_ones(tmp_path: Path) -> None:
    questions = own_folder(tmp_path / "q", {}, {})
    _, ordered = await answered(tmp_path, questions, "--frames", "6")
    _, one = await answered(tmp_path, questions, "--frames", "6", "--shuffle")
    other = (*("--frames", "6", "--shuffle"), *("--seed", "1"))
    _, two = await answered(tmp_path, questions, *other)
    names = {path.name for path in (tmp_path / "runs" / "mcq" / "own").iterdir()}
    assert names == {"m@6", "m@6+shuffled", "m@6+shuffled-seed1"}
    wanted = seen(ordered[0])
    for request in (*one, *two):
        assert seen(request) != wanted
        assert sorted(seen(request)) == wanted
    # Each question has an order of its own, and the prompt is that of the ordered run.
    assert len({tuple(seen(request)) for request in (*one, *two)}) == 4
    assert {text_of(request) for request in one} == {text_of(request) for request in ordered}


@pytest.mark.parametrize(
    ("single", "expected"),
    [
        ("first", {0}),
        ("column:best", {7, 9}),
        ("random", None),
    ],
)
async def test_a_single_frame(tmp_path: Path, single: str, expected: set[int] | None) -> None:
    questions = own_folder(tmp_path / "q", {"best": 7}, {"best": "9"}, {"best": 7.0})
    said, requests = await answered(tmp_path, questions, "--single", single)
    assert said.code == 0, said.err
    shown = [seen(request) for request in requests]
    assert {len(frames) for frames in shown} == {1}
    if expected is not None:
        assert {frames[0] for frames in shown} == expected
        assert (tmp_path / "runs" / "mcq" / "own" / f"m@{single.replace(':', '-')}").is_dir()
        return
    assert len({frames[0] for frames in shown}) > 1
    _, again = await answered(tmp_path, questions, "--single", single, "--run", "again")
    assert sorted(seen(request) for request in again) == sorted(shown)


async def test_a_blind_question_has_no_video_and_no_word_about_frames(tmp_path: Path) -> None:
    questions = own_folder(tmp_path / "q")
    (tmp_path / "q" / "ball.mp4").unlink()
    said, requests = await answered(tmp_path, questions, "--blind")
    assert said.code == 0, said.err
    (request,) = requests
    assert [part["type"] for part in request["messages"][-1]["content"]] == ["text"]
    assert not {"frame", "video"} & set(text_of(request).lower().replace(".", " ").split())
    (line,) = lines(tmp_path / "runs" / "mcq" / "own" / "m@blind" / "responses.jsonl")
    assert line["frames"] == {"policy": "none"}


async def test_a_failed_call_is_no_reply_and_is_made_again(tmp_path: Path) -> None:
    questions = own_folder(tmp_path / "q", {}, {"question": "Bad?"}, {"question": "Silent?"})
    broken = [True]

    def reply(request: dict[str, Any]) -> Any:
        if "Bad?" in str(request) and broken[0]:
            return failure(400, "content policy")
        if "Silent?" in str(request):
            return completion("")
        return replies(request)

    said, _ = await answered(tmp_path, questions, "--frames", "2", reply=reply)
    assert said.code == 3
    assert "m@2: answered 2/3\n" in said.out
    assert "q1 is unanswered" in said.out
    file = tmp_path / "runs" / "mcq" / "own" / "m@2" / "responses.jsonl"
    assert [line["reply"] is None for line in lines(file)] == [False, True, False]
    assert "content policy" in lines(file)[1]["reason"]
    # A completed call without a text is a reply.
    assert lines(file)[2]["reply"] == ""
    broken[0] = False
    said, requests = await answered(tmp_path, questions, "--frames", "2", reply=reply)
    assert said.code == 0, said.err
    assert len(requests) == 1
    assert lines(file)[1]["reply"].startswith("A")


def other_subtitles(folder: Path, *_: object) -> None:
    (folder / "s" / "ball.srt").write_text(SUBTITLE.format("Other."), encoding="utf-8")


def later_subtitles(folder: Path, *_: object) -> None:
    text = SUBTITLE.format("Said.") + "2\n01:00:00,000 --> 01:00:01,000\nAfter the last frame."
    (folder / "s" / "ball.srt").write_text(text, encoding="utf-8")


def rewritten(**fields: Any) -> Any:
    def rewrite(folder: Path, *_: object) -> None:
        own_folder(folder / "q", BEST, BEST | fields)

    return rewrite


SUBTITLE = "1\n00:00:00,000 --> 00:00:09,000\n{}\n\n"
BEST = {"best": 7, "benchmark": "video-mme"}
COLUMN = ("--single", "column:best")
CHANGES = [
    ("question", (), rewritten(question="Really, where?"), 1),
    ("a corrected answer", (), rewritten(answer="B"), 0),
    ("options", (), rewritten(options=["left", "up", "right"]), 1),
    ("the frame that a column names", COLUMN, rewritten(best=9), 1),
    ("a frame's number as text", COLUMN, rewritten(best="7"), 0),
    ("subtitles at a frame", ("--subtitles", "s"), other_subtitles, 2),
    ("subtitles at no frame", ("--subtitles", "s"), later_subtitles, 0),
]


@pytest.mark.parametrize(
    ("arguments", "change", "again"), [case[1:] for case in CHANGES], ids=[c[0] for c in CHANGES]
)
async def test_exactly_what_would_be_asked_differently_is_asked_again(
    tmp_path: Path, arguments: tuple[str, ...], change: Any, again: int
) -> None:
    questions = own_folder(tmp_path / "q", BEST, BEST)
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "ball.srt").write_text(SUBTITLE.format("Said."), encoding="utf-8")
    frames = () if arguments == COLUMN else ("--frames", "2")
    said, _ = await answered(tmp_path, questions, *arguments, *frames)
    assert said.code == 0, said.err
    change(tmp_path)
    said, requests = await answered(tmp_path, questions, *arguments, *frames)
    assert said.code == 0, said.err
    (file,) = (tmp_path / "runs").rglob("responses.jsonl")
    # An equal request of another question comes from the cache: outcomes are counted.
    assert f", {again} of them new" in said.out or again == len(lines(file))
    assert len(requests) <= again
    for line, row in zip(lines(file), lines(questions), strict=True):
        assert line["answer"] == row["answer"]
        if arguments == COLUMN:
            assert line["frames"]["indices"] == [int(line["best"])]


async def test_other_questions_with_the_same_ids_do_not_replace_replies(tmp_path: Path) -> None:
    file = tmp_path / "runs" / "mcq" / "own" / "m@2" / "responses.jsonl"
    await answered(tmp_path, own_folder(tmp_path / "q", {}, {}), "--frames", "2")
    before = file.read_bytes()
    others = own_folder(tmp_path / "p", {"question": "Who?"}, {"question": "Why?"})
    said, requests = await answered(tmp_path, others, "--frames", "2")
    assert (said.code, requests) == (2, [])
    assert "choose another --run" in said.err
    assert len(said.lines) == 1
    assert file.read_bytes() == before
    # One that is the same makes it an edited file.
    edited = own_folder(tmp_path / "e", {}, {"question": "Why?"})
    said, _ = await answered(tmp_path, edited, "--frames", "2")
    assert said.code == 0, said.err
    assert "m@2: 1 question will be asked again" in said.err


WRONG = [
    (("--single", "last"), "--single"),
    (("--single", "first", "--frames", "4"), "--single shows one frame"),
    (("--single", "first", "--shuffle"), "--single shows one frame"),
    (("--single", "column:best"), "has no such field"),
    *((("--single", f"column:{tag}"), "must be the index of a frame") for tag in ("word", "half")),
    *((("--single", which), "--single") for which in ("column:", "5")),
    (("--blind", "--frames", "4"), "--blind shows no frames"),
    (("--blind", "--subtitles", "."), "--blind shows no frames"),
    (("--only", "q9"), "no question has the id"),
    (("--where", "word=that"), "no question has this value"),
    (("--subtitles", "nowhere"), "nowhere"),
    (("--likelihood",), "--likelihood is for models in this process"),
]


async def test_a_mistake_is_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    own = own_folder(tmp_path / "q", {"word": "this", "half": 0.5})
    of_tomato = tomato_folder(tmp_path / "tomato", each=1)
    no_videos = "has no usable file for any of the 4 videos, such as human/clip-"
    others = (
        (("--videos", str(of_tomato)), no_videos),
        (("--subtitles", "."), "questions of TOMATO are asked without subtitles"),
    )
    cases = [(own, *case) for case in WRONG] + [(of_tomato, *case) for case in others]
    async with LoopbackServer(replies) as server:
        endpoint = ("--model", "m", "--base-url", server.url)
        for questions, arguments, message in cases:
            said = await here(tmp_path, *endpoint, "--questions", questions, *arguments)
            assert said.code == 2, arguments
            assert message in said.err
            assert len(said.lines) == 1 or questions == of_tomato, said.err
    assert asked(server.requests) == []
    assert not (tmp_path / "runs").exists()


class Scoring:
    """A captioner that scores what it is given; the text alone decides the number."""

    name = "scoring"
    scores_continuations = True

    def __init__(self, *, takes_system_prompts: bool = False) -> None:
        self.takes_system_prompts = takes_system_prompts
        self.requests: list[CaptionRequest] = []

    def caption(self, requests: Sequence[CaptionRequest]) -> list[Captioned]:
        self.requests += requests
        return [
            Captioned(
                request.index, "B", Usage(), 0.0, self.name,
                likelihoods=tuple((float(sum(map(ord, t))), len(t)) for t in request.continuations),
            )
            for request in requests
        ]  # fmt: skip


def answers(questions: Path, captioner: Any = None, **more: Any) -> Any:
    return capeval.mcq_answer(captioner or Scoring(), questions, **more)


def test_likelihoods_are_in_the_order_of_the_options(tmp_path: Path) -> None:
    made = answers(own_folder(tmp_path / "q"), frames=2, likelihood=True)
    assert (made.asked, made.new, dict(made.unanswered)) == (1, 1, {})
    found = made.responses[0].likelihood

    def scores(*texts: str) -> tuple[float, ...]:
        return tuple(float(sum(map(ord, text))) for text in texts)

    assert found.text == scores("left", "right", "up")
    assert found.symbol == scores(*"ABC")
    assert found.symbol_text == scores("A. left", "B. right", "C. up")
    assert found.tokens["text"] == (4, 5, 2)


@pytest.mark.parametrize("takes", [True, False])
def test_a_system_prompt_reaches_captioners_that_have_no_place_for_it(
    tmp_path: Path, takes: bool
) -> None:
    captioner = Scoring(takes_system_prompts=takes)
    answers(tomato_folder(tmp_path / "tomato", each=1), captioner, limit=1)
    (request,) = captioner.requests
    assert request.kind == "answer"
    assert (request.system is not None) == takes
    assert ("You are an expert" in request.prompt) != takes


def test_shuffled_frames_keep_the_times_of_the_ordered_ones(tmp_path: Path) -> None:
    captioner, questions = Scoring(), own_folder(tmp_path / "q")
    made = answers(questions, captioner, frames=6, shuffle=True)
    (request,) = captioner.requests
    assert list(request.times) == sorted(request.times)
    assert list(request.indices) == sorted(request.indices)
    assert numbers(request.frames) == made.responses[0].frames["indices"]
    assert numbers(request.frames) != list(request.indices)
    # A single frame cannot be shuffled, which is reported; two are always turned round.
    made = answers(questions, frames="0.5fps", shuffle=True)
    assert made.warnings == {"a single frame has no order": 1}
    questions = own_folder(tmp_path / "q", *({} for _ in range(8)))
    made = answers(questions, frames=2, shuffle=True)
    assert {tuple(one.frames["indices"]) for one in made.responses} == {(23, 0)}


def test_a_model_without_likelihoods_leaves_the_question_unanswered(tmp_path: Path) -> None:
    class Silent(Scoring):
        def caption(self, requests: Sequence[CaptionRequest]) -> list[Captioned]:
            return [Captioned(r.index, "A", Usage(), 0.0, self.name) for r in requests]

    made = answers(own_folder(tmp_path / "q"), Silent(), frames=2, likelihood=True)
    assert "did not score every option" in made.unanswered["q0"]
    assert made.responses[0].reply is None


def test_a_video_is_decoded_once_for_its_questions(tmp_path: Path) -> None:
    reader = FakeReader(policy="2", count=lambda _: 2)
    rows: list[dict[str, Any]] = [{"video": f"v{n % 4}"} for n in range(12)]
    answers(own_folder(tmp_path / "q", *rows), frames=reader)
    assert sorted(reader.read_names) == ["v0", "v1", "v2", "v3"]
