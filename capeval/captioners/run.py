"""Generating one run: doing what is left, and the files that it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from capeval.captioners.merging import (
    WAIT_FOR_OTHERS,
    Merge,
    merge_into,
    nobody_works_on,
    try_to_merge,
)
from capeval.captioners.pipeline import Job, caption_videos
from capeval.captioners.plan import (
    Generation,
    GenerationPlan,
    Wanted,
    generation_settings,
    in_order,
    plan_generation,
    same_settings,
    write_part,
)
from capeval.captioners.prompting import prompt_hash
from capeval.captioners.protocol import Captioned, Captioner, Uncaptioned
from capeval.errors import BudgetReached, EndpointDown
from capeval.files.annotations import annotations_hash
from capeval.files.jsonl import JsonlAppender, dumps, write_atomic
from capeval.runs.folder import RunFolder
from capeval.runs.shards import Shard, parts_of
from capeval.schema import Usage
from capeval.version import __version__
from capeval.video import FrameReader

_STOPPED = "not generated: the run was stopped"


class GeneratingProgress(Protocol):
    """Told how generating goes."""

    def begin(self, plan: GenerationPlan) -> None:
        """Videos are about to be captioned."""
        ...

    def generated(self, outcome: Captioned | Uncaptioned) -> None:
        """One video is done."""
        ...


async def generate_run(
    run: RunFolder,
    wanted: Wanted,
    captioner: Captioner,
    reader: FrameReader,
    *,
    progress: GeneratingProgress | None = None,
) -> tuple[Generation, Merge | None]:
    """Plan and generate a run, or a shard of it; the last shard to end merges them all.

    Raises
    ------
    InputError, RunLocked, EndpointRefused, OSError
        As `plan_generation`, `hold` and `execute_generation` say.
    """
    annotations, path = wanted.annotations, wanted.annotations_path
    with hold(run, wanted.shard):
        if wanted.shard is None and parts_of(run.path):
            same_settings(run, generation_settings(wanted, captioner, reader))
            merge_into(run, annotations, path, parts_of(run.path))
        # Planned inside the lock: another process may have generated meanwhile.
        plan = plan_generation(run, wanted, captioner, reader)
        mine = await execute_generation(plan, captioner, reader, progress=progress)
    if wanted.shard is None or mine.stopped:
        return mine, None
    merge = try_to_merge(run, wanted.shard, annotations, path)
    if merge.generation is None:
        return mine, merge
    return replace(merge.generation, new=mine.new, usage=mine.usage), merge


@contextmanager
def hold(run: RunFolder, shard: Shard | None) -> Iterator[None]:
    """Hold a run, or a shard of it, for this process.

    Raises
    ------
    RunLocked
        Another process works on the same.
    """
    with run.locked(part=shard.label if shard else ""):
        if shard is None:
            nobody_works_on(parts_of(run.path), run)
        yield


async def execute_generation(
    plan: GenerationPlan,
    captioner: Captioner,
    reader: FrameReader,
    *,
    progress: GeneratingProgress | None = None,
) -> Generation:
    """Caption what the plan says and write its files; the run must be held.

    Captions are appended as they come; when all is done the file is rewritten in the annotations'
    order. Interrupted, it leaves a file from which the next run goes on.

    Raises
    ------
    EndpointRefused
        No call can succeed; what was generated before is kept.
    OSError
        The captions cannot be written; those written before are kept.
    """
    done: dict[str, Mapping[str, Any]] = dict(plan.kept)
    reasons = {**plan.failed, **plan.missing}
    stopped: BudgetReached | EndpointDown | None = None
    usage = Usage()
    if progress:
        progress.begin(plan)
    _write_manifest(plan)
    with ExitStack() as stack:
        append = _appending(stack, plan.part.captions)
        fail = _appending(stack, plan.part.ungenerated)

        def failed(index: str, reason: str) -> None:
            fail({"index": index, "reason": reason})
            reasons[index] = reason

        def record(job: Job, outcome: Captioned | Uncaptioned, frames: Mapping[str, Any]) -> None:
            nonlocal usage
            if isinstance(outcome, Uncaptioned):
                failed(job.index, outcome.reason)
            else:
                line = _caption_line(job, outcome, frames, plan)
                append(line)
                done[job.index] = line
                reasons.pop(job.index, None)
                usage += outcome.usage
            if progress:
                progress.generated(outcome)

        for index, reason in plan.missing.items():
            if plan.failed.get(index) != reason:
                failed(index, reason)
        try:
            await caption_videos(plan.work, reader, captioner, record=record)
        except (BudgetReached, EndpointDown) as failure:
            stopped = failure
    captions = in_order(plan.wanted.annotations, done)
    write_part(plan.part, plan.wanted.annotations, captions, reasons)
    left = {
        annotation.index: reasons.get(annotation.index, _STOPPED)
        for annotation in plan.wanted.chosen()
        if annotation.index not in done
    }
    return Generation(
        run=plan.run,
        shard=plan.wanted.shard,
        annotated=len(plan.wanted.annotations),
        asked=plan.asked,
        captions=captions,
        ungenerated=left,
        new=len(done) - len(plan.kept),
        usage=usage,
        stopped=stopped,
    )


def _caption_line(
    job: Job, outcome: Captioned, frames: Mapping[str, Any], plan: GenerationPlan
) -> dict[str, Any]:
    return {
        "index": job.index,
        "video": dict(job.video),
        "caption": outcome.text,
        "model": outcome.model,
        "revision": outcome.revision,
        "frames": dict(frames),
        "prompt": prompt_hash(job.prompt),
        "generation": plan.settings["generation"],
        "settings": plan.settings_id,
        **({"details": dict(outcome.details)} if outcome.details else {}),
        "usage": outcome.usage.model_dump(),
        "seconds": round(outcome.seconds, 3),
        "warnings": list(outcome.warnings),
    }


def _appending(stack: ExitStack, path: Path) -> Callable[[Any], None]:
    """An appender that makes its file with the first line: an empty file is no captions file."""
    opened: list[JsonlAppender] = []

    def append(value: Any) -> None:
        if not opened:
            opened.append(stack.enter_context(JsonlAppender(path)))
        opened[0].append(value)

    return append


def _write_manifest(plan: GenerationPlan) -> None:
    run, wanted = plan.run, plan.wanted
    with ExitStack() as stack:
        if wanted.shard:  # shards start together, and each writes the same
            stack.enter_context(run.locked(wait=WAIT_FOR_OTHERS))
            same_settings(run, plan.settings)
        manifest = run.read_manifest()
        before = dict(manifest)
        manifest["annotations"] = {
            "path": wanted.annotations_path,
            "sha256": annotations_hash(wanted.annotations),
            "count": len(wanted.annotations),
        }
        manifest["videos"] = str(wanted.videos)
        manifest["generation"] = dict(plan.settings)
        manifest["capeval"] = __version__
        if manifest != before:
            write_atomic(run.manifest, dumps(manifest, indent=2) + "\n")
