"""CLAIR and AutoDQ on the command line, against a server: killed, resumed, estimated."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from capeval.judging.selection import captions_at_once
from tests.cli_runs import capeval, start
from tests.metrics.chat_calls import calls, prompts
from tests.metrics.chat_responder import answer
from tests.server import Act, LoopbackServer, completion, failure
from tests.typed import typed

KEY = "sk-test-1"
AT_ONCE = 3
COMMAND = (
    *("metrics", "--candidates", "a.json", "--candidates", "b.json", "--references", "r.jsonl"),
    *("--metric", "clair,autodq", "--judge", "gpt-4o-2024-08-06", "--yes"),
)
FILES = ("metrics.jsonl", "metrics.details/clair.jsonl", "metrics.details/autodq.jsonl")
VIDEOS = 8


def write(folder: Path) -> Path:
    """Two systems; half of the references list their events, and there are two groups."""
    folder.mkdir(exist_ok=True)
    lines = []
    for n in range(VIDEOS):
        text = f"A dog number{n} barks. The dog runs away. The camera pans left."
        listed = {"events": [f"A dog number{n} barks.", "It sleeps."]} if n % 2 else {}
        reference = {"index": str(n), "references": [text], "group": f"g{n % 3 > 0}", **listed}
        lines.append(json.dumps(reference) + "\n")
    (folder / "r.jsonl").write_text("".join(lines), "utf-8")
    captions = {"a": "A dog number{n} barks. A cat runs.", "b": "The dog runs away from {n}."}
    for name, text in captions.items():
        every = {str(n): text.format(n=n) for n in range(VIDEOS)} | {"3": ""}
        (folder / f"{name}.json").write_text(json.dumps(every), "utf-8")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


async def finished(folder: Path, url: str, code: int = 0, *more: str) -> str:
    process = await start(
        folder,
        *(*COMMAND, "--base-url", url, "--max-concurrency", str(AT_ONCE), *more),
        OPENAI_API_KEY=KEY,
    )
    out, err = await process.communicate()
    assert process.returncode == code, err
    return out.decode()


async def test_killed_again_and_again_it_ends_alike_and_pays_once(tmp_path: Path) -> None:
    async with LoopbackServer(answer) as server:
        whole = write(tmp_path / "whole")
        out = await finished(whole, server.url)
        assert "all 16 captions scored" in out
        once = prompts(server)
        assert max(once.values()) == 1
    kills = 0
    folder = write(tmp_path / "killed")
    async with LoopbackServer(answer, latency=0.02) as server:
        for wanted in (4, 12, 30, 50):
            process = await start(
                folder,
                *(*COMMAND, "--base-url", server.url, "--max-concurrency", str(AT_ONCE)),
                OPENAI_API_KEY=KEY,
            )
            await asyncio.wait_for(calls(server, wanted, answer), 60)
            assert process.returncode is None
            os.kill(process.pid, 9)
            await process.communicate()
            kills += 1
        await finished(folder, server.url)
        asked = prompts(server)
        assert asked.keys() == once.keys()
        # Of each call under way, one reply may be on its way here or into the file. A caption has
        # up to two calls under way: its own events, and those of its reference.
        assert asked.total() - once.total() <= kills * 2 * captions_at_once(AT_ONCE)
        paid = server.calls
        await finished(folder, server.url)
        assert server.calls == paid
    assert contents(folder) == contents(whole)


async def test_what_failed_is_unscored_and_asked_again(tmp_path: Path) -> None:
    folder = write(tmp_path)

    def moody(request: dict[str, Any]) -> Act:
        prompt = request["messages"][0]["content"]
        if "number5" in prompt:
            return failure(400, "not allowed")
        if "number6" in prompt:
            return completion("I would say 85/100.")
        return answer(request)

    async with LoopbackServer(moody) as server:
        out = await finished(folder, server.url, 3)
        # Captions 5 and 6 of both systems: their references have the number.
        assert out.splitlines()[0].count("scored 24/32") == 1
        assert "is unscored: " in out
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    failed = [row for row in rows if row["index"] in "56"]
    assert len(rows) == 2 * VIDEOS * 4
    assert all(row["value"] is None and row["reason"] for row in failed)
    empty = {row["metric"]: row["value"] for row in rows if row["index"] == "3"}
    assert empty == {"clair": 0, "autodq-precision": None, "autodq-recall": 0, "autodq-f1": 0}
    async with LoopbackServer(answer) as server:
        out = await finished(folder, server.url)
        assert "all 16 captions scored" in out
        assert 0 < len(prompts(server)) <= 2 * 2 * (1 + 4)
        assert all(f"number{n}" not in one for one in prompts(server) for n in (0, 1, 2, 4, 7))


async def test_what_was_measured_is_correlated(tmp_path: Path) -> None:
    folder = write(tmp_path)
    async with LoopbackServer(answer) as server:
        await finished(folder, server.url)
    human = ["video_id,system,score"]
    human += [f"{n},{name},{n % 4}" for name in "ab" for n in range(VIDEOS)]
    (folder / "human.csv").write_text("\n".join(human) + "\n", "utf-8")
    command = ("correlate", "--human", "human.csv", "--metric", "m=metrics.jsonl", "--json")
    done = await capeval(folder, *command, "--ci", "none")
    assert done.code == 2
    assert "the caption has no events" in done.err
    done = await capeval(folder, *command, "--ci", "none", "--missing", "drop")
    assert done.code == 0, done.err
    names = {one["metric"] for one in json.loads(done.out)["results"]}
    assert names == {"m:clair", "m:autodq-precision", "m:autodq-recall", "m:autodq-f1"}


async def test_the_estimate_is_what_is_called(tmp_path: Path) -> None:
    folder = write(tmp_path)
    expected = json.loads((await capeval(folder, *COMMAND, "--dry-run", "--json")).out)
    async with LoopbackServer(answer) as server:
        await finished(folder, server.url)
        asked = prompts(server)
    # The guess is that every caption has events; here all have.
    assert expected["calls"] == asked.total()
    assert expected["cost"] > 0
    tokens = sum(map(len, asked)) // 4
    assert tokens / 2 < expected["input_tokens"] < 2 * tokens
    done = await capeval(folder, *COMMAND, "--dry-run", "--json")
    assert json.loads(done.out)["calls"] == 0


def test_other_wording_and_empties_are_computed_anew(tmp_path: Path) -> None:
    write(tmp_path)
    for options, count in (((), 16), (("--clair-wording", "image"), 16)):
        done = typed(tmp_path, *COMMAND, "--metric", "clair", *options, "--dry-run", "--json")
        assert done.json["runs"]["2 systems"]["clair"] == count
    done = typed(tmp_path, *COMMAND, "--clair-wording", "film", "--dry-run")
    assert done.code == 2
    assert "film" in done.err
