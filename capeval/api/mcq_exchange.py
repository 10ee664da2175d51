"""`capeval.mcq_import` and `capeval.mcq_export`: files of the benchmarks' own evaluation code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval.api.mcq_options import ExportOptions, ImportOptions
from capeval.api.sync_async import awaitable
from capeval.errors import InputError, UsageError
from capeval.files.jsonl import dumps
from capeval.files.reading import read_bytes
from capeval.mcq.exchange.tomato import is_part, tomato_files, tomato_responses
from capeval.mcq.exchange.video_mme import video_mme_template
from capeval.mcq.find_run import RESPONSES, find_responses
from capeval.mcq.questions import load_questions
from capeval.mcq.responses import load_responses, models_of, refuse_duplicates
from capeval.options import takes
from capeval.runs.outputs import check_output, write_output
from capeval.schema.question import Response
from capeval.text import counted


@dataclass(frozen=True)
class Imported:
    """Responses that were written to `file`."""

    file: Path
    responses: tuple[Response, ...]


@dataclass(frozen=True)
class Exported:
    """Files that were written, the responses in them, and the failed calls among all responses."""

    files: tuple[Path, ...]
    responses: int
    failed: int


@takes(ImportOptions)
def mcq_import(o: ImportOptions) -> Imported:
    """Write the responses of another evaluation code as responses.jsonl.

    Raises
    ------
    InputError, UsageError
        A file cannot be read, or `out` cannot be written or has other responses.
    """
    paths, out = [Path(one) for one in o.files], Path(o.out)
    read = [*paths, *([] if o.questions is None else [Path(o.questions)])]
    check_output(out, read, own=RESPONSES)
    questions = None if o.questions is None else load_questions(o.questions, o.on_notice)
    if len(paths) == 1:
        found: Sequence[Response] = load_responses(paths[0], o.on_notice, questions)
    else:
        found = tomato_responses(paths, questions, o.on_notice)
        refuse_duplicates(found, paths[0])
    text = "".join(dumps(one.model_dump(mode="json")) + "\n" for one in found)
    _refuse_others({out: text}, force=o.force)
    write_output(out, text)
    return Imported(out, tuple(found))


@takes(ExportOptions)
def mcq_export(o: ExportOptions) -> Exported:
    """Write responses as the files of a benchmark's own evaluation code.

    Raises
    ------
    InputError, UsageError
        The responses are to another benchmark, or `out` cannot be written.
    """
    source, out = find_responses(o.responses, Path(o.runs)), Path(o.out)
    if o.to != "tomato" and o.model is not None:
        raise UsageError("--model is for --to tomato; the template of Video-MME names no model")
    responses = load_responses(source, o.on_notice)
    model = o.model or "+".join(models_of(responses))
    if o.to == "tomato" and not is_part(model):
        raise UsageError("--to tomato: name the model with --model, without slashes")
    texts: dict[Path, str]
    try:
        if o.to == "tomato":
            made = tomato_files(responses, model)
            texts = {out / name: _lines(lines) for name, lines in made.items()}
        else:
            texts = {out: dumps(video_mme_template(responses), indent=4) + "\n"}
    except InputError as error:
        raise InputError(error.message, file=source, where=error.where, field=error.field) from None
    for file in texts:
        check_output(file, [source])
    _refuse_others(texts, force=o.force)
    failed = sum(one.reply is None for one in responses)
    if failed:
        how = "left out" if o.to == "tomato" else "empty in the template"
        o.on_notice(f"{counted(failed, 'failed call')} {'is' if failed == 1 else 'are'} {how}")
    for file, text in texts.items():
        write_output(file, text)
    written = len(responses) - (failed if o.to == "tomato" else 0)
    return Exported(tuple(texts), written, failed)


def _lines(lines: Sequence[dict[str, Any]]) -> str:
    return "".join(dumps(line) + "\n" for line in lines)


def _refuse_others(texts: Mapping[Path, str], *, force: bool) -> None:
    for out, text in texts.items():
        if out.is_file() and not force and read_bytes(out) != text.encode("utf-8"):
            raise UsageError(
                f"--out: {out} exists with other contents; choose another file, or replace it "
                "with --force"
            )


mcq_import_async = awaitable(mcq_import)
mcq_export_async = awaitable(mcq_export)
