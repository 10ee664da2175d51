import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capeval.construct.question_checks import shortcuts
from capeval.mcq.question_files import load_questions
from capeval.schema import Question
from tests.construct.chat_responder import KEY, annotation, answer, asking, inside, prompt_of
from tests.metrics.chat_world import prompts
from tests.server import Act, LoopbackServer, completion
from tests.video.clips import make_clip
from tests.world import Said, capeval, write_lines

CONSTRUCT = ("mcq", "construct")


async def draft(folder: Path, url: str, *more: str, judge: str = "m") -> Said:
    given = (*CONSTRUCT, "draft", "annotations.json", "--judge", judge)
    return await asking(folder, url, *given, *more)


def fill(folder: Path, videos: list[dict[str, Any]]) -> None:
    (folder / "annotations.json").write_text(json.dumps(videos), "utf-8")


def differences(*pairs: tuple[str, str]) -> str:
    return json.dumps({"differences": [{"element": e, "seen": seen} for e, seen in pairs]})


async def test_errors_of_a_video_model_become_options(tmp_path: Path) -> None:
    videos = [annotation(n) for n in range(4)]
    videos[0]["drafted_by"] = ["captioner-1"]
    fill(tmp_path, videos)
    errors = {
        "V000": differences(("1.1", "A runner swims."), ("2.1", "A dog sleeps.")),
        "V001": "```json\n" + differences() + "\n```",
        "V002": "The frames agree.",
        "V003": differences(("9.1", "A bird sings.")),
    }
    (tmp_path / "vlm.json").write_text(json.dumps(errors), "utf-8")
    async with LoopbackServer(answer) as server:
        done = await draft(tmp_path, server.url, "--errors", "vlm.json")
    assert done.code == 0, done.err
    assert "12 questions about 4 videos drafted, 1 with" in done.out
    assert "2 videos without usable errors, drafted without them: V002 (" in done.err
    assert 'V003 (there is no element "9.1"' in done.err
    found = load_questions(tmp_path / "questions.jsonl")
    assert [one.id for one in found] == [f"V00{n}/{at}" for n in range(4) for at in (1, 2, 3)]
    first, second = found[:2]
    assert {"A runner swims.", "A dog sleeps.", "A runner walks."} < {*first.options}
    assert first.options[first.right] == "A runner walks."
    assert first.video == "0.mp4"
    assert first.tags == {
        "task_type": "camera motion",
        "elements": ["1.1"],
        "drafted_by": ["captioner-1", "vlm", "m"],
        "errors": ["A runner swims.", "A dog sleeps."],
    }
    assert "errors" not in second.tags
    assert second.tags["drafted_by"] == ["captioner-1", "m"]


async def test_the_prompt_for_errors_shows_frames_and_elements(tmp_path: Path) -> None:
    fill(tmp_path, [annotation(0)])
    make_clip(tmp_path / "0.mp4", 24)
    seen: list[Any] = []

    def respond(request: dict[str, Any]) -> Act:
        content = request["messages"][0]["content"]
        if isinstance(content, list) and any(part["type"] == "image_url" for part in content):
            seen.append(content)
            return completion(differences())
        return answer(request)

    async with LoopbackServer(respond, models=("vlm",)) as server:
        done = await capeval(
            tmp_path,
            *("generate", "--annotations", "annotations.json", "--base-url", server.url),
            *("--prompts", "mcq-errors-v1", "--frames", "8", "--run", "errors", "--model", "vlm"),
            **KEY,
        )
        assert (done.code, "capeval judge" in done.out) == (0, False), done.err
        (content,) = seen
        assert sum(part["type"] == "image_url" for part in content) == 8
        (text,) = (part["text"] for part in content if "<statements>" in part.get("text", ""))
        assert json.loads(inside(text, "statements"))["2.1"] == "A dog barks."
        # A reply that finds nothing is one all the same.
        done = await draft(tmp_path, server.url, "--errors", "errors")
    assert done.code == 0, done.err
    assert "without usable errors" not in done.err


async def letters(folder: Path, url: str, videos: int) -> list[str]:
    fill(folder, [annotation(n) for n in range(videos)])
    done = await draft(folder, url)
    assert done.code == 0, done.err
    return [one.answer for one in load_questions(folder / "questions.jsonl")]


