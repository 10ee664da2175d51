"""`capeval.Judge`: a judge that stays open and scores single captions, as rewards in training."""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from capeval.errors import EndpointDown, JudgeError, UsageError
from capeval.judging.judges import OpenJudge, open_judge
from capeval.judging.judging_work import judge_caption
from capeval.judging.protocol import JudgingOptions
from capeval.language import word_count
from capeval.options import declares, python_only, required, takes
from capeval.runs.engine import Spent
from capeval.runs.sources import SAMPLE, annotations_of
from capeval.schema import Annotation, Caption, ElementType, Scored, Unscored, id_text
from capeval.scoring.counts import GROUPS, MEASURES, AnnotationArrays, measures
from capeval.scoring.judged_run import video_scores
from capeval.scoring.scores import VideoScore
from capeval.text import nearest, shown

T = TypeVar("T")

Measure = Literal["precision", "recall", "f1"]
_Key = tuple[str, str]
_ByType = Mapping[str, VideoScore]

KEPT = 10_000
"""The scores kept in memory, limited for long training runs."""
_IN_A_ROW = 10
"""This many failures in a row end training, which must not go on without rewards."""


@declares
class RewardOptions(JudgingOptions):
    """The judge and the videos of the captions.

    Parameters
    ----------
    annotations : A file, tuna or sample.
    max_words : The reward of a longer caption is multiplied by this number divided by its words.
    """

    annotations: str | Path | Sequence[Annotation | Mapping[str, Any]] = required(
        note="Or `Annotation`s, or dicts."
    )
    max_words: int | None = python_only(None, min=1)


@dataclass(frozen=True)
class RewardCounts:
    """The numbers of captions scored, left unscored, and scored before."""

    scored: int = 0
    unscored: int = 0
    reused: int = 0


