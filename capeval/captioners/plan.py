"""Plan the generation of a run: which videos are left, and which settings must match."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capeval.captioners.caption_cleanup import is_empty
from capeval.captioners.pipeline import Job
from capeval.captioners.prompting import CaptionPrompts, prompt_hash
from capeval.captioners.protocol import Captioner
from capeval.captioners.run_settings import generation_settings, same_settings, settings_id
from capeval.errors import BudgetReached, EndpointDown, InputError, VideoError
from capeval.files.jsonl import write_jsonl
from capeval.files.videos import VideoFolder, none_found
from capeval.runs.engine import Plan, select
from capeval.runs.folder import RunFolder, safe_name
from capeval.runs.shards import Part, Shard, lines_by_index
from capeval.schema import Annotation, Usage
from capeval.text import shown
from capeval.video import FrameReader
from capeval.video.frames import file_size


@dataclass(frozen=True)
class Wanted:
    """The annotations, videos and prompts of the captions to generate."""

    annotations: tuple[Annotation, ...]
    annotations_path: str
    videos: Path
    prompts: CaptionPrompts
    only: tuple[str, ...] = ()
    limit: int | None = None
    shard: Shard | None = None

    def chosen(self) -> tuple[Annotation, ...]:
        """Return the annotated videos that `--only`, `--shard` and `--limit` leave."""
        chosen = select(
            tuple(enumerate(self.annotations)),
            lambda placed: placed[1].index,
            only=self.only,
            missing="no annotation has the index",
        )
        return tuple(
            annotation
            for position, annotation in chosen
            if self.shard is None or self.shard.holds(position)
        )[: self.limit]


@dataclass(frozen=True)
class CaptionOutcome:
    """The line of a caption, or the reason why a video has none."""

    index: str
    line: Mapping[str, Any] | None
    reason: str | None = None


@dataclass(frozen=True)
class GenerationPlan(Plan[CaptionOutcome]):
    """What generating will do.

    `missing` are the reasons of videos that have no file; `again` counts stored captions that are
    empty or whose prompt or video changed; of these, `outdated` have a text, which remains until a
    new one is written; `asked` counts all videos, done or not.
    """

    run: RunFolder
    part: Part
    wanted: Wanted
    settings: Mapping[str, Any]
    missing: Mapping[str, str]
    again: int
    outdated: Mapping[str, Mapping[str, Any]]
    asked: int


@dataclass(frozen=True)
class Generation:
    """The captions of a run or shard in the annotations' order, and why other videos have none."""

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
        """How many captions have each warning; those that differ only in numbers are merged."""
        counts = Counter(text for line in self.captions for text in line.get("warnings") or ())
        kinds: dict[str, list[str]] = {}
        for text in counts:
            kinds.setdefault(re.sub(r"\d+", "N", text), []).append(text)
        # A kind with one text keeps its numbers.
        merged = {
            alike[0] if len(alike) == 1 else kind: sum(counts[text] for text in alike)
            for kind, alike in kinds.items()
        }
        return dict(sorted(merged.items()))

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


def plan_generation(
    run: RunFolder, wanted: Wanted, captioner: Captioner, reader: FrameReader
) -> GenerationPlan:
    """Find out what is left to caption; raises `InputError`."""
    settings = generation_settings(wanted.prompts.settings(wanted.annotations), captioner, reader)
    same_settings(run, settings)
    part = Part(run.path, wanted.shard)
    stored = _stored(run, part, settings_id(settings))
    by_index = {annotation.index: annotation for annotation in wanted.annotations}
    refuse_unknown(stored, by_index, wanted.annotations_path, run, "; choose another --run")
    prompts = {index: wanted.prompts.of(annotation) for index, annotation in by_index.items()}
    folder = VideoFolder(wanted.videos)
    lines = {
        index: line
        for index, line in stored.items()
        if line.get("prompt") == prompt_hash(prompts[index])
        and not is_empty(line["caption"])
        and _same_video(line, by_index[index], folder)
    }
    chosen = wanted.chosen()
    left = [annotation for annotation in chosen if annotation.index not in lines]
    todo, missing = _located(left, folder, prompts)
    if left and not todo and not lines:
        raise InputError(
            f"{none_found(missing)}; name the folder of the videos with --videos",
            file=wanted.videos,
        )
    failed = {
        index: reason
        for index, reason in stored_reasons(part).items()
        if index in by_index and index not in lines
    }
    # Those that failed before come last: one that breaks the model does not keep it from others.
    todo = tuple(sorted(todo, key=lambda job: job.index in failed))
    kept = {index: CaptionOutcome(index, line) for index, line in lines.items()} | {
        index: CaptionOutcome(index, None, reason)
        for index, reason in {**failed, **missing}.items()
    }
    return GenerationPlan(
        name=f"{run.name} (shard {wanted.shard})" if wanted.shard else run.name,
        kept=kept,
        todo=todo,
        run=run,
        part=part,
        wanted=wanted,
        settings=settings,
        missing=missing,
        again=len(stored) - len(lines),
        outdated={
            index: line
            for index, line in stored.items()
            if index not in lines and not is_empty(line["caption"])
        },
        asked=len(chosen),
    )


