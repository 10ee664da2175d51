"""Generating one run: what is left to do, doing it, and the files that it leaves."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from capeval.captioners.frames import FrameReader
from capeval.captioners.pipeline import Job, caption_videos
from capeval.captioners.prompting import CaptionPrompts, prompt_hash
from capeval.captioners.protocol import Captioned, Captioner, Uncaptioned
from capeval.errors import (
    BudgetReached,
    EndpointDown,
    InputError,
    RunLocked,
    UsageError,
    VideoError,
)
from capeval.evaluation.sources import SAMPLE
from capeval.files.annotations import annotations_hash
from capeval.files.jsonl import JsonlAppender, dumps, write_atomic, write_jsonl
from capeval.files.packaged import sample_folder
from capeval.files.parts import Part, Shard, lines_by_index, parts_of
from capeval.files.run_folder import RunFolder
from capeval.files.safename import safe_name
from capeval.files.validation import nearest, shown
from capeval.files.videos import VideoFolder
from capeval.schema import Annotation, Usage
from capeval.version import __version__

__all__ = [
    "GeneratingProgress",
    "Generation",
    "GenerationPlan",
    "Merge",
    "Wanted",
    "default_run",
    "default_videos",
    "execute_generation",
    "generate_run",
    "hold",
    "merge_parts",
    "plan_generation",
    "try_to_merge",
]

_STOPPED = "not generated: the run was stopped"
_WAIT_FOR_OTHERS = 60.0


class GeneratingProgress(Protocol):
    """Told how generating goes."""

    def begin(self, plan: GenerationPlan) -> None:
        """Videos are about to be captioned."""
        ...

    def generated(self, outcome: Captioned | Uncaptioned) -> None:
        """One video is done."""
        ...


@dataclass(frozen=True)
class Wanted:
    """What is to be captioned, and from what."""

    annotations: tuple[Annotation, ...]
    annotations_path: str
    videos: Path
    prompts: CaptionPrompts
    only: tuple[str, ...] = ()
    limit: int | None = None
    shard: Shard | None = None

    def chosen(self) -> tuple[Annotation, ...]:
        """Return the annotated videos that `--only`, `--shard` and `--limit` leave.

        Raises
        ------
        InputError
            `only` names a video that is not annotated.
        """
        indexes = [annotation.index for annotation in self.annotations]
        for index in self.only:
            if index not in indexes:
                raise InputError(
                    f"no annotation has the index {shown(index)}{nearest(index, indexes)}",
                    field="--only",
                )
        chosen = [
            annotation
            for position, annotation in enumerate(self.annotations)
            if (not self.only or annotation.index in self.only)
            and (self.shard is None or self.shard.holds(position))
        ]
        return tuple(chosen[: self.limit])


@dataclass(frozen=True)
class GenerationPlan:
    """What generating will do.

    `kept` are caption lines that are there already, `work` what is to be captioned now, `missing`
    why videos have no file; `failed` the ungenerated of earlier runs; `again` the number of lines
    that had another prompt.
    """

    run: RunFolder
    part: Part
    wanted: Wanted
    settings: Mapping[str, Any]
    kept: Mapping[str, Mapping[str, Any]]
    work: tuple[Job, ...]
    missing: Mapping[str, str]
    failed: Mapping[str, str]
    again: int
    asked: int
    """How many videos this plan is for, done or not."""

    @property
    def settings_id(self) -> str:
        """A short hash of the settings, which every caption line bears."""
        return settings_id(self.settings)


@dataclass(frozen=True)
class Generation:
    """What came of it.

    `captions` are all lines of the run (or shard) in the annotations' order; `ungenerated` the
    reasons of the videos that were asked for and have none.
    """

    run: RunFolder
    shard: Shard | None
    annotated: int
    asked: int
    captions: tuple[Mapping[str, Any], ...]
    ungenerated: Mapping[str, str]
    new: int = 0
    usage: Usage = field(default_factory=Usage)
    stopped: BudgetReached | EndpointDown | None = None

    @property
    def warnings(self) -> dict[str, int]:
        """How many captions bear each warning; numbers in them do not tell them apart."""
        counts = Counter(
            "".join("N" if c.isdigit() else c for c in warning)
            for line in self.captions
            for warning in line.get("warnings", ())
        )
        return {_without_runs(warning): count for warning, count in sorted(counts.items())}

    @property
    def revisions(self) -> list[str]:
        """The revisions or snapshots that wrote the captions."""
        return sorted({str(r) for line in self.captions if (r := line.get("revision"))})


def default_run(model: str) -> str:
    """Return the name of the run of a model.

    >>> default_run("Qwen/Qwen3-VL-8B-Instruct")
    'Qwen3-VL-8B-Instruct'
    """
    return safe_name(model.removeprefix("hf:").rstrip("/").rpartition("/")[2] or model)


def default_videos(annotations_path: str) -> Path:
    """Return where the videos are when nobody says: `videos` beside the annotations, or there."""
    file = Path(annotations_path)
    folder = sample_folder() if annotations_path == SAMPLE and not file.is_file() else file.parent
    return folder / "videos" if (folder / "videos").is_dir() else folder


def generation_settings(
    wanted: Wanted, captioner: Captioner, reader: FrameReader
) -> dict[str, Any]:
    """Return all that decides captions, as JSON values; one run has one of it."""
    settings: dict[str, Any] = json.loads(
        dumps(
            {
                "model": captioner.name,
                "frames": reader.policy,
                "decoder": reader.decoder,
                "prompt": wanted.prompts.settings(wanted.annotations),
                "generation": dict(captioner.settings),
            }
        )
    )
    return settings


def settings_id(settings: Mapping[str, Any]) -> str:
    """Return a short hash of settings."""
    return hashlib.sha256(dumps(settings).encode("utf-8")).hexdigest()[:12]


def plan_generation(
    run: RunFolder, wanted: Wanted, captioner: Captioner, reader: FrameReader
) -> GenerationPlan:
    """Find out what is left to caption.

    Raises
    ------
    InputError
        The run was made with other settings or for other videos, its files are damaged, or there
        is no video at all.
    """
    settings = generation_settings(wanted, captioner, reader)
    _same_settings(run, settings)
    part = Part(run.path, wanted.shard)
    stored = _stored(run, part, settings)
    indexes = {annotation.index for annotation in wanted.annotations}
    if strangers := [index for index in stored if index not in indexes]:
        raise InputError(
            f"has a caption of {shown(strangers[0])}, which {wanted.annotations_path} does not "
            "know; choose another --run",
            file=run.path,
        )
    prompts = {a.index: wanted.prompts.of(a) for a in wanted.annotations}
    kept = {
        index: line
        for index, line in stored.items()
        if line.get("prompt") == prompt_hash(prompts[index])
    }
    chosen = wanted.chosen()
    todo = [annotation for annotation in chosen if annotation.index not in kept]
    work, missing = _located(todo, wanted.videos, prompts)
    if todo and not work and not kept:
        index, reason = next(iter(missing.items()))
        raise InputError(
            f"none of the {len(todo)} videos is there ({index}: {reason}); "
            "name their folder with --videos",
            file=wanted.videos,
        )
    failed = {
        index: str(line.get("reason"))
        for index, line in lines_by_index(part.ungenerated).items()
        if index in indexes and index not in kept
    }
    return GenerationPlan(
        run=run,
        part=part,
        wanted=wanted,
        settings=settings,
        kept=kept,
        work=work,
        missing=missing,
        failed=failed,
        again=len(stored) - len(kept),
        asked=len(chosen),
    )


def _located(
    annotations: Sequence[Annotation], folder: Path, prompts: Mapping[str, str]
) -> tuple[tuple[Job, ...], dict[str, str]]:
    videos = VideoFolder(folder)
    work: list[Job] = []
    missing: dict[str, str] = {}
    for annotation in annotations:
        index = annotation.index
        try:
            path = videos.find(annotation.video or index)
        except VideoError as error:
            missing[index] = str(error)
        else:
            work.append(Job(index, path, prompts[index]))
    return tuple(work), missing


def _same_settings(run: RunFolder, settings: Mapping[str, Any]) -> None:
    before = run.read_manifest().get("generation")
    if before is None:
        if run.exists():
            raise InputError(
                "holds captions that were not generated here; choose another --run", file=run.path
            )
        return
    now, then = _flat(settings), _flat(before if isinstance(before, dict) else {})
    different = [
        f"{key.removeprefix('generation.')} {shown(then.get(key))} (now {shown(now.get(key))})"
        for key in {**then, **now}
        if dumps(then.get(key)) != dumps(now.get(key))
    ]
    if different:
        raise InputError(
            "was generated with other settings, which cannot be mixed; choose another --run, or go "
            f"back to {', '.join(different)}",
            file=run.path,
        )


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[f"{before}{key}"] = value
    return flat


def _stored(run: RunFolder, part: Part, settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The lines that this plan need not make again: the run's, and its own part's."""
    files = [run.captions, *([part.captions] if part.shard else [])]
    lines: dict[str, dict[str, Any]] = {}
    for file in files:
        lines |= _checked_lines(file, settings_id(settings))
    return lines