async def test_letters_are_balanced_and_stay(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    async with LoopbackServer(answer) as server:
        first = await letters(tmp_path, server.url, 7)
        assert sorted(Counter(first).values()) == [5, 5, 5, 6]
        more = await letters(tmp_path, server.url, 30)
        assert sorted(Counter(more).values()) == [22, 22, 23, 23]
        assert more[: len(first)] == first
        written = file.read_bytes()
        await letters(tmp_path, server.url, 30)
        assert file.read_bytes() == written
        # Each video is asked about once.
        assert prompts(server).total() == 30
        # Questions of another set of annotations do not stay in the file.
        fill(tmp_path, [annotation(n + 1) | {"index": f"V{n:03}"} for n in range(9)])
        done = await draft(tmp_path, server.url, "--limit", "2")
        assert "6 questions about 2 videos drafted" in done.out, done.err


async def test_edited_questions_are_replaced_only_by_force(tmp_path: Path) -> None:
    fill(tmp_path, [annotation(0), annotation(1)])
    file = tmp_path / "questions.jsonl"

    def respond(request: dict[str, Any]) -> Act:
        refuses = request["model"] == "other" and "<points>" in prompt_of(request)
        return completion("No.") if refuses else answer(request)

    async with LoopbackServer(respond, models=("m", "other")) as server:
        assert (await draft(tmp_path, server.url)).code == 0
        written = file.read_text("utf-8")
        # A failed call replaces nothing.
        assert (await draft(tmp_path, server.url, judge="other")).code == 3
        assert file.read_text("utf-8") == written
        file.write_text(edited := written.partition("\n")[2], "utf-8")
        calls = server.calls
        done = await draft(tmp_path, server.url)
        assert (done.code, server.calls, file.read_text("utf-8")) == (2, calls, edited)
        assert "questions.jsonl was edited" in done.err
        file.unlink()
        assert (await draft(tmp_path, server.url)).code == 0
    assert file.read_text("utf-8") == written


RIGHT = "A dog barks."
WRONG = ("A cat jumps.", "A bird sings.", "A horse runs.")


def question(name: str, *options: str, answer: str = "A", **more: Any) -> dict[str, Any]:
    video = {"fine": "0", "order": "videos/0.mp4"}.get(name, "0.mp4")
    asked = {"question": f"What is heard in {name}?", "options": options, "answer": answer}
    return {"id": name, "video": video, **asked, **more}


async def check(folder: Path, url: str, questions: list[dict[str, Any]], *more: str) -> Said:
    (folder / "annotations.json").write_text(json.dumps([annotation(0)]), "utf-8")
    write_lines(folder / "questions.jsonl", questions)
    given = (*CONSTRUCT, "check", "questions.jsonl", "--annotations", "annotations.json")
    return await asking(folder, url, *given, "--judge", "m", *more)


def findings(folder: Path) -> dict[str, list[str] | None]:
    text = (folder / "questions.checked.jsonl").read_text("utf-8")
    return {line["id"]: line.get("findings") for line in map(json.loads, text.splitlines())}


FAULTY = {
    "fine": (question("fine", RIGHT, *WRONG), []),
    "order": (question("order", RIGHT, "(a) (b)", "(b) (a)", "(a) (c)"), []),
    "signs": (question("signs", RIGHT, "+5 cats", "-5 cats", "A cat."), []),
    "same": (question("same", RIGHT, "A cat.", "a  CAT", "A bird."), [("duplicate_options", "BC")]),
    "nested": (
        question("nested", RIGHT, "A cat", "Then a cat jumps.", "A bird."),
        [("nested_options", "BC")],
    ),
    "all": (question("all", RIGHT, *WRONG[:2], "None of the above"), [("catch_all", "D")]),
    "key": (
        question("key", RIGHT, *WRONG, answer="B"),
        [("distractor_entailed", "A"), ("key_not_entailed", "B")],
    ),
    "two": (
        question("two", RIGHT, "The dog is small.", *WRONG[:2]),
        [("distractor_entailed", "B")],
    ),
}


async def test_findings_name_questions_and_options(tmp_path: Path) -> None:
    questions = [one for one, _ in FAULTY.values()]
    async with LoopbackServer(answer) as server:
        done = await check(tmp_path, server.url, questions, "--json")
        assert done.code == 0, done.err
        paid = server.calls
        shown = await check(tmp_path, server.url, questions)
        assert server.calls == paid
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in FAULTY}
    for one in done.json["findings"]:
        found[one["question"]].append((one["code"], one["options"]))
    assert {name: sorted(of) for name, of in found.items()} == {
        n: of for n, (_, of) in FAULTY.items()
    }
    assert (done.json["checked"], done.json["model"]) == (8, "m")
    assert "questions.jsonl: 8 of 8 questions checked by m, 5 with findings. " in shown.out
    rows = [line.split(maxsplit=2) for line in shown.out.splitlines()]
    assert ["two", "B", "wrong option entailed by the annotation"] in rows
    tags = findings(tmp_path)
    assert {*tags} == {*FAULTY}
    assert (tags["fine"], tags["nested"]) == (None, ["BC: an option contains another"])


