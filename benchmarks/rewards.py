"""What a reward costs beside the calls that it takes, and how near to the ideal 512 of them are."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

from openai import AsyncOpenAI

import capeval
from benchmarks.data import make_captions, make_set
from benchmarks.judging import Row, serve
from capeval.judging.contracts import contract_of, load_prompts

__all__ = ["measure"]

_VIDEOS, _GROUP, _AT_ONCE = 64, 8, 64
_MILLISECONDS, _IDEAL = 3.0, 1.35


def measure(folder: Path) -> Iterator[Row]:
    """Yield the rows one by one; files go under `folder`."""
    place = folder / "rewards"
    place.mkdir()
    annotations = make_set(_VIDEOS)
    indices, captions = list[str](), list[str]()
    for seed in range(_GROUP):
        make_captions(annotations, place / "captions.jsonl", seed)
        lines = [json.loads(line) for line in (place / "captions.jsonl").open()]
        indices += [line["index"] for line in lines]
        captions += [line["caption"] for line in lines]
    for latency in (0, 50, 200):
        with serve(place, latency) as url:
            with capeval.Judge(annotations, judge="bench", base_url=url) as judge:
                judge.rewards(["A first caption. It opens the judge."], indices[:1])
                calls = -judge.spent.usage.calls
                cpu, wall = -time.process_time(), -time.perf_counter()
                found = judge.rewards(captions, indices)
                cpu += time.process_time()
                wall += time.perf_counter()
                calls += judge.spent.usage.calls
            if None in found:
                raise SystemExit("a caption has no reward")
            alone = asyncio.run(_alone(url, calls, captions))
        each = 1000 * (cpu - alone) / calls
        yield Row(
            f"rewards of {len(captions)} captions ({_VIDEOS} videos x {_GROUP}), {latency} ms: "
            "processor time of a call beyond the call alone",
            f"{each:.2f} ms",
            f"<= {_MILLISECONDS:g} ms",
            each <= _MILLISECONDS,
        )
        if latency == 200:
            ideal = calls / _AT_ONCE * latency / 1000
            yield Row(
                f"the same against the ideal {ideal:.2f} s",
                f"{wall:.2f} s, {wall / ideal:.2f} x",
                f"<= {_IDEAL:g} x",
                wall <= _IDEAL * ideal,
            )


async def _alone(url: str, calls: int, captions: list[str]) -> float:
    """Return the processor seconds of as many calls without a judge."""
    turns = asyncio.Semaphore(_AT_ONCE)
    prompts = load_prompts("tuna-cap-v1")
    contract = contract_of(prompts)
    texts = [prompts.render("split", {"caption": contract.show_caption(c)}) for c in captions]
    async with AsyncOpenAI(base_url=url, api_key="none") as client:

        async def call(number: int) -> None:
            async with turns:
                text = texts[number % len(texts)]
                await client.chat.completions.create(
                    model="bench", messages=[{"role": "user", "content": text}]
                )

        await call(0)
        began = time.process_time()
        async with asyncio.TaskGroup() as group:
            for number in range(calls):
                group.create_task(call(number))
        return time.process_time() - began