def _located(
    annotations: Sequence[Annotation], videos: VideoFolder, prompts: Mapping[str, str]
) -> tuple[tuple[Job, ...], dict[str, str]]:
    work: list[Job] = []
    missing: dict[str, str] = {}
    for annotation in annotations:
        index = annotation.index
        try:
            path = videos.find(annotation.video or index)
            file = _file_of(path, videos)
        except VideoError as error:
            missing[index] = str(error)
        else:
            work.append(Job(index, path, prompts[index], file))
    return tuple(work), missing


def _file_of(path: Path, videos: VideoFolder) -> dict[str, Any]:
    return {"file": path.relative_to(videos.path).as_posix(), "bytes": file_size(path)}


def _same_video(line: Mapping[str, Any], annotation: Annotation, videos: VideoFolder) -> bool:
    try:
        path = videos.find(annotation.video or annotation.index)
        file = _file_of(path, videos)
    except VideoError:
        # The file no longer exists; its stored caption is still valid.
        return True
    return bool(line.get("video") == file)


def _stored(run: RunFolder, part: Part, expected: str) -> dict[str, dict[str, Any]]:
    """Return the stored caption lines of the run and of this part."""
    lines = checked_lines(run.captions, expected)
    return lines | checked_lines(part.captions, expected) if part.shard else lines


def stored_reasons(part: Part) -> dict[str, str]:
    """Return why videos of a run or shard have no caption."""
    lines = lines_by_index(part.ungenerated)
    return {index: str(line.get("reason")) for index, line in lines.items()}


def refuse_unknown(
    indexes: Iterable[str], known: Container[str], path: str, run: RunFolder, advice: str = ""
) -> None:
    """Raise `InputError` where a caption's index is not in the annotations at `path`."""
    for index in indexes:
        if index not in known:
            problem = f"has a caption of {shown(index)}, which {path} does not know{advice}"
            raise InputError(problem, file=run.path)


def checked_lines(file: Path, expected: str) -> dict[str, dict[str, Any]]:
    """Return the caption lines of a file by index; `InputError` if one has
    other settings than those with the `expected` id.
    """
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


def in_order(
    annotations: Sequence[Annotation], lines: Mapping[str, Mapping[str, Any]]
) -> tuple[Mapping[str, Any], ...]:
    """Return the lines in the annotations' order."""
    return tuple(lines[a.index] for a in annotations if a.index in lines)


def write_part(
    part: Part,
    annotations: Sequence[Annotation],
    captions: Sequence[Mapping[str, Any]],
    reasons: Mapping[str, str],
) -> None:
    """Write the captions and the reasons of a run or shard, atomically and in order."""
    if part.shard:  # lines of the run do not belong to the shard
        mine = lines_by_index(part.captions)
        captions = [line for line in captions if line["index"] in mine]
    if captions:
        write_jsonl(part.captions, captions)
    left = [
        {"index": a.index, "reason": reasons[a.index]} for a in annotations if a.index in reasons
    ]
    if left:
        write_jsonl(part.ungenerated, left)
    else:
        part.ungenerated.unlink(missing_ok=True)
