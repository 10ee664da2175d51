"""`capeval generate`: videos in, captions out."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from capeval.captioners.opening import choose_model
from capeval.captioners.options import FramesOptions
from capeval.captioners.pipeline import Job, is_empty
from capeval.captioners.protocol import Outcome, Uncaptioned
from capeval.captioners.ray_pool import open_model
from capeval.captioners.stored_work import StoredResult, StoredWork
from capeval.config import packaged
from capeval.errors import InputError
from capeval.files.annotations import VideoFolder, annotations_hash
from capeval.files.jsonl import as_stored, read_text, short_hash
from capeval.options import INPUTS, MODEL, command, declares, option
from capeval.runs.engine import Finished, Labels, Stored, functions, select
from capeval.runs.folder import RunFolder, Shard, safe_name
from capeval.runs.sources import SAMPLE, base_name, default_videos, run_name, videos_of_set
from capeval.schema import Annotation, Video
from capeval.text import filled, nearest, shown, tag_free_json
from capeval.video import FrameReader, open_reader


@declares
class GenerateOptions(FramesOptions):
    """The arguments of `capeval.generate`.

    Parameters
    ----------
    annotations : Annotations: a file, 'tuna' or 'sample'; or a videos.jsonl of
        `capeval annotate filter`. By default sample.
    prompts : A prompt set or a file. By default the prompts in the annotations,
        else tuna-cap-v1.
    videos : The folder of the videos. By default videos/ next to the annotations, else the
        annotations' own folder.
    run : The run's name. By default the model's name.
    shard : Do part I of N; the last one merges all.
    """

    annotations: str | Path | None = option(None, panel=INPUTS, metavar="FILE")
    _: KW_ONLY
    prompts: str | Path | None = option(None, panel=MODEL, metavar="NAME")
    videos: str | Path | None = option(None, panel=INPUTS, metavar="DIR")
    run: str | None = option(None, panel=INPUTS, metavar="NAME")
    shard: str | None = option(None, panel=INPUTS, metavar="I/N")


# ---- The prompts ---------------------------------------------------------------------------------


def prompt_hash(prompt: str) -> str:
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class CaptionPrompts:
    """One prompt for all videos; with `questions`, annotations' own questions come first.

    `{elements}` in it is replaced by the annotated elements by id, as JSON.
    """

    text: str
    source: str
    questions: bool

    def of(self, annotation: Video) -> str:
        own = (annotation.question or "").strip() if self.questions else ""
        if own or not isinstance(annotation, Annotation):
            return own or self.text
        elements = {name: one.content for name, one in annotation.elements.items()}
        return filled(self.text, {"elements": tag_free_json(elements)})

    def settings(self, annotations: tuple[Video, ...]) -> dict[str, str]:
        asked = self.questions and any((a.question or "").strip() for a in annotations)
        if asked and all((a.question or "").strip() for a in annotations):
            return {"source": "question"}
        source = f"question, else {self.source}" if asked else self.source
        return {"source": source, "sha256": prompt_hash(self.text)}


def load_caption_prompts(named: str | Path | None, default: str = "tuna-cap-v1") -> CaptionPrompts:
    """Return the prompt of a set or file; by default the data's own, else `default`."""
    wanted = Path(default if named is None else named)
    file = packaged("prompts") / wanted / "caption.txt"
    source = f"{wanted.name}/caption.txt"
    if wanted.name != str(wanted) or not file.is_file():
        file, source = wanted, wanted.name
    if file.is_file():
        return CaptionPrompts(read_text(file).strip(), source, questions=named is None)
    sets = sorted(entry.parent.name for entry in packaged("prompts").glob("*/caption.txt"))
    raise InputError(
        f"is neither a prompt set ({', '.join(sets)}) nor a file{nearest(str(wanted), sets)}",
        file=wanted,
    )


# ---- The captions of a run -----------------------------------------------------------------------

CaptionLine = Mapping[str, Any]
"""A line of captions.jsonl, or of ungenerated.jsonl."""


@dataclass(frozen=True)
class Wanted:
    """The annotations, videos and prompts of the captions to generate."""

    annotations: tuple[Video, ...]
    annotations_path: str
    videos: VideoFolder
    prompts: CaptionPrompts
    chosen: tuple[Video, ...]
    """The annotated videos within `--only` and `--limit`, for all shards."""


@dataclass(frozen=True)
class Generation(StoredResult):
    """The captions of a run or shard, in the annotations' order."""

    labels = Labels(doing="captioning", item="video", done="captioned", failed="ungenerated")
    replies, name = ("caption", "captions"), "captions"
    not_reached = "not generated: the run was stopped"
    then, detail = "Judge them: capeval judge", "annotated"

    annotated: int
    captions: tuple[CaptionLine, ...]
    judgeable: bool
    """Whether a judge can judge them: the videos are annotated, and the replies are captions."""

    @property
    def files(self) -> list[str]:
        return super().files if self.judgeable else super().files[:1]

    @property
    def calls(self) -> tuple[CaptionLine, ...]:
        return self.captions

    def records(self) -> list[dict[str, Any]]:
        return [dict(line) for line in self.captions]

    @property
    def ungenerated(self) -> Mapping[str, str]:
        return self.left


