"""Find and load the responses to grade: responses.jsonl, or the files of benchmarks' own code.

A name means a run in `runs/mcq/BENCHMARK/`, as in every command (`capeval.runs.resolve`). Runs of
one model on several benchmarks share a name, which must then be given as a path.

TOMATO's files are `REASONING_TYPE+DEMONSTRATION_TYPE/FRAMES/MODEL.jsonl`, with lines of `{"id",
"question", "response", "all_choices", "index2ans", "gt"}`. The number of a question restarts for
each reasoning type, which only the name of the folder has. Video-MME's is a template of results.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from capeval.errors import InputError
from capeval.files.captions import recorded_reply
from capeval.files.jsonl import json_lines, read_bytes, read_text, validated
from capeval.files.tables import Name
from capeval.mcq.question_files import (
    LAYOUTS,
    QuestionFile,
    QuestionRecord,
    harness_id,
    read_source,
    record_of,
)
from capeval.options import Notices, ignore
from capeval.runs.folder import RunFolder, file_of, shards_in
from capeval.runs.resolve import RUNS, locate
from capeval.schema import OPTION_LETTERS, Question, Response, Text, option_lines
from capeval.text import counted, listed, shown

# ---- Runs ----------------------------------------------------------------------------------------

MCQ = "mcq"
"""The folder of the runs of questions, in the folder of runs."""
RESPONSES = "responses.jsonl"


def question_runs(runs: Path) -> list[Path]:
    """Return the folders in which runs of questions are looked for."""
    of_questions = runs / MCQ
    found = sorted(of_questions.iterdir()) if of_questions.is_dir() else []
    return [*(one for one in found if one.is_dir()), runs, of_questions]


def find_responses(name_or_path: str | Path, runs: Path = RUNS) -> Path:
    """Return the responses.jsonl of the run that is named, or else the path itself."""
    path = locate(
        name_or_path,
        runs,
        lambda place: any(place.glob("*.jsonl")),
        "a file of responses",
        folders=question_runs(runs),
    )
    return path / RESPONSES if (path / RESPONSES).is_file() or shards_in(path) else path


def questions_of_run(responses: Path) -> int | None:
    """Return the number of questions in a run's manifest; None if it has none."""
    if responses.name != RESPONSES:
        return None
    about: Mapping[str, int] = RunFolder(responses.parent).read_manifest().get("questions", {})
    return about.get("count")


def models_of(responses: Iterable[Response]) -> list[str]:
    """Return the models that replied, as far as the responses name them."""
    named = (one.call.get("model") for one in responses if one.call)
    return sorted({name for name in named if isinstance(name, str) and name.strip()})


def responses_hash(responses: Sequence[Response]) -> str:
    """Return the SHA-256 (hex) of the questions: ids, texts, options and right answers."""
    lines = {
        "\0".join((r.benchmark, r.id, r.question, *r.options, r.answer)) + "\n" for r in responses
    }
    return hashlib.sha256("".join(sorted(lines)).encode("utf-8", "surrogatepass")).hexdigest()


# ---- Files of responses --------------------------------------------------------------------------


def load_responses(
    path: Path, on_notice: Notices = ignore, questions: Sequence[Question] | None = None
) -> tuple[Response, ...]:
    """Return responses in the order of their file; none may be there twice.

    `path` is a responses.jsonl or its run, which may have the files of shards instead; a filled
    template of Video-MME; a result file of TOMATO's code or a folder of such files; VLMEvalKit's
    predictions; or lmms-eval's log. TOMATO's code and lmms-eval record the `questions` in part.
    """
    run = path.parent if path.name == RESPONSES else path
    of_run = [file_of(run, "responses", shard) for shard in (None, *shards_in(run))]
    files = [file for file in of_run if file.exists()]
    fields = frozenset() if files or path.is_dir() else _first_fields(path)
    if files or fields >= {"reply", "options"}:
        found = [response for file in files or [path] for response in _lines(file)]
    elif path.is_dir() or fields >= _TomatoLine.model_fields.keys():
        found = tomato_responses(path, questions, on_notice)
    else:
        found = _predictions(path, questions, on_notice)
    seen: set[tuple[str, str]] = set()
    for one in found:
        if (one.benchmark, one.id) in seen:
            message = f"the response to {shown(one.id)} is duplicated; remove one of them"
            raise InputError(message, file=path)
        seen.add((one.benchmark, one.id))
    if not seen:
        raise InputError("has no responses", file=path)
    return tuple(found)