async def test_unchecked_questions_do_not_count_as_clean(tmp_path: Path) -> None:
    def respond(request: dict[str, Any]) -> Act:
        fails = "heard in fine?" not in prompt_of(request) and "<question>" in prompt_of(request)
        return completion("No.") if fails else answer(request)

    async with LoopbackServer(respond) as server:
        for names, headline in (
            (["key", "two"], "0 of 2 questions checked by m. "),
            (["fine", "key"], "1 of 2 questions checked by m, 0 with findings. "),
        ):
            done = await check(tmp_path, server.url, [FAULTY[name][0] for name in names])
            assert done.code == 3
            assert f"questions.jsonl: {headline}" in done.out
    assert findings(tmp_path) == {"fine": None, "key": ["not compared with the annotation"]}


async def test_a_video_without_annotation_is_an_error_before_any_call(tmp_path: Path) -> None:
    other = question("q1", RIGHT, *WRONG, video="z.mp4")
    async with LoopbackServer(answer) as server:
        done = await check(tmp_path, server.url, [other])
        assert (done.code, server.calls) == (2, 0)
    assert 'questions.jsonl: id "q1": video: the annotations lack "z.mp4"' in done.err


NOUNS = [
    f"{size}{thing}" for size in ("big", "old", "new", "far") for thing in ("cat", "dog", "cow")
]
PLANTS = ("longest", "overlap", "commonest")


def sampled(rng: np.random.Generator, videos: int, plant: str = "") -> list[Question]:
    """Questions whose options differ by chance alone; some keys have what is planted."""
    questions = []
    for video in range(videos):
        for number in range(4):
            words = rng.permutation(NOUNS)[:7].tolist()
            options = [" ".join([one] * int(rng.integers(1, 4))) for one in words[:4]]
            right = int(rng.integers(4))
            asked = [*words[4:], options[int(rng.integers(4))].split()[0]]
            if plant and rng.random() < 0.5:
                options[right] += " and so on for long" if plant == "longest" else ""
                asked += options[right].split() if plant == "overlap" else []
                options[right] = "to the left" if plant == "commonest" else options[right]
            made = Question(
                id=f"{video}/{number}",
                video=str(video),
                question=f"Which of {' '.join(asked)}?",
                options=tuple(options),
                answer="ABCD"[right],
                tags={"task_type": "camera motion" if number % 2 else "object location"},
            )
            questions.append(made)
    return questions


@pytest.mark.parametrize("plant", PLANTS)
def test_planted_shortcuts_are_found(plant: str) -> None:
    found = shortcuts(sampled(np.random.default_rng(0), 40, plant))
    assert plant in [one.name for one in found if one.beats_chance]


def test_clean_sets_have_no_shortcuts() -> None:
    rng, alarms = np.random.default_rng(0), dict.fromkeys(PLANTS, 0)
    for _ in range(50):
        for one in shortcuts(sampled(rng, 25)):
            alarms[one.name] += bool(one.beats_chance)
            assert one.chance == 0.25
    assert max(alarms.values()) <= 3


def test_a_video_does_not_teach_its_own_answers() -> None:
    """Each video repeats an answer of its own: nothing is learnt from the other videos."""
    questions = [
        one.model_copy(update={"options": (f"it is {one.video}", "x", "y", "z"), "answer": "A"})
        for one in sampled(np.random.default_rng(0), 30)
    ]
    (commonest,) = (one for one in shortcuts(questions) if one.name == "commonest")
    assert (commonest.value, commonest.beats_chance) == (0.25, False)
