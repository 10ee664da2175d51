"""The options of generating."""

from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from capeval.options import (
    FRAMES,
    INPUTS,
    LIMITS,
    MACHINES,
    MODEL,
    ModelOptions,
    declares,
    option,
    python_only,
)

if TYPE_CHECKING:
    from capeval.captioners.images import ImageKind
    from capeval.captioners.protocol import Captioner, SimpleCaptioner
    from capeval.llm import ChatClient
    from capeval.runs.engine import Progress
    from capeval.video import FrameReader


@declares
class GenerateOptions(ModelOptions):
    """Which videos are captioned, by which model and from which frames: see `capeval.generate`.

    Parameters
    ----------
    model : A model of the catalogue, hf:ORG/NAME, or a server's name for its model.
    annotations : Annotations (JSON or JSONL) that list the videos. Default: the bundled sample.
    base_url : An OpenAI-compatible endpoint, such as http://localhost:8000/v1.
    prompt : The prompt for every video. Default: the annotations' question where they have one,
        else tuna-cap-v1.
    max_new_tokens : Tokens a caption may have. Default: the catalogue's, 1024 for most.
    batch_size : Videos at a time on a device: a number or auto.
    device : cuda, mps or cpu. Default: the best available.
    videos : Folder of the videos. Default: videos/ beside the annotations, else that folder.
    run : Name of the run. Default: the model's.
    frames : 32 spread evenly, 2fps, or auto (2 a second below 16 s, else 1). Default: the
        catalogue's.
    decoder : pyav or decord.
    shuffle : A seed: the frames are shown in a random order.
    images : How an endpoint gets frames: jpeg, png, or video (a list of JPEGs, for vLLM).
        Default: the catalogue's, jpeg for most.
    jpeg_quality : Quality of JPEGs.
    max_side : Shrink frames for an endpoint to this many pixels. Default: not shrunk.
    shard : Do part I of N; the last part to finish merges all.
    merge : Merge the shards of --run that exist, and stop.
    client : Replaces the network, for tests and recordings.
    progress : Receives the status after every video.
    """

    model: "str | Captioner | SimpleCaptioner | None" = option(
        None, note="Or a `Captioner` of your own.", kind=str | None, panel=MODEL
    )
    annotations: str | Path | None = option(None, kind=str | None, panel=INPUTS, metavar="FILE")
    _: KW_ONLY
    base_url: str | None = option(None, panel=MODEL)
    prompt: str | Path | None = option(None, kind=str | None, panel=MODEL, metavar="FILE")
    max_new_tokens: int | None = option(None, panel=MODEL, min=1)
    batch_size: int | Literal["auto"] = option("auto", kind=str, panel=MODEL)
    device: str | None = option(None, panel=MODEL)
    videos: str | Path | None = option(None, kind=str | None, panel=INPUTS, metavar="DIR")
    run: str | None = option(None, panel=INPUTS)
    frames: "str | FrameReader | None" = option(
        None, note="Or a `FrameReader`.", kind=str | None, panel=FRAMES
    )
    decoder: str = option("pyav", panel=FRAMES)
    shuffle: int | None = python_only(None)
    images: "ImageKind | None" = option(None, kind=str | None, panel=FRAMES)
    jpeg_quality: int = option(90, panel=FRAMES, min=1, max=100)
    max_side: int | None = option(None, panel=FRAMES, min=16)
    shard: str | None = option(None, panel=MACHINES, metavar="I/N")
    merge: bool = option(False, panel=MACHINES)
    max_concurrency: int = option(32, panel=LIMITS, min=1, max=4096)
    timeout: float = option(300.0, panel=LIMITS, min=0.1, max=86_400)
    client: "ChatClient | None" = python_only(None, repr=False)
    progress: "Progress | None" = python_only(None, repr=False)
