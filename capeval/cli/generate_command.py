"""`capeval generate` and `capeval mcq answer`: a model is asked what a run lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capeval.api.mcq_options import AnswerOptions
from capeval.captioners.options import GenerateOptions
from capeval.cli.options import LONG, declared_by
from capeval.show.output import Output
from capeval.text import counted

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from capeval.captioners.asking_session import AskingSession
    from capeval.captioners.stored_work import StoredResult


@declared_by(GenerateOptions, *LONG)
def generate(declared: dict[str, Any], output: Output) -> None:
    """Caption videos with a video-language model.

    Captions go to runs/NAME/captions.jsonl, ready for `capeval judge`; each line records which
    frames the model saw. Run the same command again to resume.
    """
    # Heavy modules are imported when the command runs, so that `--help` is fast.
    from capeval.api.generating import open_generating

    options = GenerateOptions(**declared)
    _run(output, open_generating(options, on_notice=output.notice, dry_run=output.dry_run))


@declared_by(AnswerOptions, *LONG)
def answer(declared: dict[str, Any], output: Output) -> None:
    """Let a video-language model answer multiple-choice questions.

    Responses go to runs/mcq/BENCHMARK/MODEL@SETTINGS, ready for `capeval mcq grade`. Audio is never
    used. Run the same command again to resume; failed calls are then made again.
    """
    from capeval.api.mcq_answering import open_answering

    options = AnswerOptions(**declared)
    _run(output, open_answering(options, on_notice=output.notice, dry_run=output.dry_run))


def _run(output: Output, opening: AbstractAsyncContextManager[AskingSession[Any, Any]]) -> None:
    from capeval.cli.long_command import run_long

    run_long(output, opening, lambda asking, results: _show(output, asking, results[0]))


def _show(output: Output, asking: Any, result: StoredResult) -> None:
    labels, run = asking.work.labels, result.run.name
    if output.as_json:
        output.json(_summary(asking, result))
    shard = f" (shard {result.shard})" if result.shard else ""
    done = result.asked - len(result.left)
    new = f", {result.new:,} of them now" if result.new < done else ""
    output.line(f"{run}{shard}: {labels.done} {done:,}/{result.asked:,}{new}")
    for warning, count in list(result.warnings.items())[:5]:
        replies = counted(count, *asking.phrases.replies)
        output.line(f"{run}: {replies} with a warning: {warning}")
    if len(result.revisions) > 1:
        output.line(f"{run}: written by {' and '.join(result.revisions[:5])}")
    if not asking.model and result.usage.output_tokens:
        usage = result.usage
        output.line(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")


def _summary(asking: AskingSession[Any, Any], result: StoredResult) -> dict[str, Any]:
    labels, detail = asking.work.labels, asking.phrases.detail
    return {
        "run": asking.phrases.run(result.run),
        asking.work.names[0]: str(result.file) if result.file.exists() else None,
        "shard": str(result.shard) if result.shard else None,
        "asked": result.asked,
        labels.done: result.asked - len(result.left),
        "new": result.new,
        labels.failed: dict(result.left),
        "warnings": result.warnings,
        "revisions": result.revisions,
        "usage": result.usage.model_dump(),
        "cost": asking.meter.spent if asking.model else None,
        "stopped": str(result.stopped) if result.stopped else None,
        detail: getattr(result, detail),
    }
