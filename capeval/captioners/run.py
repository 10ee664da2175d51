"""Generating the captions of a run or of one of its shards, and merging the shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from capeval.captioners.options import DEFAULT_READERS
from capeval.captioners.pipeline import Job, caption_videos
from capeval.captioners.plan import (
    CaptionOutcome,
    Generation,
    GenerationPlan,
    Wanted,
    checked_lines,
    in_order,
    plan_generation,
    refuse_unknown,
    stored_reasons,
    write_part,
)
from capeval.captioners.prompting import prompt_hash
from capeval.captioners.protocol import Captioned, Captioner, Uncaptioned
from capeval.captioners.run_settings import (
    generation_settings,
    same_settings,
    settings_id,
)
from capeval.errors import InputError, RunLocked, UsageError
from capeval.files.annotations import annotations_hash
from capeval.runs.engine import Finished, Labels, Progress, Spent, execute
from capeval.runs.folder import RunFolder
from capeval.runs.shards import Part, Shard, lines_by_index, parts_of
from capeval.schema import Annotation, Usage
from capeval.version import __version__
from capeval.video import FrameReader

WAIT_FOR_OTHERS = 60.0


@dataclass(frozen=True)
class Merge:
    """The result of merging shards; `generation` is None while some are not done."""

    generation: Generation | None
    waiting_for: tuple[Shard, ...] = ()


def try_to_merge(
    run: RunFolder, shard: Shard, annotations: tuple[Annotation, ...], path: str
) -> Merge:
    """Merge the shards of a run if all exist and are done; the shard must not be locked."""
    with run.locked(wait=WAIT_FOR_OTHERS):
        parts = {part.shard: part for part in parts_of(run.path)}
        if not parts:  # another shard that ended at the same time has merged them
            return Merge(_merged(run, annotations))
        known = set(lines_by_index(run.captions))
        for part in parts.values():
            known |= set(lines_by_index(part.captions)) | set(lines_by_index(part.ungenerated))
        waiting = []
        for number in range(1, shard.count + 1):
            other = Shard(number, shard.count)
            whole = all(a.index in known for n, a in enumerate(annotations) if other.holds(n))
            if not whole or (other in parts and _is_held(run, parts[other])):
                waiting.append(other)
        if waiting:
            return Merge(None, tuple(waiting))
        return Merge(merge_into(run, annotations, path, list(parts.values())))


def _is_held(run: RunFolder, part: Part) -> bool:
    try:
        with run.locked(part=part.lock):
            return False
    except RunLocked:
        return True


def merge_parts(run: RunFolder, annotations: tuple[Annotation, ...], path: str) -> Generation:
    """Merge the shards of a run that exist, finished or not."""
    with run.locked():
        parts = parts_of(run.path)
        if not parts:
            raise UsageError(f"{run.path} has no shards to merge")
        check_idle(parts, run)
        return merge_into(run, annotations, path, parts)


def check_idle(parts: Iterable[Part], run: RunFolder) -> None:
    """Raise `RunLocked` if a shard is still being generated."""
    for part in parts:
        if _is_held(run, part):
            raise RunLocked(f"{run.path}: shard {part.shard} is still being generated; wait for it")


def merge_into(
    run: RunFolder, annotations: tuple[Annotation, ...], path: str, parts: Sequence[Part]
) -> Generation:
    """Merge the lines of the shards into the run, and remove the shards."""
    manifest = run.read_manifest()
    generation = manifest.get("generation")
    if not isinstance(generation, dict):
        raise InputError("is missing: copy it from one of the shards' machines", file=run.manifest)
    expected = settings_id(generation)
    lines: dict[str, Mapping[str, Any]] = {}
    reasons: dict[str, str] = {}
    for part in (Part(run.path), *parts):
        lines |= checked_lines(part.captions, expected)
        reasons |= stored_reasons(part)
    refuse_unknown(lines, {annotation.index for annotation in annotations}, path, run)
    captions = in_order(annotations, lines)
    left = {index: reason for index, reason in reasons.items() if index not in lines}
    write_part(Part(run.path), annotations, captions, left)
    # Killed before this line, the next merge does the same again.
    for part in parts:
        for file in (part.captions, part.ungenerated, run.path / f".lock.{part.lock}"):
            file.unlink(missing_ok=True)
    return _merged(run, annotations)


def _merged(run: RunFolder, annotations: Sequence[Annotation]) -> Generation:
    captions = in_order(annotations, lines_by_index(run.captions))
    have = {line["index"] for line in captions}
    reasons = stored_reasons(Part(run.path))
    return Generation(
        run=run,
        shard=None,
        annotated=len(annotations),
        asked=len(annotations),
        captions=captions,
        ungenerated={
            a.index: reasons.get(a.index, "not generated yet")
            for a in annotations
            if a.index not in have
        },
    )


NOT_REACHED = "not generated: the run was stopped"


async def generate_run(
    run: RunFolder,
    wanted: Wanted,
    captioner: Captioner,
    reader: FrameReader,
    *,
    progress: Progress | None = None,
    readers: int = DEFAULT_READERS,
    dollars: Callable[[], float] = lambda: 0.0,
) -> tuple[Generation, Merge | None]:
    """Generate a run, or a shard of it; the last shard to finish merges them all.

    `readers` videos are decoded at a time; `dollars` returns what the captioner's calls have cost
    so far.
    """
    work = GenerationWork(run, wanted, captioner, reader, dollars, readers)
    finished = await execute(work, progress)
    mine = work.generation(finished)
    if wanted.shard is None or mine.stopped:
        return mine, None
    merge = try_to_merge(run, wanted.shard, wanted.annotations, wanted.annotations_path)
    if merge.generation is None:
        return mine, merge
    return replace(merge.generation, new=mine.new, usage=mine.usage), merge


@dataclass
class GenerationWork:
    """Captions the videos of a run with one captioner; see `capeval.runs.engine.ResumableTask`."""

    labels = Labels(doing="captioning", item="video", done="done", failed="ungenerated")

    run: RunFolder
    wanted: Wanted
    captioner: Captioner
    reader: FrameReader
    dollars: Callable[[], float]
    readers: int = DEFAULT_READERS
    usage: Usage = field(default_factory=Usage)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run, or its shard."""
        shard = self.wanted.shard
        with self.run.locked(part=shard.label if shard else ""):
            if shard is None:
                check_idle(parts_of(self.run.path), self.run)
            yield

    def plan(self) -> GenerationPlan:
        """Merge shards that a killed process left, and compare what is stored with the videos."""
        run, wanted = self.run, self.wanted
        if wanted.shard is None and parts_of(run.path):
            prompt = wanted.prompts.settings(wanted.annotations)
            same_settings(run, generation_settings(prompt, self.captioner, self.reader))
            merge_into(run, wanted.annotations, wanted.annotations_path, parts_of(run.path))
        return plan_generation(run, wanted, self.captioner, self.reader)

    def create(self, plan: GenerationPlan) -> None:
        """Write the manifest."""
        run, wanted = plan.run, plan.wanted
        with ExitStack() as stack:
            if wanted.shard:  # shards start together, and each writes the same
                stack.enter_context(run.locked(wait=WAIT_FOR_OTHERS))
                same_settings(run, plan.settings)
            manifest = run.read_manifest()
            manifest["annotations"] = {
                "path": wanted.annotations_path,
                "sha256": annotations_hash(wanted.annotations),
                "count": len(wanted.annotations),
            }
            manifest["videos"] = str(wanted.videos)
            manifest["generation"] = dict(plan.settings)
            manifest["capeval"] = __version__
            run.write_manifest(manifest)

    async def perform(self, plan: GenerationPlan, record: Callable[[CaptionOutcome], None]) -> None:
        """Caption what the plan lists."""

        def captioned(
            job: Job, outcome: Captioned | Uncaptioned, frames: Mapping[str, Any]
        ) -> None:
            if isinstance(outcome, Uncaptioned):
                record(CaptionOutcome(job.index, None, outcome.reason))
            else:
                self.usage += outcome.usage
                record(CaptionOutcome(job.index, _caption_line(job, outcome, frames, plan)))

        await caption_videos(
            plan.todo, self.reader, self.captioner, record=captioned, threads=self.readers
        )

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
        captions = in_order(plan.wanted.annotations, {**plan.outdated, **_lines(done)})
        write_part(plan.part, plan.wanted.annotations, captions, reasons)

    def spent(self) -> Spent:
        """Return what the captions used."""
        return Spent(self.usage.input_tokens + self.usage.output_tokens, self.dollars())

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
                a.index: (done[a.index].reason if a.index in done else None) or NOT_REACHED
                for a in plan.wanted.chosen()
                if a.index not in lines
            },
            new=len(finished.new & lines.keys()),
            usage=self.usage,
            stopped=finished.stopped,
        )


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
        "settings": settings_id(plan.settings),
        **({"details": dict(outcome.details)} if outcome.details else {}),
        "usage": outcome.usage.model_dump(),
        "seconds": round(outcome.seconds, 3),
        "warnings": list(outcome.warnings),
    }
