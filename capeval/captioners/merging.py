"""Putting the shards of a run together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capeval.captioners.plan import Generation, checked_lines, in_order, settings_id, write_part
from capeval.errors import InputError, RunLocked, UsageError
from capeval.runs.folder import RunFolder
from capeval.runs.shards import Part, Shard, lines_by_index, parts_of
from capeval.schema import Annotation
from capeval.text import shown

WAIT_FOR_OTHERS = 60.0


@dataclass(frozen=True)
class Merge:
    """What came of putting shards together; None in `generation` while some are not done."""

    generation: Generation | None
    waiting_for: tuple[Shard, ...] = ()


def try_to_merge(
    run: RunFolder, shard: Shard, annotations: tuple[Annotation, ...], path: str
) -> Merge:
    """Merge the shards of a run if every one is there and done; the shard must not be held."""
    with run.locked(wait=WAIT_FOR_OTHERS):
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
        return Merge(merge_into(run, annotations, path, list(parts.values())))


def _is_held(run: RunFolder, part: Part) -> bool:
    try:
        with run.locked(part=part.lock):
            return False
    except RunLocked:
        return True


def merge_parts(run: RunFolder, annotations: tuple[Annotation, ...], path: str) -> Generation:
    """Merge whatever shards of a run are there, done or not."""
    with run.locked():
        parts = parts_of(run.path)
        if not parts:
            raise UsageError(f"{run.path} has no shards to merge")
        nobody_works_on(parts, run)
        return merge_into(run, annotations, path, parts)


def nobody_works_on(parts: Iterable[Part], run: RunFolder) -> None:
    """Raise `RunLocked` where a shard is still at work."""
    for part in parts:
        try:
            with run.locked(part=part.lock):
                continue
        except RunLocked:
            raise RunLocked(
                f"{run.path}: shard {part.shard} is still at work; wait for it"
            ) from None


def merge_into(
    run: RunFolder, annotations: tuple[Annotation, ...], path: str, parts: Sequence[Part]
) -> Generation:
    """Put the lines of shards into the run and remove the shards."""
    generation = run.read_manifest().get("generation")
    if not isinstance(generation, dict):
        raise InputError("is missing: copy it from one of the shards' machines", file=run.manifest)
    expected = settings_id(generation)
    lines: dict[str, Mapping[str, Any]] = {}
    reasons: dict[str, str] = {}
    for part in (Part(run.path), *parts):
        lines |= checked_lines(part.captions, expected)
        for index, line in lines_by_index(part.ungenerated).items():
            reasons[index] = str(line.get("reason"))
    indexes = {annotation.index for annotation in annotations}
    if strangers := [index for index in lines if index not in indexes]:
        raise InputError(
            f"has a caption of {shown(strangers[0])}, which {path} does not know", file=run.path
        )
    captions = in_order(annotations, lines)
    write_part(Part(run.path), annotations, captions, reasons)
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
        captions = in_order(annotations, lines_by_index(run.captions))
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
