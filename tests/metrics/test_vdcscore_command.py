"""VDCscore on the command line: files of questions; killed, resumed, estimated, correlated."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from capeval.judging.selection import captions_at_once
from tests.cli_runs import capeval, start
from tests.metrics.chat_calls import calls, prompts
from tests.metrics.vdc_responder import answer
from tests.server import Act, LoopbackServer, completion, failure
from tests.typed import typed

KEY = "sk-test-1"
AT_ONCE = 3
VIDEOS = 6
COMMAND = (
    *("metrics", "--candidates", "a.json", "--candidates", "b.json", "--qa", "qa.jsonl"),
    *("--metric", "vdcscore", "--judge", "gpt-4o-2024-08-06", "--yes"),
)
FILES = ("metrics.jsonl", "metrics.details/vdcscore.jsonl")


def write(folder: Path) -> Path:
    """Two systems; one question is asked twice of each video, with different answers."""
    folder.mkdir(exist_ok=True)
    lines = []
    for n in range(VIDEOS):
        asked = [
            ("Which animal barks?", f"a dog number{n}"),
            ("Who runs away?", "the cat"),
            ("Which animal barks?", "a fox"),
        ]
        each = [{"question": q, "answer": a, "category": "object"} for q, a in asked]
        lines.append(json.dumps({str(n): each}) + "\n")
    (folder / "qa.jsonl").write_text("".join(lines), "utf-8")
    captions = {
        "a": "A dog number{n} barks. The cat runs away from {n}.",
        "b": "In {n}, a dog barks.",
    }
    for name, text in captions.items():
        every = {str(n): text.format(n=n) for n in range(VIDEOS)} | {"3": ""}
        (folder / f"{name}.json").write_text(json.dumps(every), "utf-8")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def options(url: str) -> tuple[str, ...]:
    return (*COMMAND, "--base-url", url, "--max-concurrency", str(AT_ONCE))


async def finished(folder: Path, url: str, code: int = 0, *more: str) -> str:
    process = await start(folder, *options(url), *more, OPENAI_API_KEY=KEY)
    out, err = await process.communicate()
    assert process.returncode == code, err
    return out.decode()


def flaky(request: dict[str, Any]) -> Act:
    """Reply without JSON at first, where the prompt's length says so."""
    if len(request["messages"]) == 1 and len(request["messages"][0]["content"]) % 3 == 0:
        return completion("A dog.")
    return answer(request)


async def test_killed_again_and_again_it_ends_alike_and_pays_once(tmp_path: Path) -> None:
    async with LoopbackServer(flaky) as server:
        whole = write(tmp_path / "whole")
        out = await finished(whole, server.url)
        assert "all 12 captions scored" in out
        once = prompts(server)
        assert max(once.values()) == 1
    assert b"asked again" in contents(whole)[FILES[1]]
    kills = 0
    folder = write(tmp_path / "killed")
    async with LoopbackServer(flaky, latency=0.02) as server:
        for wanted in (4, 12, 30, 50):
            process = await start(folder, *options(server.url), OPENAI_API_KEY=KEY)
            await asyncio.wait_for(calls(server, wanted, flaky), 60)
            assert process.returncode is None
            os.kill(process.pid, 9)
            await process.communicate()
            kills += 1
        await finished(folder, server.url)
        asked = prompts(server)
        assert asked.keys() == once.keys()
        # Of each question under way, one reply may be on its way here or into the file.
        assert asked.total() - once.total() <= kills * captions_at_once(AT_ONCE)
        paid = server.calls
        await finished(folder, server.url)
        assert server.calls == paid
    assert contents(folder) == contents(whole)


async def test_what_failed_is_unscored_and_asked_again(tmp_path: Path) -> None:
    folder = write(tmp_path)

    def moody(request: dict[str, Any]) -> Act:
        prompt = request["messages"][0]["content"]
        if "right_answer" in prompt and "number4" in prompt:
            return failure(400, "not allowed")
        if "right_answer" in prompt and "number5" in prompt:
            return completion("yes, 5")
        return answer(request)

    async with LoopbackServer(moody) as server:
        out = await finished(folder, server.url, 3)
        assert "scored 8/12" in out.splitlines()[0]
        assert "a vdcscore: 5 is unscored: question 1: " in out
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert len(rows) == 2 * VIDEOS * 2
        for row in rows:
            assert (row["value"] is None) == (row["index"] in "45") == bool(row["reason"])
        before = prompts(server)
        server.responder = answer
        out = await finished(folder, server.url)
        assert "all 12 captions scored" in out
        again = prompts(server) - before
        # Two comparisons of each caption of "a", one of "b": all else is in the cache.
        assert again.total() == 6
        assert all("right_answer" in one for one in again)