def default_run(model: str) -> str:
    """Return the name of the run of a model.

    >>> default_run("Qwen/Qwen3-VL-8B-Instruct")
    'Qwen3-VL-8B-Instruct'
    """
    return safe_name(base_name(model))


@dataclass
class GenerationWork(StoredWork[CaptionLine, Generation]):
    """Captions the videos of a run with one captioner.

    A caption that is empty, or whose prompt or video has changed, is generated again; an existing
    text remains until then.
    """

    labels = Generation.labels
    names, to_do = ("captions", "ungenerated"), "caption"
    outdated = "captioned again: the prompt or the video file has changed, or the caption is empty"

    wanted: Wanted = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        wanted = self.wanted
        self.videos = wanted.videos
        self.items = {one.index: one.video or one.index for one in wanted.annotations}
        self._prompts = {one.index: wanted.prompts.of(one) for one in wanted.annotations}
        self.selected = [annotation.index for annotation in wanted.chosen]
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
        self.about = {"annotations": annotations, "videos": str(wanted.videos.path)}
        frames, prompt = self.settings["frames"], self.settings["prompt"]["source"]
        seen = f"frames {frames} by {self.settings['decoder']}, prompt {prompt}"
        self.title = f"{self.opened.title}, {seen}"

    def read(self, value: Any, expected: str) -> Stored[CaptionLine]:
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
                "have; choose another --run"
            )
        return Stored(index, value)

    def fits(self, stored: Stored[CaptionLine], video: Mapping[str, Any] | None) -> bool:
        line = stored.value
        return stored.reason is not None or (
            line.get("prompt") == prompt_hash(self._prompts[stored.index])
            and not is_empty(line["caption"])
            and (video is None or line.get("video") == video)
        )

    def remains(self, stored: Stored[CaptionLine]) -> bool:
        return not is_empty(stored.value["caption"])

    def job(self, index: str, path: Path, video: Mapping[str, Any]) -> Job:
        return Job(index, path, self._prompts[index], video)

    def stored(
        self, job: Job, outcome: Outcome, frames: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> Stored[CaptionLine]:
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
            "settings": short_hash(settings),
            **({"details": dict(outcome.details)} if outcome.details else {}),
            "usage": outcome.usage.model_dump(),
            "seconds": round(outcome.seconds, 3),
            "warnings": list(outcome.warnings),
        }
        return Stored(job.index, line)

    def failed(self, index: str, reason: str) -> Stored[CaptionLine]:
        return Stored(index, {"index": index, "reason": reason}, reason)

    def json(self, value: CaptionLine) -> CaptionLine:
        return value

    def result(self, finished: Finished[Stored[CaptionLine]]) -> Generation:
        done = finished.done
        return Generation(
            **self.common(finished, Generation.not_reached),
            annotated=len(self.wanted.annotations),
            captions=tuple(
                done[index].value
                for index in self.mine()
                if index in done and done[index].reason is None
            ),
            judgeable="{elements}" not in self.wanted.prompts.text
            and all(isinstance(one, Annotation) for one in self.wanted.annotations),
        )


# ---- The public function and the command ---------------------------------------------------------


@command("generate", "max_failed", "yes", "dry_run", "as_json", options=GenerateOptions)
@asynccontextmanager
async def open_generating(
    options: GenerateOptions, *, dry_run: bool = False
) -> AsyncIterator[GenerationWork]:
    """Caption videos with a video-language model.

    Captions go to runs/NAME/captions.jsonl, ready for `capeval judge`; each line records which
    frames the model saw. Run the same command again to resume.
    """
    entry = choose_model(options)
    # All input errors are found before a model is loaded or called.
    if options.annotations is None:
        options.on_notice("No --annotations are given: captioning the bundled sample.")
    wanted = wanted_videos(options, entry.prompt if entry else None)
    shard = Shard.read(options.shard) if options.shard else None
    reader = _reader(options, entry.frames) if entry else None

    # Where only the server knows the model, a dry run needs the server.
    run = run_folder(options, entry.name) if entry and dry_run else None
    async with open_model(options, entry, dry_run=run) as opened:
        yield GenerationWork(
            run_folder(options, opened.captioner.name),
            opened,
            reader or _reader(options, opened.entry.frames),
            wanted=wanted,
            shard=shard,
        )


generate_async, generate = functions("generate", open_generating, GenerateOptions, Generation)


def run_folder(options: GenerateOptions, model: str) -> RunFolder:
    return RunFolder(Path(options.runs) / run_name(options.run or default_run(model)))


def wanted_videos(options: GenerateOptions, prompt: str | None) -> Wanted:
    """Return the videos to caption; raises an error about them or their annotations."""
    path = SAMPLE if options.annotations is None else str(options.annotations)
    annotations = videos_of_set(path)
    return Wanted(
        annotations=annotations,
        annotations_path=path,
        videos=VideoFolder(Path(options.videos or default_videos(path, needed=True))),
        prompts=load_caption_prompts(options.prompts, prompt or "tuna-cap-v1"),
        chosen=select(
            annotations,
            lambda video: video.index,
            only=options.only,
            limit=options.limit,
            missing="no annotation has the index",
        ),
    )


def _reader(options: GenerateOptions, default: str) -> FrameReader:
    frames = options.frames
    if frames is not None and not isinstance(frames, str | int):
        return frames
    return open_reader(default if frames is None else str(frames), options.decoder)