def _checked_lines(file: Path, expected: str) -> dict[str, dict[str, Any]]:
    lines = lines_by_index(file)
    for index, line in lines.items():
        if line.get("settings") != expected or not isinstance(line.get("caption"), str):
            raise InputError(
                "was generated with other settings, or not by `capeval generate`; "
                "settings cannot be mixed in one run",
                file=file,
                where=f"index {shown(index)}",
            )
    return lines


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
            _same_settings(run, generation_settings(wanted, captioner, reader))
            _merge(run, annotations, path, parts_of(run.path))
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
            _nobody_works_on(parts_of(run.path), run)
        yield


def _nobody_works_on(parts: Iterable[Part], run: RunFolder) -> None:
    for part in parts:
        try:
            with run.locked(part=part.lock):
                continue
        except RunLocked:
            raise RunLocked(
                f"{run.path}: shard {part.shard} is still at work; wait for it"
            ) from None


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
    captions = _in_order(plan.wanted.annotations, done)
    _write(plan.part, plan.wanted.annotations, captions, reasons)
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


def _in_order(
    annotations: Sequence[Annotation], lines: Mapping[str, Mapping[str, Any]]
) -> tuple[Mapping[str, Any], ...]:
    return tuple(lines[a.index] for a in annotations if a.index in lines)


