"""The result files of TOMATO's code: `REASONING_TYPE+DEMONSTRATION_TYPE/FRAMES/MODEL.jsonl`.

A line is `{"id", "question", "response", "all_choices", "index2ans", "gt"}`. The number of the
question restarts for each reasoning type, which only the name of the folder has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.files.reading import parse_json, read_text
from capeval.schema.question import OPTION_LETTERS, Question, Response
from capeval.text import counted, listed, shown

Notices = Callable[[str], None]

_FIELDS = ("id", "question", "response", "all_choices", "index2ans", "gt")
_FOLDER = re.compile(r"(?:shuffle_)?(?P<reasoning>[^+/]+)\+(?P<demonstration>[^+/]+)")
_PART = re.compile(r"(?!\.)[^/\\]+")
# Models that take the whole video have -1 frames.
_WHOLE_VIDEO = -1


def is_part(name: str) -> bool:
    """Return whether a text can be one part of a path: a folder or the beginning of a file's name.

    >>> is_part("shape&trend"), is_part("../shape"), is_part("")
    (True, False, False)
    """
    return bool(_PART.fullmatch(name)) and name.isprintable()


def is_tomato_line(value: Any) -> bool:
    """Return whether a JSON value is a line of a result file."""
    return isinstance(value, dict) and {*_FIELDS} <= value.keys()


def tomato_responses(
    paths: Sequence[Path],
    questions: Sequence[Question] | None = None,
    on_notice: Notices = lambda _: None,
) -> list[Response]:
    """Return the responses of result files and of folders with them.

    With `questions`, each response gets its question's video and tags; without, a notice says what
    is not known. A file says of which model it is, so a folder must have files of one model.
    """
    files = list(_files(paths))
    models = sorted({file.stem for file in files})
    if len(models) > 1:
        raise InputError(
            f"has results of {counted(len(models), 'model')} ({listed(models)}); name the files of "
            "one of them",
            file=paths[0],
        )
    known = {question.id: question for question in questions or ()}
    found = [one for file in files for one in _of_file(file, known)]
    if not known:
        on_notice(
            "without --questions, the videos and tags of TOMATO's questions are not known: "
            "intervals treat every question as a video of its own"
        )
    return found


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(
            file for file in path.rglob("*.jsonl") if _FOLDER.fullmatch(file.parent.parent.name)
        )
        if not found:
            raise InputError(
                "has no responses.jsonl, and no results of TOMATO's code such as "
                "count+human/16/MODEL.jsonl",
                file=path,
            )
        yield from found


def _of_file(file: Path, known: Mapping[str, Question]) -> Iterator[Response]:
    place = file.absolute()
    folder = _FOLDER.fullmatch(place.parent.parent.name)
    tags: dict[str, Any] = {}
    if folder is not None:
        tags = {
            "reasoning_type": folder["reasoning"],
            "demonstration_type": folder["demonstration"],
        }
    name = place.parent.name
    frames = int(name) if folder and re.fullmatch(r"-?\d{1,6}", name) else None
    for number, line in enumerate(read_text(file).split("\n"), start=1):
        if line.strip():
            value = parse_json(line, file=file, line=number)
            yield _response(value, file, f"line {number}", tags, frames, known)


def _response(
    value: Any,
    file: Path,
    where: str,
    tags: dict[str, Any],
    frames: int | None,
    known: Mapping[str, Question],
) -> Response:
    if not is_tomato_line(value):
        raise InputError(
            f"is no result of TOMATO's code, which has {', '.join(_FIELDS)}", file=file, where=where
        )
    letters, texts, right = value["all_choices"], value["index2ans"], value["gt"]
    count = len(letters) if isinstance(letters, list) else 0
    if not 2 <= count <= len(OPTION_LETTERS) or letters != list(OPTION_LETTERS[:count]):
        raise InputError("must be the letters from A", file=file, where=where, field="all_choices")
    if not isinstance(texts, dict) or not all(
        isinstance(texts.get(letter), str) for letter in letters
    ):
        message = "must have a text for each letter"
        raise InputError(message, file=file, where=where, field="index2ans")
    for letter in letters:
        if not texts[letter].strip():
            raise InputError("is empty", file=file, where=where, field=f"index2ans.{letter}")
    if not isinstance(right, str) or not any(
        right in (letter, f"{letter}. {texts[letter]}") for letter in letters
    ):
        message = f'must be the right option with its letter, as "A. left", not {shown(right)}'
        raise InputError(message, file=file, where=where, field="gt")
    if not isinstance(value["question"], str) or not value["question"].strip():
        message = f"must be a text, not {shown(value['question'])}"
        raise InputError(message, file=file, where=where, field="question")
    reply = value["response"]
    if reply is not None and not isinstance(reply, str):
        raise InputError("must be a text or null", file=file, where=where, field="response")
    number = _number(value["id"], file, where)
    name = f"{tags['reasoning_type']}/{number}" if tags and "/" not in number else number
    options = tuple(texts[letter] for letter in letters)
    question = known.get(name)
    if known and question is None:
        raise InputError(f"{shown(name)} is none of the questions", file=file, where=where)
    if question is not None and (question.options, question.answer) != (options, right[:1]):
        raise InputError(
            f"has other options, or another right one, than question {name}",
            file=file,
            where=where,
        )
    if frames is None:
        shown_frames: dict[str, Any] = {}
    elif frames == _WHOLE_VIDEO:
        shown_frames = {"number": "whole video"}
    else:
        shown_frames = {"number": frames}
    return Response(
        id=name,
        benchmark="tomato",
        video=question.video if question else "",
        question=value["question"],
        options=options,
        answer=right[:1],
        reply=reply,
        reason=None if reply is not None else "no response in the file",
        frames=shown_frames,
        call={} if reply is None else {"model": file.stem},
        tags=dict(question.tags) if question else tags,
    )


def _number(value: Any, file: Path, where: str) -> str:
    """Return the number of a question, which can be text."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        message = f"must be a number or a text, not {shown(value)}"
        raise InputError(message, file=file, where=where, field="id")
    number = str(value)
    if not number.strip() or not number.isprintable():
        message = "is empty" if not number.strip() else f"{shown(value)} has a control character"
        raise InputError(message, file=file, where=where, field="id")
    return number


