"""Generating the captions of a run or of one of its shards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from capeval.captioners.caption_cleanup import is_empty
from capeval.captioners.pipeline import Job
from capeval.captioners.prompting import CaptionPrompts, prompt_hash
from capeval.captioners.protocol import Captioned, Uncaptioned
from capeval.captioners.stored_work import StoredPlan, StoredResult, StoredWork, settings_id
from capeval.errors import InputError
from capeval.files.annotations import annotations_hash
from capeval.files.jsonl import as_stored
from capeval.runs.engine import Finished, Labels, Stored, select
from capeval.runs.folder import safe_name
from capeval.runs.shards import Shard
from capeval.runs.tested_model import base_name
from capeval.schema import Video
from capeval.text import shown

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Wanted:
    """The annotations, videos and prompts of the captions to generate."""

    annotations: tuple[Video, ...]
    annotations_path: str
    videos: Path
    prompts: CaptionPrompts
    only: tuple[str, ...] = ()
    limit: int | None = None
    shard: Shard | None = None

    def chosen(self) -> tuple[Video, ...]:
        """Return the annotated videos that `--only` and `--limit` leave, for all shards."""
        return select(
            self.annotations,
            lambda video: video.index,
            only=self.only,
            limit=self.limit,
            missing="no annotation has the index",
        )


@dataclass(frozen=True)
class Generation(StoredResult):
    """The captions of a run or shard in the annotations' order, and why other videos have none."""

    annotated: int
    captions: tuple[Line, ...]

    @property
    def records(self) -> tuple[Line, ...]:
        """The captions' lines."""
        return self.captions

    @property
    def file(self) -> Path:
        """The captions of the run."""
        return self.run.captions

    @property
    def ungenerated(self) -> Mapping[str, str]:
        """Why videos have no caption."""
        return self.left


def default_run(model: str) -> str:
    """Return the name of the run of a model.

    >>> default_run("Qwen/Qwen3-VL-8B-Instruct")
    'Qwen3-VL-8B-Instruct'
    """
    return safe_name(base_name(model))


@dataclass
class GenerationWork(StoredWork[Line, Generation]):
    """Captions the videos of a run with one captioner.

    A caption that is empty, or whose prompt or video has changed, is written again; if it has a
    text, that remains until then.
    """

    labels = Labels(doing="captioning", item="video", done="captioned", failed="ungenerated")
    names = ("captions", "ungenerated")
    not_reached = "not generated: the run was stopped"

    wanted: Wanted = field(kw_only=True)

    def __post_init__(self) -> None:
        """Set what is asked."""
        wanted = self.wanted
        self.shard, self.videos = wanted.shard, wanted.videos
        self.items = {one.index: one.video or one.index for one in wanted.annotations}
        self._prompts = {one.index: wanted.prompts.of(one) for one in wanted.annotations}
        self.selected = [annotation.index for annotation in wanted.chosen()]
        self.settings = as_stored(
            {
                "model": self.captioner.name,
                "frames": self.reader.policy,
                "decoder": self.reader.decoder,
                "prompt": wanted.prompts.settings(wanted.annotations),
                "generation": dict(self.captioner.settings),
            }
        )
        annotations = {
            "path": wanted.annotations_path,
            "sha256": annotations_hash(wanted.annotations),
            "count": len(wanted.annotations),
        }
        self.about = {"annotations": annotations, "videos": str(wanted.videos)}

    def whole(self) -> GenerationWork:
        """Return the work of all shards."""
        return replace(self, wanted=replace(self.wanted, shard=None))

    def read(self, value: Any, expected: str) -> Stored[Line]:
        """Return a caption, or why there is none."""
        index = value.get("index") if isinstance(value, dict) else None
        if not isinstance(index, str):
            raise InputError(f"has no index: {shown(value)}")
        if "reason" in value and "caption" not in value:
            return self.failed(index, str(value["reason"]))
        if value.get("settings") != expected or not isinstance(value.get("caption"), str):
            raise InputError(
                "was generated with other settings, or not by `capeval generate`; "
                "settings cannot be mixed in one run"
            )
        if index not in self.items:
            raise InputError(
                f"is a caption of {shown(index)}, which {self.wanted.annotations_path} does not "
                "know; choose another --run"
            )
        return Stored(index, value)

    def fits(self, stored: Stored[Line], video: Mapping[str, Any] | None) -> bool:
        """Return whether a caption has a text, and its prompt and video are the same."""
        line = stored.value
        return stored.reason is not None or (
            line.get("prompt") == prompt_hash(self._prompts[stored.index])
            and not is_empty(line["caption"])
            and (video is None or line.get("video") == video)
        )

    def remains(self, stored: Stored[Line]) -> bool:
        """Return whether an outdated caption has a text."""
        return not is_empty(stored.value["caption"])

    def job(self, index: str, path: Path, video: Mapping[str, Any]) -> Job:
        """Return how a video is captioned."""
        return Job(index, path, self._prompts[index], video)

    def stored(
        self,
        job: Job,
        outcome: Captioned | Uncaptioned,
        frames: Mapping[str, Any],
        settings: Mapping[str, Any],
    ) -> Stored[Line]:
        """Return the line of a caption, or of the reason for its absence."""
        if isinstance(outcome, Uncaptioned):
            return self.failed(job.index, outcome.reason)
        line = {
            "index": job.index,
            "video": dict(job.video),
            "caption": outcome.text,
            "model": outcome.model,
            "revision": outcome.revision,
            "frames": dict(frames),
            "prompt": prompt_hash(job.prompt),
            "generation": settings["generation"],
            "settings": settings_id(settings),
            **({"details": dict(outcome.details)} if outcome.details else {}),
            "usage": outcome.usage.model_dump(),
            "seconds": round(outcome.seconds, 3),
            "warnings": list(outcome.warnings),
        }
        return Stored(job.index, line)

    def failed(self, index: str, reason: str) -> Stored[Line]:
        """Return why a video has no caption."""
        return Stored(index, {"index": index, "reason": reason}, reason)

    def json(self, value: Line) -> Line:
        """Return the line itself."""
        return value

    def result(self, finished: Finished[StoredPlan[Line], Stored[Line]]) -> Generation:
        """Return the captions."""
        done = finished.done
        return Generation(
            **self.common(finished),
            annotated=len(self.wanted.annotations),
            captions=tuple(
                done[index].value
                for index in self.mine()
                if index in done and done[index].reason is None
            ),
        )