def _first_fields(file: Path) -> frozenset[str]:
    """Return the fields of the JSON object in the first line; none if it has another content."""
    try:
        value = json.loads(read_bytes(file).lstrip().partition(b"\n")[0])
    except (ValueError, RecursionError):
        return frozenset()
    return frozenset(value if isinstance(value, dict) else ())


def _lines(file: Path) -> Iterator[Response]:
    for where, value in json_lines(read_text(file), file=file):
        one = validated(Response, value, file=file, where=where)
        letters = OPTION_LETTERS[: len(one.options)]
        if not 2 <= len(one.options) == len(letters) or one.answer not in [*letters]:
            fields = {name: getattr(one, name) for name in Question.model_fields if name != "tags"}
            validated(Question, fields, file=file, where=where)  # which says what is wrong
        yield one


# ---- Files of the benchmarks' own code -----------------------------------------------------------

_FOLDER = re.compile(r"(?:shuffle_)?(?P<reasoning_type>[^+/]+)\+(?P<demonstration_type>[^+/]+)")
# Models that take the whole video have -1 frames.
_WHOLE_VIDEO = -1


class _TomatoLine(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    id: Name
    question: Text
    response: str | None
    all_choices: list[str]
    index2ans: dict[str, Text]
    gt: Annotated[str, BeforeValidator(str)]


def _predictions(
    path: Path, questions: Sequence[Question] | None, on_notice: Notices
) -> list[Response]:
    """Return the responses of a benchmark's own file with replies, in its order.

    It is a filled template or table of Video-MME, a table of VLMEvalKit's, or a log of lmms-eval's,
    which needs `questions`. A question whose reply is null or an empty cell has none; an empty text
    in Video-MME's JSON is an empty reply.
    """
    source = read_source(path, on_notice)
    logs = source.value.get("logs") if isinstance(source.value, dict) else None
    if isinstance(logs, list):
        entries = [record_of(path, f"entry {n}", one) for n, one in enumerate(logs, start=1)]
        source = QuestionFile(path, records=entries)
    if "doc_id" in (columns := source.columns()) and columns & {*_RESPONSES}:
        return _of_log(source, questions, on_notice)
    layout = next((one for one in LAYOUTS if one.fits(source)), LAYOUTS[-1])
    rows = [*layout.records(source, on_notice)] if layout.reply else []
    if not any(layout.reply in one.fields for one in rows):
        raise InputError(
            "has no responses; give JSON lines with benchmark, id, video, question, options, "
            "answer and reply, as `capeval mcq answer` writes them, a file of a benchmark's code, "
            "VLMEvalKit's predictions or lmms-eval's log",
            file=path,
        )
    replies = [one.fields.get(layout.reply) for one in rows]
    if layout.reply == "prediction":
        on_notice(f"{path}: VLMEvalKit's predictions for {layout.benchmark}")
        replies = [*map(recorded_reply, replies)]
    elif path.suffix.lower() in (".csv", ".tsv", ".xlsx"):
        replies = [None if reply == "" else reply for reply in replies]
    ids = {one.id for one in questions or ()}
    texts = {(one.video, one.question): one for one in questions or ()}
    # VLMEvalKit numbers the rows of Video-MME.
    named = [
        one if one.id in ids else texts.get((one.video, one.question), one)
        for _, one in layout.questions(source, on_notice)
    ]
    return [_to(*pair, path) for pair in zip(named, replies, strict=True)]


def _to(question: Question, reply: Any, file: Path) -> Response:
    reason = f"no response in {file.name}" if reply is None else None
    return Response.to(question, None if reply is None else str(reply), reason=reason)


_RESPONSES = ("filtered_resps", "resps")
_QUESTION_IDS: Mapping[str, Callable[[QuestionRecord], str]] = {
    "tomato_score": lambda record: "/".join(harness_id(record, "question_id")),
    "videomme_perception_score": lambda record: record.name("question_id"),
}
"""The id of a question, by the name of the metric that lmms-eval logs with its fields."""


def _of_log(
    source: QuestionFile, questions: Sequence[Question] | None, on_notice: Notices
) -> list[Response]:
    file, first = source.file, source.records[0].fields
    if not questions:
        message = "lmms-eval's log has replies only; name the questions with --questions"
        raise InputError(message, file=file)
    metric = next((name for name in _QUESTION_IDS if isinstance(first.get(name), dict)), None)
    how = "doc_id in the order of the questions" if metric is None else f"{metric}.question_id"
    on_notice(f"{file}: lmms-eval's log, joined by {how}")
    known = {one.id: one for one in questions}
    found = []
    for record in source.records:
        if metric is None:
            question = _numbered(record, questions)
        else:
            part = record_of(file, record.place, record.fields.get(metric))
            name = _QUESTION_IDS[metric](part)
            if name not in known:
                raise record.error(metric, f"{shown(name)} is not among the questions")
            question = known[name]
        replies = next(record.fields[name] for name in _RESPONSES if name in record.fields)
        found.append(_to(question, recorded_reply(replies), file))
    return found


def _numbered(record: QuestionRecord, questions: Sequence[Question]) -> Question:
    number, target = record.fields["doc_id"], record.fields.get("target")
    if type(number) is not int or not 0 <= number < len(questions):
        raise record.error("doc_id", f"must be a number from 0 to {len(questions) - 1}")
    question = questions[number]
    if target not in (question.answer, question.options[question.right]):
        message = f"{shown(target)} is not the answer of question {question.id}, row {number}"
        raise record.error("target", f"{message}; name the questions of this log")
    return question


def tomato_responses(
    path: Path, questions: Sequence[Question] | None, on_notice: Notices
) -> list[Response]:
    """Return the responses of a result file of TOMATO's code, or of a folder of results.

    With `questions`, each response gets its question's video and tags; without, a notice says what
    is not known. A file says of which model it is, so a folder must have files of one model.
    """
    files = [path]
    if path.is_dir():
        found = sorted(path.rglob("*.jsonl"))
        files = [file for file in found if _FOLDER.fullmatch(file.parent.parent.name)]
    if not files:
        what = "results of TOMATO's code such as count+human/16/MODEL.jsonl"
        raise InputError(f"has no responses.jsonl, and no {what}", file=path)
    models = sorted({file.stem for file in files})
    if len(models) > 1:
        raise InputError(
            f"has results of {counted(len(models), 'model')} ({listed(models)}); name the files of "
            "one of them",
            file=path,
        )
    if not questions:
        on_notice(
            "without --questions, the videos and tags of TOMATO's questions are not known: "
            "intervals treat every question as its own video"
        )
    known = {question.id: question for question in questions or ()}
    return [one for file in files for one in _of_file(file, known)]


def _of_file(file: Path, known: Mapping[str, Question]) -> Iterator[Response]:
    place = file.absolute()
    folder = _FOLDER.fullmatch(place.parent.parent.name)
    frames: dict[str, Any] = {}
    if folder and re.fullmatch(r"-?\d{1,6}", place.parent.name):
        number = int(place.parent.name)
        frames = {"number": "whole video" if number == _WHOLE_VIDEO else number}
    for where, value in json_lines(read_text(file), file=file):
        line = validated(_TomatoLine, value, file=file, where=where)
        options = tuple(line.index2ans.get(letter, "") for letter in line.all_choices)
        letter, letters = line.gt[:1], OPTION_LETTERS[: len(options)]
        is_answer = line.gt in (*option_lines(options), *line.all_choices)
        if "".join(line.all_choices) != letters or not (all(options) and is_answer):
            message = "there must be letters from A, a text for each, and the answer in gt"
            raise InputError(message, file=file, where=where, field="all_choices, index2ans, gt")
        name = line.id
        if folder is not None and "/" not in name:
            name = f"{folder['reasoning_type']}/{name}"
        question = known.get(name)
        tags = folder.groupdict() if folder else {}
        yield Response(
            id=name,
            benchmark="tomato",
            video=question.video if question else "",
            question=line.question,
            options=options,
            answer=letter,
            reply=line.response,
            reason=None if line.response is not None else "no response in the file",
            frames=frames,
            call={} if line.response is None else {"model": file.stem},
            **(dict(question.tags) if question else tags),
        )
