"""One question as a job of the captioners' pipeline."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from capeval.captioners.pipeline import Job
from capeval.captioners.protocol import CaptionRequest
from capeval.mcq.frames import Shown, no_frames
from capeval.mcq.prompting import Prompt, question_prompt, scored_texts
from capeval.mcq.subtitles import Cue, subtitles_at
from capeval.schema.question import Likelihoods, Question, Response
from capeval.video import FrameReader, FrameSet

ASKED = "asked"
"""The key under which `QuestionJob.record` puts what belongs to the call, not to the frames."""


@dataclass(frozen=True)
class QuestionJob(Job):
    """A question; `reader` is None where it is asked without the video.

    With `folds_system`, a system prompt is put in front of the prompt.
    """

    question: Question = field(kw_only=True)
    shown: Shown = field(kw_only=True)
    reader: FrameReader | None = field(kw_only=True)
    policy: str = field(kw_only=True)
    symbols: str = field(default="letters", kw_only=True)
    cues: Sequence[Cue] = field(default=(), kw_only=True)
    has_likelihood: bool = field(default=False, kw_only=True)
    folds_system: bool = field(default=False, kw_only=True)

    @property
    def kind(self) -> Literal["caption", "answer"]:
        """An answer is kept as it is."""
        return "answer"

    def read(self, reader: FrameReader, cancel: threading.Event | None = None) -> FrameSet:
        """Return the frames by the question's own reader, in the order of the prompt."""
        del reader
        if self.reader is None:
            return no_frames()
        return self.shown.reorder(self.reader.read(self.path, cancel=cancel), self.question)

    def asked(self, times: Sequence[float]) -> Prompt:
        """Return the prompt for frames at these times (in seconds)."""
        return question_prompt(
            self.question,
            frames=None if self.shown.blind else len(times),
            policy=self.policy,
            symbols=self.symbols,
            subtitles=subtitles_at(self.cues, times),
        )

    def is_answered_by(self, stored: Response) -> bool:
        """Return whether a response is one to this very prompt, about these frames and this video.

        The subtitles may have changed, or the column that names the frame.
        """
        try:
            times = [float(time) for time in stored.frames.get("times", ())]
        except (TypeError, ValueError):
            return False
        return (
            not self.shown.showed_another(self.question, stored.frames)
            and stored.call.get("prompt") == self.asked(times).hash
            and (not self.video or stored.call.get("video") == self.video)
        )

    def request(self, frames: FrameSet) -> CaptionRequest:
        """Return what the model is given.

        Shuffled frames get the times of the ordered ones: some models are shown the times.
        """
        prompt = self.asked(frames.times)
        folded = f"{prompt.system}\n\n{prompt.text}" if prompt.system else prompt.text
        texts = scored_texts(self.question.options, self.symbols) if self.has_likelihood else {}
        return CaptionRequest(
            index=self.index,
            prompt=folded if self.folds_system else prompt.text,
            frames=frames.frames,
            indices=tuple(sorted(frames.indices)),
            times=tuple(sorted(frames.times)),
            fps=frames.fps,
            total_frames=frames.total,
            duration=frames.duration,
            kind="answer",
            system=None if self.folds_system else prompt.system,
            continuations=tuple(text for several in texts.values() for text in several),
        )

    def record(self, frames: FrameSet, policy: str) -> dict[str, Any]:
        """Return what a response records of its frames, in the order in which they were shown."""
        del policy
        shown = self.shown
        record: dict[str, Any] = {"policy": self.policy}
        if self.reader is not None:
            record = super().record(frames, self.policy)
            record |= {"order": shown.order}
        if shown.single:
            record["single"] = shown.single
        if self.cues:
            record["subtitles"] = len(subtitles_at(self.cues, frames.times))
        prompt = self.asked(frames.times)
        return {**record, ASKED: {"template": prompt.template, "prompt": prompt.hash}}

    def likelihoods(self, scores: Sequence[tuple[float, int]]) -> Likelihoods:
        """Return the scores of the request's continuations, in the order of the options."""
        count = len(self.question.options)
        names = [*scored_texts(self.question.options, self.symbols)]
        if len(scores) != count * len(names):
            raise ValueError("the model did not score every option")
        sums: dict[str, tuple[float, ...]] = {}
        tokens: dict[str, tuple[int, ...]] = {}
        for at, name in enumerate(names):
            of = scores[at * count : (at + 1) * count]
            sums[name] = tuple(total for total, _ in of)
            tokens[name] = tuple(number for _, number in of)
        found: Mapping[str, Any] = {**sums, "tokens": tokens}
        return Likelihoods(**found)
