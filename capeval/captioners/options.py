"""The options of generating."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from capeval.options import (
    ENDPOINT,
    FRAMES,
    INPUTS,
    LIMIT,
    LIMITS,
    MACHINES,
    MAX_COST,
    MODEL,
    ONLY,
    option,
)

if TYPE_CHECKING:
    from capeval.captioners.images import ImageKind
    from capeval.captioners.protocol import Captioner, SimpleCaptioner
    from capeval.llm import ChatClient
    from capeval.runs.engine import Progress
    from capeval.video import FrameReader


@dataclass(frozen=True)
class GenerateOptions:
    """Which videos are captioned, by which model, from which frames, and within which limits.

    Besides the options of the command:

    Parameters
    ----------
    model : may be a `Captioner` of your own
    annotations : their file, or `"sample"`; they list the videos
    frames : a sampling policy such as `"32"`, `"2fps"` or `"auto"`, or a `FrameReader`
    batch_size : a number, or `"auto"`
    shuffle : a seed; the frames are shown in a random order
    merge : put the shards of `run` together, and do nothing else
    api_key : of the endpoint; else from the variable that the catalogue names
    cache : SQLite file of replies; by default in the user's cache folder
    client : replaces the endpoint, for tests and recordings
    progress : is shown the status after every video
    """

    model: str | Captioner | SimpleCaptioner | None = option(
        "A model of the catalogue, hf:ORG/NAME, or a server's name for its model.", MODEL
    )
    annotations: str | Path | None = option(
        "Annotations (JSON or JSONL) that list the videos. Default: the bundled sample.",
        INPUTS,
        metavar="FILE",
    )
    _: KW_ONLY
    base_url: str | None = option(f"{ENDPOINT}.", MODEL)
    prompt: str | Path | None = option(
        "The prompt for every video. Default: the annotations' question where they have one, "
        "else tuna-cap-v1.",
        MODEL,
        metavar="FILE",
    )
    max_new_tokens: int | None = option(
        "Tokens a caption may have. Default: the catalogue's, 1024 for most.",
        MODEL,
        None,
        int | None,
        min=1,
    )
    batch_size: int | Literal["auto"] = option(
        "Videos at a time on a device: a number or auto.", MODEL, "auto"
    )
    device: str | None = option("cuda, mps or cpu. Default: the best available.", MODEL)
    videos: str | Path | None = option(
        "Folder of the videos. Default: videos/ beside the annotations, else that folder.",
        INPUTS,
        metavar="DIR",
    )
    run: str | None = option("Name of the run. Default: the model's.", INPUTS)
    only: Collection[str] = option(ONLY, INPUTS, (), list[str] | None, metavar="INDEX")
    limit: int | None = option(LIMIT, INPUTS, None, int | None, min=1)
    frames: str | FrameReader | None = option(
        "32 spread evenly, 2fps, or auto (2 a second below 16 s, else 1). "
        "Default: the catalogue's.",
        FRAMES,
    )
    decoder: str = option("pyav or decord.", FRAMES, "pyav")
    shuffle: int | None = None
    images: ImageKind | None = option(
        "How an endpoint gets frames: jpeg, png, or video (a list of JPEGs, for vLLM). "
        "Default: the catalogue's, jpeg for most.",
        FRAMES,
    )
    jpeg_quality: int = option("Quality of JPEGs.", FRAMES, 90, min=1, max=100)
    max_side: int | None = option(
        "Shrink frames for an endpoint to this many pixels. Default: not shrunk.",
        FRAMES,
        None,
        int | None,
        min=16,
    )
    shard: str | None = option(
        "Do part I of N; the last part to finish merges all.", MACHINES, metavar="I/N"
    )
    merge: bool = option(
        "Merge the shards of --run that exist, and stop.", MACHINES, False, flag="--merge"
    )
    max_concurrency: int = option("Calls at a time.", LIMITS, 32, min=1, max=4096)
    timeout: float = option("Seconds for one call.", LIMITS, 300.0, min=0.1, max=86_400)
    max_cost: float | None = option(MAX_COST, LIMITS, None, float | None, min=0.0)
    api_key: str | None = field(default=None, repr=False)
    runs: str | Path = "runs"
    cache: str | Path | None = None
    client: ChatClient | None = field(default=None, repr=False)
    progress: Progress | None = field(default=None, repr=False)
