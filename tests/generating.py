"""Captioners and decoders that need neither a model nor a video."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from capeval.captioners.protocol import Captioned, CaptionRequest, Uncaptioned
from capeval.errors import VideoError
from capeval.schema import Usage
from capeval.video import FrameSet

SETTINGS = {"backend": "fake", "max_new_tokens": 1024}


class FakeReader:
    """Makes frames out of a video's name; `broken` says why a name has none."""

    def __init__(
        self,
        *,
        policy: str = "32",
        count: Callable[[str], int] = lambda _: 4,
        broken: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self.policy, self.decoder = policy, "fake"
        self.read_names: list[str] = []
        self._count, self._broken = count, broken

    def read(self, path: Path, *, cancel: threading.Event | None = None) -> FrameSet:
        self.read_names.append(path.stem)
        if reason := self._broken(path.stem):
            raise VideoError(reason, file=path)
        n = self._count(path.stem)
        return FrameSet(
            np.zeros((n, 4, 6, 3), np.uint8), tuple(range(n)), (0.5,) * n, n, 24.0, n / 24
        )


class FakeCaptioner:
    """Writes what it was given; `answer` may say otherwise for an index."""

    def __init__(
        self,
        *,
        name: str = "fake-vlm",
        batch_size: int = 1,
        concurrency: int = 1,
        settings: Mapping[str, Any] = SETTINGS,
        answer: Callable[[CaptionRequest], Captioned | Uncaptioned | BaseException | None] = (
            lambda _: None
        ),
    ) -> None:
        self.name = name
        self.settings, self.batch_size, self.concurrency = settings, batch_size, concurrency
        self.mixes_frame_counts = False
        self.batches: list[tuple[int, ...]] = []
        self.prompts: dict[str, str] = {}
        self._answer = answer

    async def caption(self, requests: Sequence[CaptionRequest]) -> list[Captioned | Uncaptioned]:
        await asyncio.sleep(0)
        self.batches.append(tuple(len(r.frames) for r in requests))
        outcomes: list[Captioned | Uncaptioned] = []
        for request in requests:
            self.prompts[request.index] = request.prompt
            answer = self._answer(request)
            if isinstance(answer, BaseException):
                raise answer
            outcomes.append(answer or replace(captioned(request.index), model=self.name))
        return outcomes

    async def aclose(self) -> None:
        return


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def captioned(index: str, text: str | None = None, **more: Any) -> Captioned:
    usage = Usage(calls=1, input_tokens=100, output_tokens=10)
    text = f"A dog of {index} runs." if text is None else text
    return Captioned(index, text, usage, 0.1, "fake-vlm", **more)


def annotation(index: str, **more: Any) -> dict[str, Any]:
    element = {"content": "A dog runs.", "type": "action", "weight": 3}
    event = {"event": "A dog runs.", "visual_elements": [element]}
    return {"index": index, "video": index, "events": [event], **more}
