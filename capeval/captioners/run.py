"""Generating the captions of one run, or of one shard of it, and the files it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from capeval.captioners.merging import (
    WAIT_FOR_OTHERS,
    Merge,
    merge_into,
    nobody_works_on,
    try_to_merge,
)
from capeval.captioners.pipeline import Job, caption_videos
from capeval.captioners.plan import (
    CaptionOutcome,
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
from capeval.files.annotations import annotations_hash
from capeval.files.jsonl import dumps, write_atomic
from capeval.runs.engine import Finished, Labels, Progress, Spent, execute
from capeval.runs.folder import RunFolder
from capeval.runs.shards import parts_of
from capeval.schema import Usage
from capeval.version import __version__
from capeval.video import FrameReader

_STOPPED = "not generated: the run was stopped"


async def generate_run(
    run: RunFolder,
    wanted: Wanted,
    captioner: Captioner,
    reader: FrameReader,
    *,
    progress: Progress | None = None,
    dollars: Callable[[], float] = lambda: 0.0,
) -> tuple[Generation, Merge | None]:
    """Generate a run, or a shard of it; the last shard to finish merges them all.

    `dollars` returns what the captioner's calls have cost so far.
    """
    work = GenerationWork(run, wanted, captioner, reader, dollars)
    finished = await execute(work, progress)
    mine = work.generation(finished)
    if wanted.shard is None or mine.stopped:
        return mine, None
    merge = try_to_merge(run, wanted.shard, wanted.annotations, wanted.annotations_path)
    if merge.generation is None:
        return mine, merge
    return replace(merge.generation, new=mine.new, usage=mine.usage), merge


class GenerationWork:
    """Captions the videos of a run with one captioner; see `capeval.runs.engine.Work`."""

    labels = Labels(doing="captioning", item="video", done="done", failed="ungenerated")

    def __init__(
        self,
        run: RunFolder,
        wanted: Wanted,
        captioner: Captioner,
        reader: FrameReader,
        dollars: Callable[[], float],
    ) -> None:
        self._run, self._wanted, self._captioner = run, wanted, captioner
        self._reader, self._dollars = reader, dollars
        self._usage = Usage()

    def locked(self) -> AbstractContextManager[None]:
        """Hold the run, or the shard of it."""
        return _locked(self._run, self._wanted)

    def plan(self) -> GenerationPlan:
        """Merge shards that a killed process left, and compare what is stored with the videos."""
        run, wanted = self._run, self._wanted
        if wanted.shard is None and parts_of(run.path):
            same_settings(run, generation_settings(wanted, self._captioner, self._reader))
            merge_into(run, wanted.annotations, wanted.annotations_path, parts_of(run.path))
        return plan_generation(run, wanted, self._captioner, self._reader)

    def create(self, plan: GenerationPlan) -> None:
        """Write the manifest."""
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

    async def perform(self, plan: GenerationPlan, record: Callable[[CaptionOutcome], None]) -> None:
        """Caption what the plan lists."""

        def captioned(
            job: Job, outcome: Captioned | Uncaptioned, frames: Mapping[str, Any]
        ) -> None:
            if isinstance(outcome, Uncaptioned):
                record(CaptionOutcome(job.index, None, outcome.reason))
            else:
                self._usage += outcome.usage
                record(CaptionOutcome(job.index, _caption_line(job, outcome, frames, plan)))

        await caption_videos(plan.todo, self._reader, self._captioner, record=captioned)

    def line(
        self, plan: GenerationPlan, outcome: CaptionOutcome
    ) -> tuple[Path, Mapping[str, Any]] | None:
        """Return where a caption, or the reason for its absence, is appended."""
        if outcome.line is not None:
            return plan.part.captions, outcome.line
        return plan.part.ungenerated, {"index": outcome.index, "reason": outcome.reason}

    def finish(self, plan: GenerationPlan, done: Mapping[str, CaptionOutcome]) -> None:
        """Write the captions, and the reasons of the videos without one, in order."""
        reasons = {index: one.reason for index, one in done.items() if one.reason is not None}
        captions = in_order(plan.wanted.annotations, _lines(done))
        write_part(plan.part, plan.wanted.annotations, captions, reasons)

    def spent(self) -> Spent:
        """Return what the captions used."""
        return Spent(self._usage.input_tokens + self._usage.output_tokens, self._dollars())

    def generation(self, finished: Finished[GenerationPlan, CaptionOutcome]) -> Generation:
        """Return the result of this run or shard."""
        plan, done = finished.plan, finished.done
        lines = _lines(done)
        return Generation(
            run=plan.run,
            shard=plan.wanted.shard,
            annotated=len(plan.wanted.annotations),
            asked=plan.asked,
            captions=in_order(plan.wanted.annotations, lines),
            ungenerated={
                a.index: (done[a.index].reason if a.index in done else None) or _STOPPED
                for a in plan.wanted.chosen()
                if a.index not in lines
            },
            new=len(finished.new & lines.keys()),
            usage=self._usage,
            stopped=finished.stopped,
        )


@contextmanager
def _locked(run: RunFolder, wanted: Wanted) -> Iterator[None]:
    shard = wanted.shard
    with run.locked(part=shard.label if shard else ""):
        if shard is None:
            nobody_works_on(parts_of(run.path), run)
        yield


def _lines(done: Mapping[str, CaptionOutcome]) -> dict[str, Mapping[str, Any]]:
    return {index: one.line for index, one in done.items() if one.line is not None}


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