class Judge:
    """A judge that is opened once and scores any number of captions of annotated videos.

    It has its own event loop and thread, and works in any thread or notebook. It opens with the
    first caption, so that a process may fork before. No run is written, and replies are stored only
    in the file `cache`, if it is given. The parameters are those of `capeval.judge`, and
    `max_words`: the reward of a longer caption is multiplied by `max_words` / its words.

    >>> judge = Judge("sample", judge="lexical")
    >>> judge.rewards(["", "A man stands on a sunny beach."], ["sample_01", "sample_01"])[0]
    0.0
    >>> judge.close()
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._options = o = _options(*args, **options)
        self._annotations = {one.index: one for one in annotations_of(o.annotations)}
        self._kept: OrderedDict[_Key, _ByType] = OrderedDict()
        self._under_way: dict[_Key, asyncio.Task[_ByType | Unscored]] = {}
        self._failed_in_a_row = 0
        self._last_reason = ""
        self.counts = RewardCounts()
        self._lock = threading.Lock()
        self._process = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._end: Callable[[], object] = lambda: None
        self._opened: Future[OpenJudge] = Future()
        self._turns: asyncio.Semaphore

    def rewards(
        self,
        captions: Sequence[str],
        indices: Sequence[str | int],
        *,
        measure: Measure = "f1",
        type: ElementType | Literal["all"] = "all",  # noqa: A002 - as in scores.json
    ) -> list[float | None]:
        """Return a measure of each caption, from 0 to 1; None if it could not be judged.

        It is None too where the video has no elements of the type. `indices` are the captions'
        videos; many captions of one video are allowed, and the same text is judged once.

        Raises
        ------
        UsageError, EndpointRefused, BudgetReached
            An index is unknown, or no call can succeed.
        JudgeError
            Ten captions in a row could not be judged.
        """
        if measure not in MEASURES:
            raise UsageError(f"measure must be precision, recall or f1, not {shown(measure)}")
        found = self._call(captions, indices, type)
        try:
            scores = found.result()
        except KeyboardInterrupt:
            found.cancel()
            raise
        return [
            self._reward(getattr(one[type], measure), caption)
            if not isinstance(one, Unscored) and type in one
            else None
            for caption, one in zip(captions, scores, strict=True)
        ]

    async def score(
        self,
        captions: Sequence[str],
        indices: Sequence[str | int],
        *,
        type: ElementType | Literal["all"] = "all",  # noqa: A002 - as in scores.json
    ) -> list[VideoScore | Unscored]:
        """Return the score of each caption, or why it has none; see `rewards`."""
        found = await asyncio.wrap_future(self._call(captions, indices, type))
        nothing = f"the video has no elements of the type {type}"
        return [
            one
            if isinstance(one, Unscored)
            else one.get(type) or Unscored(index=id_text(index), reason=nothing)
            for index, one in zip(indices, found, strict=True)
        ]

    @property
    def spent(self) -> Spent:
        if not self._opened.done() or self._opened.exception():
            return Spent()
        meter = self._opened.result().meter
        return Spent(meter.usage, meter.spent)

    def close(self) -> None:
        """Close the connections; judging in progress is abandoned."""
        with self._lock:
            if self._thread and self._process == os.getpid():
                with suppress(RuntimeError):  # the loop of a judge that could not start has ended
                    self._end()
                self._thread.join(timeout=10)
            self._loop = self._thread = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reward(self, value: float, caption: str) -> float:
        most = self._options.max_words
        return value if most is None else value * min(1.0, most / max(1, word_count(caption)))

    def _call(
        self, captions: Sequence[str], indices: Sequence[str | int], kind: str
    ) -> Future[list[_ByType | Unscored]]:
        if kind not in GROUPS:
            raise UsageError(f"type must be one of {', '.join(GROUPS)}, not {shown(kind)}")
        if isinstance(captions, str) or len(captions) != len(indices):
            raise UsageError("captions and indices must be two lists of one length")
        keys = [(id_text(index), text) for index, text in zip(indices, captions, strict=True)]
        for index, text in keys:
            if index not in self._annotations:
                near = nearest(index, [*self._annotations])
                raise UsageError(f"the annotations have no video {shown(index)}{near}")
            if not isinstance(text, str):
                raise UsageError(f"a caption of {index} is not text: {shown(text)}")
        return asyncio.run_coroutine_threadsafe(self._scored(keys), self._begun())

    # ---- In the thread of the judge --------------------------------------------------------------

    def _begun(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._process, self._opened = os.getpid(), Future()
                self._under_way.clear()
                self._loop = loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(loop,), name="capeval-judge", daemon=True
                )
                self._thread.start()
                atexit.register(self.close)
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        main = loop.create_task(self._stay_open())
        self._end = partial(loop.call_soon_threadsafe, main.cancel)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(asyncio.wait([main]))

    async def _stay_open(self) -> None:
        o, opened = self._options, self._opened
        is_sample = o.annotations == SAMPLE
        try:
            keeps = o.cache is not None
            async with open_judge(o, is_sample=is_sample, keeps_replies=keeps) as judge:
                self._turns = asyncio.Semaphore(judge.concurrency)
                opened.set_result(judge)
                await asyncio.Event().wait()
        except Exception as failure:
            # Each call raises it; the next one tries again.
            opened.set_exception(failure)
            await asyncio.sleep(0)
            with self._lock:
                self._loop = None

    async def _scored(self, keys: Sequence[_Key]) -> list[_ByType | Unscored]:
        await asyncio.wrap_future(self._opened)
        tasks = [self._task(key) for key in keys]
        found: list[_ByType | Unscored] = []
        for one in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(one, BaseException):
                raise one
            found.append(one)
        if self._failed_in_a_row >= _IN_A_ROW:
            self._failed_in_a_row = 0
            raise JudgeError(
                f"{_IN_A_ROW} captions in a row could not be judged; the last: {self._last_reason}"
            )
        return found

    def _task(self, key: _Key) -> asyncio.Future[_ByType | Unscored]:
        if (task := self._under_way.get(key)) is not None:
            self._count(reused=1)
            return asyncio.shield(task)
        if (kept := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            self._count(reused=1)
            done: asyncio.Future[_ByType | Unscored] = asyncio.get_running_loop().create_future()
            done.set_result(kept)
            return done
        task = asyncio.create_task(self._judged(key))
        self._under_way[key] = task
        task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return asyncio.shield(task)

    async def _judged(self, key: _Key) -> _ByType | Unscored:
        index, text = key
        annotation, opened = self._annotations[index], self._opened.result()
        async with self._turns:
            if self._failed_in_a_row >= _IN_A_ROW:
                return Unscored(index=index, reason=self._last_reason)
            caption = Caption(index=index, caption=text)
            repeats = self._options.repeats or 1
            try:
                judged = await judge_caption(opened.judge, annotation, caption, repeats=repeats)
            except EndpointDown as failure:
                judged = Unscored(index=index, reason=str(failure))
        if not isinstance(judged, Scored):
            self._failed_in_a_row += 1
            self._last_reason = judged.reason
            self._count(unscored=1)
            return judged
        self._failed_in_a_row = 0
        self._count(scored=1)
        counts = AnnotationArrays([annotation]).counts([0], [judged.relations])
        found = video_scores([index], counts, measures(counts))[index]
        self._kept[key] = found
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found

    def _count(self, **more: int) -> None:
        # What a user has read before stays as it was.
        added = {name: getattr(self.counts, name) + count for name, count in more.items()}
        self.counts = replace(self.counts, **added)


def _given(options: RewardOptions) -> RewardOptions:
    return options


_given.__name__ = "Judge"
_options = takes(RewardOptions)(_given)
Judge.__signature__ = inspect.signature(RewardOptions)  # type: ignore[attr-defined]
