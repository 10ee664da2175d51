"""Load the responses to grade: responses.jsonl, or the files of other evaluation code."""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from capeval.errors import InputError
from capeval.files.reading import first_line, parse_json, read_text
from capeval.files.tables import is_binary_table
from capeval.mcq.benchmark_files import is_lmms_line, is_tomato_line, predictions, tomato_responses
from capeval.mcq.find_run import RESPONSES
from capeval.mcq.layouts import Notices
from capeval.runs.shards import file_of, shards_in
from capeval.schema.question import OPTION_LETTERS, Question, Response
from capeval.text import complaint, shown


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the search for cycles, which would go through all responses again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            # All objects count as old, and are not searched at once.
            gc.freeze()
            gc.unfreeze()
            gc.enable()


@collection_paused()
def load_responses(
    path: Path,
    on_notice: Notices = lambda _: None,
    questions: Sequence[Question] | None = None,
) -> tuple[Response, ...]:
    """Return responses in the order of their file; none may be there twice.

    `path` is a responses.jsonl, or a folder with one or with those of shards; a filled template of
    Video-MME; a result file of TOMATO's code or a folder of such files; predictions of
    VLMEvalKit's, or a log of lmms-eval's. `questions` are what was asked, which TOMATO's code and
    lmms-eval do not record completely.
    """
    file = path / RESPONSES if path.is_dir() and (path / RESPONSES).exists() else path
    found: Sequence[Response]
    run = file.parent if file.name == RESPONSES else file
    files = [file_of(run, "responses", shard) for shard in (None, *shards_in(run))]
    if any(one.exists() for one in files[1:]):
        parts = [_lines(one, questions, on_notice) for one in files if one.exists()]
        found = [response for part in parts for response in part]
    elif file.is_dir():
        found = tomato_responses(file, questions, on_notice)
    elif file.suffix.lower() == ".jsonl" or _is_lines(file):
        found = _lines(file, questions, on_notice)
    else:
        found = predictions(file, questions, on_notice)
    refuse_duplicates(found, file)
    return tuple(found)


def _is_lines(file: Path) -> bool:
    """Return whether a file, whatever its name, begins with a response or a line of TOMATO's."""
    if is_binary_table(file):
        return False
    text = first_line(file)
    if not text.startswith("{"):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return is_tomato_line(value) or (isinstance(value, dict) and {"reply", "options"} <= {*value})


def _lines(
    file: Path, questions: Sequence[Question] | None, on_notice: Notices
) -> Sequence[Response]:
    result: list[Response] = []
    text = read_text(file)
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        value = _value(line, file, number)
        if not result and is_tomato_line(value):
            return tomato_responses(file, questions, on_notice)
        if not result and is_lmms_line(value):
            return predictions(file, questions, on_notice)
        result.append(_response(value, file, number))
    return result


def _value(line: str, file: Path, number: int) -> Any:
    try:
        value = from_json(line)
    except ValueError:
        value = parse_json(line, file=file, line=number)  # which says what is wrong
    if not isinstance(value, dict):
        raise InputError("must be a JSON object", file=file, where=f"line {number}")
    return value


def _response(value: dict[str, Any], file: Path, number: int) -> Response:
    where = f"line {number}"
    try:
        response = Response.model_validate(value)
    except ValidationError as faults:
        if "reply" not in value and "question" in value:
            message = "is a question without a reply; `capeval mcq answer` writes responses"
            raise InputError(message, file=file, where=where) from None
        name, message = complaint(faults)
        if (tag := name.partition(".")[0]) not in Response.model_fields:
            name, kinds = tag, "text, a number, true, false, null or a list of texts"
            message = f"must be {kinds}, not {shown(value.get(name))}"
        raise InputError(message, file=file, where=where, field=name) from None
    count = len(response.options)
    if not 2 <= count <= len(OPTION_LETTERS):
        raise InputError("must be 2 to 26 options", file=file, where=where, field="options")
    if len(response.answer) != 1 or response.answer not in OPTION_LETTERS[:count]:
        last = OPTION_LETTERS[count - 1]
        message = f"must be a letter from A to {last}, not {shown(response.answer)}"
        raise InputError(message, file=file, where=where, field="answer")
    return response


def refuse_duplicates(responses: Iterable[Response], file: Path) -> None:
    """Refuse two responses to one question, and no response at all."""
    seen: set[tuple[str, str]] = set()
    for one in responses:
        key = (one.benchmark, one.id)
        if key in seen:
            message = f"the response to {shown(one.id)} is duplicated; remove one of them"
            raise InputError(message, file=file)
        seen.add(key)
    if not seen:
        raise InputError("has no responses", file=file)


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
