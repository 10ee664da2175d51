"""The questions of a run, and how they are asked: what all of its responses share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval.captioners.protocol import Captioner
from capeval.captioners.run import default_run
from capeval.files.jsonl import as_stored
from capeval.files.packaged import prompts_label
from capeval.mcq.frames import ReaderFor, Shown
from capeval.mcq.prompting import PROMPTS
from capeval.mcq.question_job import QuestionJob
from capeval.mcq.subtitles import SubtitleFiles
from capeval.runs.engine import select
from capeval.runs.folder import safe_name
from capeval.runs.shards import Shard
from capeval.schema.question import Question


@dataclass(frozen=True)
class Asking:
    """The questions, and how they are asked.

    Attributes
    ----------
    questions : all of the file
    chosen : those that the filters leave
    reader_for : gives the reader of a question's frames; None without frames
    """

    questions: tuple[Question, ...]
    chosen: tuple[Question, ...]
    path: str
    videos: Path | None
    view: Shown
    reader_for: ReaderFor | None
    decoder: str
    symbols: str = "letters"
    likelihood: bool = False
    subtitles: SubtitleFiles | None = None
    shard: Shard | None = None

    @property
    def without_subtitles(self) -> int:
        """The number of videos that have no subtitles, where subtitles are given."""
        if self.subtitles is None:
            return 0
        videos = {question.video for question in self.chosen}
        return sum(not self.subtitles.of(video) for video in videos)

    @property
    def policies(self) -> str | dict[str, str]:
        """How frames are chosen, by benchmark if that differs."""
        # Of all questions: a part of them belongs to the same run.
        found = {q.benchmark: self.view.policy_name(q) for q in self.questions}
        return next(iter(found.values())) if len({*found.values()}) == 1 else found

    def folder_name(self, model: str) -> str:
        """Return `MODEL@SETTINGS`, where the settings are those in which runs usually differ.

        Others are in the manifest; a run is refused that has different ones.
        """
        view, policies = self.view, self.policies
        frames = policies if isinstance(policies, str) else "mixed"
        parts = [
            "" if view.single or view.blind else frames,
            view.label,
            "subtitles" if self.subtitles else "",
            "" if self.symbols == "letters" else self.symbols,
            "likelihood" if self.likelihood else "",
        ]
        return safe_name(f"{default_run(model)}@{'+'.join(filter(None, parts))}")

    @property
    def benchmark(self) -> str:
        """The folder for all runs on these questions."""
        names = {question.benchmark for question in self.questions}
        return safe_name(names.pop()) if len(names) == 1 else "mixed"

    def settings(self, captioner: Captioner) -> dict[str, Any]:
        """Return the settings that affect replies, as JSON values; a run has one set of them."""
        found: dict[str, Any] = as_stored(
            {
                "model": captioner.name,
                "frames": self.policies,
                "decoder": self.decoder,
                **self.view.settings(),
                "prompt": {"set": prompts_label(PROMPTS)},
                "symbols": self.symbols,
                "likelihood": self.likelihood,
                "subtitles": self.subtitles is not None,
                "generation": dict(captioner.settings),
            }
        )
        return found

    def job(self, question: Question, video: Mapping[str, Any]) -> QuestionJob:
        """Return how a question is asked; path and reader are set once it is to be asked.

        `video` is what a response records of the file.
        """
        cues = self.subtitles.of(question.video) if self.subtitles else None
        return QuestionJob(
            question.id,
            Path(),
            question.question + "".join(question.options),
            video,
            question=question,
            shown=self.view,
            reader=None,
            policy=self.view.policy_name(question),
            symbols=self.symbols,
            cues=cues or (),
            has_likelihood=self.likelihood,
        )


def chosen_questions(
    questions: Sequence[Question],
    *,
    only: Sequence[str] = (),
    limit: int | None = None,
    shard: Shard | None = None,
    of: Sequence[Question] | None = None,
) -> tuple[Question, ...]:
    """Return the questions that `--only`, `--shard` and `--limit` leave.

    `of` are those that shards divide: all of the file.
    """
    place = {question.id: n for n, question in enumerate(of or questions)}
    chosen = select(
        questions, lambda question: question.id, only=only, missing="no question has the id"
    )
    return tuple(q for q in chosen if shard is None or shard.holds(place[q.id]))[:limit]