def tomato_files(responses: Sequence[Response], model: str) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of each result file, by its path in the folder of results.

    Failed calls are left out, so that TOMATO's code asks again. Raises `InputError` where a
    response has no reasoning type, demonstration type or number of frames.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for one in responses:
        if one.reply is None:
            continue
        reasoning, _, number = one.id.rpartition("/")
        demonstration = one.tags.get("demonstration_type")
        indices = one.frames.get("indices")
        frames = len(indices) if isinstance(indices, list) else one.frames.get("number")
        where = f"id {shown(one.id)}"
        if not reasoning or not demonstration:
            raise InputError(
                "is no response to a question of TOMATO: an id is REASONING_TYPE/NUMBER, and the "
                "tag demonstration_type must be given",
                where=where,
            )
        for name in (reasoning, demonstration):
            if not isinstance(name, str) or not is_part(name) or "+" in name:
                raise InputError(f"{shown(name)} cannot be a part of a folder's name", where=where)
        if one.rotation:
            raise InputError(
                "was asked with rotated options, which TOMATO's files cannot say",
                where=where,
            )
        folder = _WHOLE_VIDEO if frames in (None, "whole video") else frames
        if isinstance(folder, bool) or not isinstance(folder, int) or folder < _WHOLE_VIDEO:
            message = f"must be a number, not {shown(folder)}"
            raise InputError(message, where=where, field="frames.number")
        letters = list(OPTION_LETTERS[: len(one.options)])
        found.setdefault(f"{reasoning}+{demonstration}/{folder}/{model}.jsonl", []).append(
            {
                "id": number,
                "question": one.question,
                "response": one.reply,
                "all_choices": letters,
                "index2ans": dict(zip(letters, one.options, strict=True)),
                "gt": f"{one.answer}. {one.options[OPTION_LETTERS.index(one.answer)]}",
            }
        )
    return found
