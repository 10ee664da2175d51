"""`capeval.generate`: videos in, captions out."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from capeval.api.sync_async import blocking
from capeval.captioners.images import ImageKind
from capeval.captioners.plan import Generation, Wanted, default_run, default_videos
from capeval.captioners.prompting import load_caption_prompts
from capeval.captioners.protocol import Captioner, SimpleCaptioner
from capeval.captioners.run import GeneratingProgress, generate_run
from capeval.captioners.selection import CaptionerChoice, open_captioner
from capeval.llm import ChatClient
from capeval.runs.folder import RunFolder
from capeval.runs.shards import Shard
from capeval.runs.sources import SAMPLE, annotations_of, run_name
from capeval.video import FrameReader, open_reader


async def generate_async(
    model: str | Captioner | SimpleCaptioner | None = None,
    annotations: str | Path = SAMPLE,
    *,
    videos: str | Path | None = None,
    frames: str | FrameReader | None = None,
    prompt: str | Path | None = None,
    run: str | None = None,
    runs: str | Path = "runs",
    base_url: str | None = None,
    api_key: str | None = None,
    max_new_tokens: int | None = None,
    batch_size: int | Literal["auto"] = "auto",
    device: str | None = None,
    decoder: str = "pyav",
    shuffle: int | None = None,
    images: ImageKind | None = None,
    jpeg_quality: int = 90,
    max_side: int | None = None,
    shard: str | None = None,
    only: Collection[str] = (),
    limit: int | None = None,
    max_concurrency: int = 32,
    timeout: float = 300.0,
    max_cost: float | None = None,
    cache: str | Path | None = None,
    client: ChatClient | None = None,
    progress: GeneratingProgress | None = None,
) -> Generation:
    """Caption videos with a video-language model; the captions are a run, ready for `judge`.

    Parameters
    ----------
    model : a name of the catalogue, `hf:ORG/NAME`, a server's name for its model, or a `Captioner`
    annotations : their file, or `"sample"`; they list the videos
    videos : the folder of the videos; else `videos` beside the annotations, or their folder
    frames : a sampling policy such as `"32"`, `"2fps"` or `"auto"`; else the catalogue's
    prompt : a file; else the annotations' `question`, else the catalogue's
    run : the run's name under `runs`; else the model's
    base_url, api_key : of an OpenAI-compatible endpoint
    max_new_tokens : tokens that a caption may have; else the catalogue's
    batch_size, device : of a model in this process
    shuffle : a seed; the frames are shown in an order drawn by it
    images, jpeg_quality, max_side : how an endpoint gets frames
    shard : `"I/N"`; the last shard to end merges all
    only, limit : caption these videos only, and at most so many
    max_cost : US dollars after which no further call is made
    cache : SQLite file of replies; by default in the user's cache folder
    client : stands in for the endpoint
    progress : is told of every video

    Raises
    ------
    InputError, UsageError
        The inputs or options are not right.
    EndpointRefused, EndpointDown, BudgetReached
        Generating had to stop; what was done is kept.
    """
    named = None if model is None or isinstance(model, str) else model
    choice = CaptionerChoice(
        model=model if isinstance(model, str) else None,
        base_url=base_url,
        api_key=api_key,
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
        device=device,
        images=images,
        jpeg_quality=jpeg_quality,
        max_side=max_side,
        max_concurrency=max_concurrency,
        timeout=timeout,
        max_cost=max_cost,
        cache_path=None if cache is None else Path(cache),
        client=client,
        captioner=named,
    )
    path = str(annotations)
    async with open_captioner(choice) as opened:
        if frames is None or isinstance(frames, str):
            frames = open_reader(frames or opened.entry.frames, decoder, shuffle=shuffle)
        wanted = Wanted(
            annotations=annotations_of(path),
            annotations_path=path,
            videos=default_videos(path) if videos is None else Path(videos),
            prompts=load_caption_prompts(
                None if prompt is None else Path(prompt), opened.entry.prompt
            ),
            only=tuple(only),
            limit=limit,
            shard=None if shard is None else Shard.read(shard),
        )
        folder = RunFolder(Path(runs) / run_name(run or default_run(opened.captioner.name)))
        generation, _ = await generate_run(
            folder, wanted, opened.captioner, frames, progress=progress
        )
    if generation.stopped:
        raise generation.stopped
    return generation


generate = blocking(generate_async)
