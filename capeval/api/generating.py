"""`capeval.generate`: videos in, captions out. `capeval generate` runs the same session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from capeval.api.sync_async import blocking
from capeval.captioners.catalogue import model_folder
from capeval.captioners.options import GenerateOptions
from capeval.captioners.plan import (
    Generation,
    GenerationPlan,
    Wanted,
    default_run,
    plan_generation,
)
from capeval.captioners.prompting import load_caption_prompts
from capeval.captioners.run import Merge, generate_run, merge_parts
from capeval.captioners.selection import (
    GenerationEstimate,
    OpenCaptioner,
    choose_model,
    estimate_generation,
    open_captioner,
)
from capeval.errors import UsageError
from capeval.files.videos import VideoFolder
from capeval.options import takes
from capeval.runs.engine import Progress
from capeval.runs.folder import RunFolder
from capeval.runs.shards import Shard
from capeval.runs.sources import SAMPLE, annotations_of, default_videos, run_name
from capeval.video import FrameReader, open_reader


@takes(GenerateOptions)
async def generate_async(options: GenerateOptions) -> Generation:
    """Caption videos with a video-language model; the captions are a run, ready for `judge`.

    Raises
    ------
    InputError, UsageError
        The inputs or options are not right.
    EndpointRefused, EndpointDown, BudgetReached
        Generating had to stop; what was done is kept.
    """
    if options.merge:
        return merge_shards(options)
    async with open_generating(options) as session:
        generation, _ = await session.run(options.progress)
    if generation.stopped:
        raise generation.stopped
    return generation


generate = blocking(generate_async)


class GeneratingSession:
    """One captioner and the run that it writes; `plan` is what the run lacks."""

    def __init__(self, options: GenerateOptions, wanted: Wanted, opened: OpenCaptioner) -> None:
        self.opened, self._wanted = opened, wanted
        self._reader = _reader(options, opened.entry.frames)
        self._readers = options.readers
        name = options.run or default_run(opened.captioner.name)
        self._run = RunFolder(Path(options.runs) / run_name(name))
        self.plan: GenerationPlan = plan_generation(
            self._run, wanted, opened.captioner, self._reader
        )

    async def estimate(self) -> GenerationEstimate:
        """Return the expected cost; reads up to three videos and calls nothing."""
        return await estimate_generation(self.plan.todo, self._reader, self.opened)

    async def run(self, progress: Progress | None = None) -> tuple[Generation, Merge | None]:
        """Caption the videos; the last shard to finish merges all."""
        meter = self.opened.meter
        return await generate_run(
            self._run,
            self._wanted,
            self.opened.captioner,
            self._reader,
            progress=progress,
            readers=self._readers,
            dollars=lambda: meter.spent,
        )


@asynccontextmanager
async def open_generating(
    options: GenerateOptions, *, on_notice: Callable[[str], None] = lambda _: None
) -> AsyncIterator[GeneratingSession]:
    """Check the inputs, then open the captioner; its model or connections go with the block."""
    entry = choose_model(options)
    # Everything that can be wrong is found before a model is loaded or called.
    if options.annotations is None:
        on_notice("No --annotations are given: captioning the bundled sample.")
    wanted = _wanted(options, entry.prompt if entry else None)
    if entry:
        _reader(options, entry.frames)
    async with open_captioner(options, on_notice=on_notice) as opened:
        yield GeneratingSession(options, wanted, opened)


def merge_shards(options: GenerateOptions) -> Generation:
    """Merge the shards of a run that exist, finished or not."""
    name = options.run
    if name is None and isinstance(options.model, str):
        folder = model_folder(options.model)
        name = default_run(options.model if folder is None else folder.name)
    if name is None:
        raise UsageError("name the run whose shards are to be merged with --run")
    run = RunFolder(Path(options.runs) / run_name(name))
    if not run.path.is_dir():
        raise UsageError(f"{run.path} does not exist")
    path = options.annotations or run.annotations_path()
    if path is None:
        raise UsageError(f"{run.path}: name its annotations with --annotations")
    return merge_parts(run, annotations_of(str(path)), str(path))


def _wanted(options: GenerateOptions, prompt: str | None) -> Wanted:
    path = SAMPLE if options.annotations is None else str(options.annotations)
    file = Path(options.prompt) if options.prompt else None
    wanted = Wanted(
        annotations=annotations_of(path),
        annotations_path=path,
        videos=Path(options.videos) if options.videos else default_videos(path),
        prompts=load_caption_prompts(file, prompt or "tuna-cap-v1", text=options.prompt_text),
        only=tuple(options.only),
        limit=options.limit,
        shard=Shard.read(options.shard) if options.shard else None,
    )
    wanted.chosen()
    VideoFolder(wanted.videos)
    return wanted


def _reader(options: GenerateOptions, default: str) -> FrameReader:
    frames = options.frames
    if frames is not None and not isinstance(frames, str | int):
        return frames
    seed = options.seed if options.shuffle is True else options.shuffle
    policy = default if frames is None else str(frames)
    # False is no seed, but 0 is one.
    return open_reader(
        policy,
        options.decoder,
        shuffle=None if seed is False else seed,
        allow_damaged=options.allow_damaged,
    )