async def test_the_estimate_is_what_is_called(tmp_path: Path) -> None:
    folder = write(tmp_path)
    expected = json.loads((await capeval(folder, *COMMAND, "--dry-run", "--json")).out)
    async with LoopbackServer(answer) as server:
        await finished(folder, server.url)
        asked = prompts(server)
    # Of each caption that is not empty: two texts of questions, and three pairs.
    assert expected["calls"] == asked.total() == (2 * VIDEOS - 2) * 5
    assert expected["cost"] > 0
    tokens = sum(map(len, asked)) // 4
    assert tokens / 2 < expected["input_tokens"] < 2 * tokens
    done = await capeval(folder, *COMMAND, "--dry-run", "--json")
    assert json.loads(done.out)["calls"] == 0


async def test_a_cost_cap_stops_and_the_rest_is_resumed(tmp_path: Path) -> None:
    folder = write(tmp_path)
    expected = json.loads((await capeval(folder, *COMMAND, "--dry-run", "--json")).out)
    async with LoopbackServer(answer) as server:
        cap = f"{expected['cost'] / 2:.6f}"
        out = await finished(folder, server.url, 3, "--max-cost", cap)
        some = prompts(server).total()
        assert 0 < some < expected["calls"]
        assert "not measured" in out
        assert "unscored" not in out.splitlines()[0]
        out = await finished(folder, server.url)
        assert "all 12 captions scored" in out
        assert max(prompts(server).values()) == 1


async def test_the_score_is_shown_on_its_scale_and_correlated(tmp_path: Path) -> None:
    folder = write(tmp_path)
    async with LoopbackServer(answer) as server:
        out = await finished(folder, server.url)
    # Of "a", two of three answers are right in five of six videos, and one is empty.
    assert "vdcscore-score is a number from 0 to 5." in out
    (line,) = [one for one in out.splitlines() if one.startswith("a ")]
    assert line.split() == ["a", "55.6", "2.78", "6/6"]
    human = ["video_id,system,score"]
    human += [f"{n},{name},{n % 4}" for name in "ab" for n in range(VIDEOS)]
    (folder / "human.csv").write_text("\n".join(human) + "\n", "utf-8")
    command = ("correlate", "--human", "human.csv", "--metric", "m=metrics.jsonl", "--json")
    done = await capeval(folder, *command, "--ci", "none")
    assert done.code == 0, done.err
    results = json.loads(done.out)["results"]
    assert {one["metric"] for one in results} == {"m:vdcscore-accuracy", "m:vdcscore-score"}
    assert any(one["value"] for one in results)


GOOD = [{"question": "q", "answer": "a"}]
MALFORMED: list[tuple[str, Any, str]] = [
    ("qa.jsonl", "", "qa.jsonl: is empty"),
    ("qa.jsonl", "nonsense", "qa.jsonl: line 1: is not JSON: "),
    ("qa.jsonl", '{"1": [', "qa.jsonl: line 1: broken JSON"),
    ("qa.json", "{}", "must be a JSON object with the questions of a video, not {}"),
    ("qa.jsonl", "[]", "qa.jsonl: has no records"),
    ("qa.jsonl", "[5]", "entry 1: must be a JSON object with the questions of a video, not 5"),
    ("qa.jsonl", {"1": []}, 'line 1: index "1": questions: needs at least 1'),
    (
        "qa.jsonl",
        {"1": "q"},
        'line 1: index "1": questions: Input should be a valid tuple, not "q"',
    ),
    ("qa.jsonl", {"1": {"q": "a"}}, 'line 1: index "1": questions: Input should be a valid'),
    ("qa.jsonl", {"1": ["q"]}, 'index "1": questions.1: Input should be a valid dict'),
    (
        "qa.jsonl",
        {"1": [*GOOD, {"question": "q", "anwser": "a"}]},
        'index "1": questions.2.answer: Field required',
    ),
    (
        "qa.jsonl",
        {"1": [{"question": "q", "answer": 3}]},
        "questions.1.answer: Input should be a valid string, not 3",
    ),
    (
        "qa.jsonl",
        {"1": [{"question": None, "answer": "a"}]},
        "questions.1.question: Input should be a valid string",
    ),
    (
        "qa.jsonl",
        {"1": [{**GOOD[0], "category": 5}]},
        "questions.1.category: Input should be a valid string",
    ),
    (
        "qa.jsonl",
        {"index": 1, "questions": GOOD},
        "line 1: index: Input should be a valid string, not 1",
    ),
    ("qa.jsonl", {"index": "1"}, 'index "1": questions: Field required'),
    ("qa.jsonl", {"questions": GOOD}, "line 1: index: Field required"),
    ("qa.jsonl", {" ": GOOD}, "index: String should"),
    ("qa.jsonl", {"other": GOOD}, "no caption has questions"),
    ("qa.jsonl", {"1": GOOD}, 'qa.jsonl: index "22": has no questions for this caption\'s video'),
    ("gone.jsonl", None, "gone.jsonl: does not exist"),
]


