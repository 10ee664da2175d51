"""`-q` prints errors, and warnings about money or lost work; nothing else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.captioners.test_generate_command import describe
from tests.cli.conftest import Endpoint, Workspace, caption
from tests.cli_runs import capeval as here
from tests.judge_responder import answer
from tests.server import LoopbackServer, failure, refusing


async def judged_by(responder: Any, work: Workspace, *arguments: str) -> str:
    """What `judge -q` prints to stderr at a server of its own."""
    async with LoopbackServer(responder) as server:
        work.url = server.url
        ran = await asyncio.to_thread(work.judge, "-q", *arguments)
    assert (ran.code, ran.out) == (0, "")
    return ran.err


async def test_a_parameter_that_is_left_off_is_reported(work: Workspace) -> None:
    err = await judged_by(refusing("temperature", answer=answer), work, "--limit", "2")
    (line,) = err.splitlines()
    assert "judge-model does not take temperature; going on without (400: Unsupp" in line


async def test_a_cache_that_cannot_be_used_is_reported(work: Workspace) -> None:
    path = work.cache / "capeval" / "replies.sqlite"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database" * 100)
    err = await judged_by(answer, work, "--limit", "2")
    (line,) = err.splitlines()
    assert line.startswith(f"{path}: the reply cache cannot be used (file is not a database)")
    assert "a new one is begun" in line


def test_verdicts_that_are_paid_for_again_are_reported(work: Workspace, endpoint: Endpoint) -> None:
    del endpoint
    assert work.judge("-q").err == ""
    changed = [caption(number) for number in range(12)]
    changed[5]["caption"] = "A dog barks."
    text = "".join(json.dumps(line) + "\n" for line in changed)
    (work.judged.parent / "captions.jsonl").write_text(text, encoding="utf-8")
    err = work.judge("captions", "-q").err
    assert "1 stored verdict outdated (another caption of this video was judged" in err
    assert len(err.splitlines()) == 1


async def test_a_cost_that_is_an_estimate_is_reported(work: Workspace) -> None:
    def silent(request: dict[str, Any]) -> dict[str, Any]:
        return {**answer(request), "usage": None}

    assert await judged_by(silent, work, "--limit", "1") == ""
    work.write("capeval.toml", '[prices."judge-model"]\ninput = 1\noutput = 1\n')
    err = await judged_by(silent, work, "--limit", "2")
    assert err == "capeval: 3 replies came without token counts: the cost is an estimate\n"


async def test_every_video_without_a_caption_is_counted(tmp_path: Path) -> None:
    def filtered(request: dict[str, Any]) -> Any:
        is_preflight = isinstance(request["messages"][-1]["content"], str)
        return describe(request) if is_preflight else failure(400, "no", code="content_filter")

    async with LoopbackServer(filtered) as server:
        made = await here(
            tmp_path, "generate", "--model", "m", "--base-url", server.url, "--frames", "2", "-q"
        )
    assert made.code == 3
    assert len(made.err.splitlines()) == 6
    assert made.err.splitlines()[-1] == "capeval: m: 5 more are ungenerated"
