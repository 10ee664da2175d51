"""`capeval.generate`: videos in, captions out. `capeval generate` runs the same session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from capeval.captioners.asking_session import AskingSession, Phrases, open_session
from capeval.captioners.catalogue import OpenCaptioner
from capeval.captioners.options import GenerateOptions
from capeval.captioners.pipeline import caption_videos
from capeval.captioners.prompting import load_caption_prompts
from capeval.captioners.ray_pool import RayPool, open_ray
from capeval.captioners.run import Generation, GenerationWork, Line, Wanted, default_run
from capeval.captioners.selection import choose_model
from capeval.errors import UsageError
from capeval.files.videos import VideoFolder
from capeval.options import takes
from capeval.runs.folder import RunFolder
from capeval.runs.long_work import finished
from capeval.runs.shards import Shard
from capeval.runs.sources import SAMPLE, default_videos, run_name, videos_of_set
from capeval.runs.sync_async import blocking
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
    (generation,) = await finished(open_generating(options), options.progress)
    return generation


generate = blocking(generate_async)

_PHRASES = Phrases(
    to_do="caption",
    replies=("caption", "captions"),
    outdated="captioned again: the prompt or the video file has changed, or the caption is empty",
    then="Judge them: capeval judge",
    detail="annotated",
)


@asynccontextmanager
async def open_generating(
    options: GenerateOptions,
    *,
    on_notice: Callable[[str], None] = lambda _: None,
    dry_run: bool = False,
) -> AsyncIterator[AskingSession[Line, Generation]]:
    """Check the inputs, then open the captioner; its model or connections go with the block."""
    entry = choose_model(options)
    # Everything that can be wrong is found before a model is loaded or called.
    if options.annotations is None:
        on_notice("No --annotations are given: captioning the bundled sample.")
    wanted = wanted_videos(options, entry.prompt if entry else None)
    if entry:
        _reader(options, entry.frames)

    def session(opened: OpenCaptioner) -> AskingSession[Line, Generation]:
        captioner = opened.captioner
        work = GenerationWork(
            run_folder(options, captioner.name),
            captioner,
            _reader(options, opened.entry.frames),
            lambda: opened.meter.spent,
            wanted=wanted,
            caption_videos=(
                captioner.caption_videos if isinstance(captioner, RayPool) else caption_videos
            ),
        )
        prompt = work.settings["prompt"]["source"]
        seen = f"frames {work.settings['frames']} by {work.settings['decoder']}, prompt {prompt}"
        return AskingSession(work, opened, _PHRASES, seen)

    if options.ray is not None:
        if options.serve:
            raise UsageError("--ray and --serve exclude each other; choose one")
        async with open_ray(options) as pool:
            yield session(pool)
        return
    # Where only the server knows the model, a dry run needs the server.
    run = run_folder(options, entry.name) if entry else None
    async with open_session(options, run, session, on_notice=on_notice, dry_run=dry_run) as opened:
        yield opened


def run_folder(options: GenerateOptions, model: str) -> RunFolder:
    """Return the run that a model's captions go to."""
    return RunFolder(Path(options.runs) / run_name(options.run or default_run(model)))


def wanted_videos(options: GenerateOptions, prompt: str | None) -> Wanted:
    """Return the videos to caption; raises what is wrong with them or their annotations."""
    path = SAMPLE if options.annotations is None else str(options.annotations)
    wanted = Wanted(
        annotations=videos_of_set(path),
        annotations_path=path,
        videos=Path(options.videos) if options.videos else default_videos(path, needed=True),
        prompts=load_caption_prompts(options.prompts, prompt or "tuna-cap-v1"),
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
    policy = default if frames is None else str(frames)
    return open_reader(policy, options.decoder)