@pytest.mark.parametrize(("name", "content", "message"), MALFORMED)
def test_a_malformed_file_of_questions_is_one_line(
    name: str, content: Any, message: str, tmp_path: Path
) -> None:
    (tmp_path / "c.json").write_text('{"1": "A dog.", "22": "A cat."}', "utf-8")
    if content is not None:
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / name).write_text(text, "utf-8")
    before = sorted(tmp_path.rglob("*"))
    arguments = ("metrics", "--candidates", "c.json", "--metric", "vdcscore", "--qa", name)
    done = typed(tmp_path, *arguments, "--judge", "gpt-4o-2024-08-06", "--dry-run")
    assert done.code == 2
    assert message in done.lines[-1]
    assert sorted(tmp_path.rglob("*")) == before


READ: list[tuple[str, str]] = [
    ("qa.jsonl", json.dumps({"1": GOOD}) + "\n" + json.dumps({"22": GOOD})),
    ("qa.jsonl", json.dumps({"1": GOOD, "22": GOOD})),
    ("qa.json", json.dumps({"1": GOOD, "22": GOOD}, indent=1)),
    ("qa.json", json.dumps([{"1": GOOD}, {"22": GOOD}])),
    (
        "qa.jsonl",
        "\ufeff\n".join(json.dumps({"index": n, "questions": GOOD}) for n in ("1", "22")).replace(
            "\ufeff", ""
        ),
    ),
    ("qa.jsonl", "\n".join(json.dumps({n: GOOD}) for n in ("1", "22", "1"))),
]


@pytest.mark.parametrize(("name", "content"), READ)
def test_questions_are_read_in_either_layout(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"1": "A dog.", "22": "A cat."}', "utf-8")
    (tmp_path / name).write_text(content, "utf-8")
    arguments = ("metrics", "--candidates", "c.json", "--metric", "vdcscore", "--qa", name)
    done = typed(tmp_path, *arguments, "--judge", "gpt-4o-2024-08-06", "--dry-run", "--json")
    assert done.code == 0, done.err
    assert done.json["calls"] == 4
    assert "twice" not in done.err
    assert "different lists" not in done.err


def test_of_two_different_lists_the_last_counts(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"1": "A dog."}', "utf-8")
    lines = [
        json.dumps({"1": one}) for one in (GOOD * 2, [*GOOD, {"question": "r", "answer": "b"}])
    ]
    (tmp_path / "qa.jsonl").write_text("\n".join(lines), "utf-8")
    arguments = ("metrics", "--candidates", "c.json", "--metric", "vdcscore", "--qa", "qa.jsonl")
    done = typed(tmp_path, *arguments, "--judge", "gpt-4o-2024-08-06", "--dry-run", "--json")
    assert done.json["calls"] == 4
    assert 'qa.jsonl: different lists of questions for 1 video (such as "1")' in done.err


def test_the_questions_are_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path)
    done = typed(tmp_path, *COMMAND, "--out", "qa.jsonl", "--dry-run")
    assert done.code == 2
    assert "--out: qa.jsonl is one of the files to be read" in done.err
    done = typed(tmp_path, "metrics", "sample", "--metric", "vdcscore", "--dry-run")
    assert done.code == 2
    assert "name their file with --qa" in done.err