def _write(
    part: Part,
    annotations: Sequence[Annotation],
    captions: Sequence[Mapping[str, Any]],
    reasons: Mapping[str, str],
) -> None:
    have = {line["index"] for line in captions}
    if part.shard:  # what the run has already is not the shard's
        mine = lines_by_index(part.captions)
        captions = [line for line in captions if line["index"] in mine]
    if captions:
        write_jsonl(part.captions, captions)
    left = [
        {"index": a.index, "reason": reasons[a.index]}
        for a in annotations
        if a.index in reasons and a.index not in have
    ]
    if left:
        write_jsonl(part.ungenerated, left)
    else:
        part.ungenerated.unlink(missing_ok=True)


def _write_manifest(plan: GenerationPlan) -> None:
    run, wanted = plan.run, plan.wanted
    with ExitStack() as stack:
        if wanted.shard:  # shards start together, and each writes the same
            stack.enter_context(run.locked(wait=_WAIT_FOR_OTHERS))
            _same_settings(run, plan.settings)
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


@dataclass(frozen=True)
class Merge:
    """What came of putting shards together; None in `generation` while some are not done."""

    generation: Generation | None
    waiting_for: tuple[Shard, ...] = ()


def try_to_merge(
    run: RunFolder, shard: Shard, annotations: tuple[Annotation, ...], path: str
) -> Merge:
    """Merge the shards of a run if every one is there and done; the shard must not be held.

    Raises
    ------
    InputError
        Their lines do not go together.
    """
    with run.locked(wait=_WAIT_FOR_OTHERS):
        parts = {part.shard: part for part in parts_of(run.path)}
        if not parts:  # another shard that ended at the same time has done it
            return Merge(_merged(run, annotations, ()))
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
        return Merge(_merge(run, annotations, path, list(parts.values())))


def _is_held(run: RunFolder, part: Part) -> bool:
    try:
        with run.locked(part=part.lock):
            return False
    except RunLocked:
        return True


def merge_parts(run: RunFolder, annotations: tuple[Annotation, ...], path: str) -> Generation:
    """Merge whatever shards of a run are there, done or not.

    Raises
    ------
    UsageError
        There are no shards.
    RunLocked
        One is still at work.
    InputError
        Their lines do not go together.
    """
    with run.locked():
        parts = parts_of(run.path)
        if not parts:
            raise UsageError(f"{run.path} has no shards to merge")
        _nobody_works_on(parts, run)
        return _merge(run, annotations, path, parts)


def _merge(
    run: RunFolder, annotations: tuple[Annotation, ...], path: str, parts: Sequence[Part]
) -> Generation:
    generation = run.read_manifest().get("generation")
    if not isinstance(generation, dict):
        raise InputError("is missing: copy it from one of the shards' machines", file=run.manifest)
    expected = settings_id(generation)
    lines: dict[str, Mapping[str, Any]] = {}
    reasons: dict[str, str] = {}
    for part in (Part(run.path), *parts):
        lines |= _checked_lines(part.captions, expected)
        for index, line in lines_by_index(part.ungenerated).items():
            reasons[index] = str(line.get("reason"))
    indexes = {annotation.index for annotation in annotations}
    if strangers := [index for index in lines if index not in indexes]:
        raise InputError(
            f"has a caption of {shown(strangers[0])}, which {path} does not know", file=run.path
        )
    captions = _in_order(annotations, lines)
    _write(Part(run.path), annotations, captions, reasons)
    # Killed before this line, the next merge does the same again.
    for part in parts:
        for file in (part.captions, part.ungenerated, run.path / f".lock.{part.lock}"):
            file.unlink(missing_ok=True)
    return _merged(run, annotations, captions)


def _merged(
    run: RunFolder,
    annotations: Sequence[Annotation],
    captions: Collection[Mapping[str, Any]],
) -> Generation:
    if not captions:
        captions = _in_order(annotations, lines_by_index(run.captions))
    have = {line["index"] for line in captions}
    reasons = {
        index: str(line.get("reason"))
        for index, line in lines_by_index(Part(run.path).ungenerated).items()
    }
    return Generation(
        run=run,
        shard=None,
        annotated=len(annotations),
        asked=len(annotations),
        captions=tuple(captions),
        ungenerated={
            a.index: reasons.get(a.index, "not generated yet")
            for a in annotations
            if a.index not in have
        },
    )


def _without_runs(text: str) -> str:
    while "NN" in text:
        text = text.replace("NN", "N")
    return text
