"""Which questions are still to be answered, and what is stored of the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capeval.captioners.plan import default_run
from capeval.captioners.protocol import Captioner
from capeval.captioners.run_settings import accepted_ids, same_settings
from capeval.errors import InputError, VideoError
from capeval.files.jsonl import as_stored, numbered_lines
from capeval.files.prompts import prompts_label
from capeval.files.videos import VideoFolder, none_found
from capeval.mcq.frames import ReaderFor, Shown
from capeval.mcq.prompting import PROMPTS
from capeval.mcq.question_job import QuestionJob, key_of
from capeval.mcq.subtitles import SubtitleFiles
from capeval.runs.engine import Plan, select
from capeval.runs.folder import RunFolder, safe_name
from capeval.runs.shards import Shard
from capeval.schema.question import Question, Response
from capeval.text import complaint, shown
from capeval.video.frames import file_size

RESPONSES = "responses.jsonl"
_PART = re.compile(r"responses\.\d+-of-\d+\.jsonl", re.ASCII)


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
    circular: bool = False
    likelihood: bool = False
    subtitles: SubtitleFiles | None = None
    shard: Shard | None = None

    def rotations(self, question: Question) -> range:
        """Return the rotations of the options that are asked."""
        return range(len(question.options) if self.circular else 1)

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
        found = {q.benchmark: self.view.policy_name(q) for q in self.chosen}
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
            "circular" if self.circular else "",
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
                "circular": self.circular,
                "likelihood": self.likelihood,
                "subtitles": self.subtitles is not None,
                "generation": dict(captioner.settings),
            }
        )
        return found


@dataclass(frozen=True)
class ResponseOutcome:
    """A response; `reason` says why it has no reply."""

    index: str
    response: Response

    @property
    def reason(self) -> str | None:
        """Why there is no reply; None if there is one."""
        return None if self.response.reply is not None else self.response.reason or "no reply"


@dataclass(frozen=True)
class AnswerPlan(Plan[ResponseOutcome]):
    """What answering will do; `again` counts replies to questions that have changed since."""

    run: RunFolder
    asking: Asking
    settings: Mapping[str, Any]
    again: int
    missing: Mapping[str, str]

    @property
    def file(self) -> Path:
        """Where responses are appended."""
        shard = self.asking.shard
        name = f"responses.{shard.label}.jsonl" if shard else RESPONSES
        return self.run.path / name


def parts_in(folder: Path) -> list[Path]:
    """Return the files of shards in a run's folder."""
    if not folder.is_dir():
        return []
    return sorted(entry for entry in folder.iterdir() if _PART.fullmatch(entry.name))


def plan_answers(run: RunFolder, asking: Asking, captioner: Captioner) -> AnswerPlan:
    """Find out which questions are left; raises `InputError`."""
    settings = asking.settings(captioner)
    accepted = accepted_ids(settings, same_settings(run, settings))
    folder = None if asking.videos is None else VideoFolder(asking.videos)
    known = {question.id: question for question in asking.questions}
    kept: dict[str, ResponseOutcome] = {}
    again = 0
    for place, stored in _stored(run):
        question = known.get(stored.id)
        if question is None:
            raise InputError(
                f"answers {shown(stored.id)}, which {asking.path} does not have; "
                "choose another --run",
                file=place[0],
                where=f"line {place[1]}",
            )
        if stored.reply is not None and stored.call.get("settings") not in accepted:
            raise InputError(
                "was answered with other settings, or not by `capeval mcq answer`; settings cannot "
                "be mixed in one run",
                file=place[0],
                where=f"line {place[1]}",
            )
        index = key_of(stored.id, stored.rotation)
        if not _is_same(stored, question, folder):
            again += 1
        elif stored.reply is not None or index not in kept or kept[index].reason is not None:
            kept[index] = ResponseOutcome(index, _of(question, stored))
    todo: list[QuestionJob] = []
    missing: dict[str, str] = {}
    folds_system = not getattr(captioner, "takes_system_prompts", False)
    for question in asking.chosen:
        for rotation in asking.rotations(question):
            index = key_of(question.id, rotation)
            if index in kept and kept[index].reason is None:
                continue
            try:
                todo.append(_job(asking, question, rotation, folder, folds_system))
            except VideoError as error:
                missing[index] = str(error)
                response = Response.to(
                    question, None, reason=str(error), rotation=rotation
                ).model_copy(update={"symbols": asking.symbols})
                kept[index] = ResponseOutcome(index, response)
    done = any(one.reason is None for one in kept.values())
    if missing and not todo and not done and asking.videos is not None:
        raise InputError(
            f"{none_found(missing)}; name the folder of the videos with --videos",
            file=asking.videos,
        )
    return AnswerPlan(
        name=run.name,
        kept=kept,
        # Those that failed before come last: one that breaks the model keeps no other waiting.
        todo=tuple(sorted(todo, key=lambda job: job.index in kept)),
        run=run,
        asking=asking,
        settings=settings,
        again=again,
        missing=missing,
    )


def _job(
    asking: Asking, question: Question, rotation: int, folder: VideoFolder | None, folds: bool
) -> QuestionJob:
    path, video = Path(), {}
    if folder is not None:
        path = folder.find(question.video)
        video = _file_of(path, folder)
    cues = asking.subtitles.of(question.video) if asking.subtitles else None
    return QuestionJob(
        key_of(question.id, rotation),
        path,
        question.question + "".join(question.options),
        video,
        question=question,
        rotation=rotation,
        shown=asking.view,
        reader=asking.reader_for(question) if asking.reader_for else None,
        policy=asking.view.policy_name(question),
        symbols=asking.symbols,
        cues=cues or (),
        has_likelihood=asking.likelihood,
        folds_system=folds,
    )


def _file_of(path: Path, folder: VideoFolder) -> dict[str, Any]:
    return {"file": path.relative_to(folder.path).as_posix(), "bytes": file_size(path)}


def _stored(run: RunFolder) -> Iterator[tuple[tuple[Path, int], Response]]:
    for file in (run.path / RESPONSES, *parts_in(run.path)):
        for number, value in numbered_lines(file):
            try:
                yield (file, number), Response.model_validate(value)
            except ValidationError as faults:
                name, message = complaint(faults, list(Response.model_fields))
                raise InputError(message, file=file, where=f"line {number}", field=name) from None


def _is_same(stored: Response, question: Question, folder: VideoFolder | None) -> bool:
    """Return whether a response answers a question as it is now, about the video as it is now."""
    same = ("question", "options", "video")
    if any(getattr(stored, name) != getattr(question, name) for name in same):
        return False
    if folder is None or stored.reply is None:
        return True
    try:
        return stored.call.get("video") == _file_of(folder.find(question.video), folder)
    except VideoError:
        # The file no longer exists; its stored reply is still valid.
        return True


def _of(question: Question, stored: Response) -> Response:
    """Return a response with the answer and the tags that the question has now."""
    return stored.model_copy(update={"answer": question.answer, "tags": question.tags})


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
