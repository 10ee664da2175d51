"""Which questions are still to be answered, and what is stored of the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capeval.captioners.protocol import Captioner
from capeval.captioners.run_settings import same_settings, settings_id
from capeval.errors import InputError, VideoError
from capeval.files.jsonl import numbered_lines
from capeval.files.videos import VideoFolder, none_found
from capeval.mcq.asking import Asking
from capeval.mcq.find_run import RESPONSES
from capeval.mcq.question_job import QuestionJob, key_of
from capeval.runs.engine import Plan, select
from capeval.runs.folder import RunFolder
from capeval.runs.shards import Shard
from capeval.schema.question import Question, Response
from capeval.text import complaint, shown
from capeval.video.frames import file_size

_PART = re.compile(r"responses\.\d+-of-\d+\.jsonl", re.ASCII)


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
    same_settings(run, settings)
    accepted = settings_id(settings)
    folder = None if asking.videos is None else VideoFolder(asking.videos)
    known = {question.id: question for question in asking.questions}
    kept: dict[str, ResponseOutcome] = {}
    again = fitting = lines = 0
    for place, stored in _stored(run):
        question = known.get(stored.id)
        if question is None:
            raise InputError(
                f"answers {shown(stored.id)}, which {asking.path} does not have; "
                "choose another --run",
                file=place[0],
                where=f"line {place[1]}",
            )
        if stored.reply is not None and stored.call.get("settings") != accepted:
            raise InputError(
                "was answered with other settings, or not by `capeval mcq answer`; settings cannot "
                "be mixed in one run",
                file=place[0],
                where=f"line {place[1]}",
            )
        index = key_of(stored.id, stored.rotation)
        lines, is_same = lines + 1, _is_same(stored, question)
        fitting += is_same
        if not is_same or not _is_current(stored, question, asking, folder):
            again += 1
        elif stored.reply is not None or index not in kept or kept[index].reason is not None:
            kept[index] = ResponseOutcome(index, _of(question, stored))
    if lines and not fitting:
        _refuse_another_file(run, asking)
    todo: list[QuestionJob] = []
    missing: dict[str, str] = {}
    absent: dict[str, str] = {}  # the same by video
    folds_system = not getattr(captioner, "takes_system_prompts", False)
    for question in asking.chosen:
        for rotation in asking.rotations(question):
            index = key_of(question.id, rotation)
            if index in kept and kept[index].reason is None:
                continue
            try:
                path, video = _found(question, folder)
                todo.append(
                    replace(
                        asking.job(question, rotation, video),
                        path=path,
                        reader=asking.reader_for(question) if asking.reader_for else None,
                        folds_system=folds_system,
                    )
                )
            except VideoError as error:
                missing[index] = absent[question.video] = str(error)
                response = Response.to(
                    question, None, reason=str(error), rotation=rotation
                ).model_copy(update={"symbols": asking.symbols})
                kept[index] = ResponseOutcome(index, response)
    done = any(one.reason is None for one in kept.values())
    if missing and not todo and not done and asking.videos is not None:
        raise InputError(
            f"{none_found(absent)}; name the folder of the videos with --videos",
            file=asking.videos,
        )
    # A video is decoded once for the questions about it, so they are asked one after the other.
    first = {path: n for n, path in enumerate(dict.fromkeys(job.path for job in todo))}
    return AnswerPlan(
        name=run.name,
        kept=kept,
        # Those that failed before come last: one that breaks the model keeps no other waiting.
        todo=tuple(sorted(todo, key=lambda job: (job.index in kept, first[job.path]))),
        run=run,
        asking=asking,
        settings=settings,
        again=again,
        missing=missing,
    )


def _found(question: Question, folder: VideoFolder | None) -> tuple[Path, dict[str, Any]]:
    """Return the path of a question's video, and what is recorded of it; raises `VideoError`."""
    if folder is None:
        return Path(), {}
    path = folder.find(question.video)
    return path, {"file": path.relative_to(folder.path).as_posix(), "bytes": file_size(path)}


def _stored(run: RunFolder) -> Iterator[tuple[tuple[Path, int], Response]]:
    for file in (run.path / RESPONSES, *parts_in(run.path)):
        for number, value in numbered_lines(file):
            try:
                yield (file, number), Response.model_validate(value)
            except ValidationError as faults:
                name, message = complaint(faults)
                raise InputError(message, file=file, where=f"line {number}", field=name) from None


def _is_same(stored: Response, question: Question) -> bool:
    same = ("benchmark", "question", "options", "video")
    return all(getattr(stored, name) == getattr(question, name) for name in same)


def _refuse_another_file(run: RunFolder, asking: Asking) -> None:
    """Refuse a run about other questions with the same ids: its replies would be replaced."""
    before = run.read_manifest().get("questions")
    path = before.get("path") if isinstance(before, dict) else None
    if path is not None and path != asking.path:
        raise InputError(
            f"answers other questions with the same ids, those of {shown(path)}; "
            "choose another --run",
            file=run.path,
        )


def _is_current(
    stored: Response, question: Question, asking: Asking, folder: VideoFolder | None
) -> bool:
    """Return whether a response answers a question as it would be asked now."""
    if stored.rotation not in asking.rotations(question):
        return False
    if stored.reply is None:
        return True
    try:
        _, video = _found(question, folder)
    except VideoError:
        # The file no longer exists; its stored reply is still valid.
        video = {}
    return asking.job(question, stored.rotation, video).is_answered_by(stored)


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
