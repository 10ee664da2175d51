"""The options of judging and generating, declared once for Python and for the command line."""

from collections.abc import Collection
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Literal

from capeval.api import FilePath
from capeval.api.declaring import (
    FRAMES,
    INPUTS,
    JUDGE,
    LIMITS,
    MACHINES,
    MODEL,
    OUTPUT,
    declares,
    option,
    python_only,
    required,
)
from capeval.api.run_options import ignore_unknown_option

if TYPE_CHECKING:
    from capeval.api.judging import Captions
    from capeval.api.scoring import Annotations
    from capeval.captioners.images import ImageKind
    from capeval.captioners.protocol import Captioner, SimpleCaptioner
    from capeval.judging.protocol import Judge
    from capeval.llm import ChatClient
    from capeval.runs.engine import Progress
    from capeval.video import FrameReader


@declares
class _ModelOptions:
    """What judging and generating have in common.

    Parameters
    ----------
    only : Only these indexes (repeat, or separate by commas).
    limit : Only the first N.
    max_concurrency : Calls at a time.
    timeout : Seconds for one call.
    max_cost : Stop calling after this many US dollars; implies --yes.
    api_key : Of the endpoint. Default: OPENAI_API_KEY, or the variable that the catalogue names.
    runs : The folder of the runs.
    cache : SQLite file of replies. Default: in the user's cache folder.
    client : Replaces the network, for tests and recordings.
    progress : Receives the status after every video.
    """

    _: KW_ONLY
    only: Collection[str] = option((), panel=INPUTS, metavar="INDEX", commas=True)
    limit: int | None = option(None, panel=INPUTS, min=1)
    max_concurrency: int = option(64, panel=LIMITS, min=1, max=4096)
    timeout: float = option(120.0, panel=LIMITS, min=0.1, max=86_400)
    max_cost: float | None = option(None, panel=LIMITS, min=0.0)
    api_key: str | None = python_only(None, repr=False)
    runs: FilePath = python_only("runs")
    cache: FilePath | None = python_only(None)
    client: "ChatClient | None" = python_only(None, repr=False)
    progress: "Progress | None" = python_only(None, repr=False)


@declares
class JudgeOptions(_ModelOptions):
    """What is judged, by which judge, and within which limits: see `help(capeval.judge)`.

    Parameters
    ----------
    captions : A captions file, a run's name or folder, `{index: caption}`, or `Caption`s.
    annotations : Annotations (JSON or JSONL); 'sample' for the bundled ones.
    run : Name of the run that a captions file becomes. Default: the file's stem.
    judge : A chat model; 'lexical', the baseline that only compares words; or the judge of an
        installed package. Default: gpt-4o-2024-08-06, or the endpoint's only model.
    base_url : An OpenAI-compatible endpoint, such as http://localhost:8000/v1. Default:
        OPENAI_BASE_URL.
    prompts : A packaged prompt set, or a folder with one.
    repeats : Judge each caption this many times; the majority label counts.
    seed : Seed of the bootstrap.
    """

    captions: "Captions" = required(typed=False)
    annotations: "Annotations | None" = option(
        None,
        note="Or `Annotation`s. A run knows its own.",
        kind=str | None,
        panel=INPUTS,
        metavar="FILE",
    )
    _: KW_ONLY
    run: str | None = option(
        None, note="Captions in memory are stored only if it is given.", panel=INPUTS
    )
    ignore_unknown: bool = ignore_unknown_option(panel=INPUTS)
    judge: "str | Judge | None" = option(
        None, note="Or a `Judge` of your own.", kind=str | None, panel=JUDGE
    )
    base_url: str | None = option(None, panel=JUDGE)
    prompts: FilePath = option("tuna-cap-v1", kind=str, panel=JUDGE)
    repeats: int = option(1, panel=JUDGE, min=1, max=100)
    seed: int = option(0, panel=OUTPUT, min=0)


@declares
class GenerateOptions(_ModelOptions):
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
    """

    model: "str | Captioner | SimpleCaptioner | None" = option(
        None, note="Or a `Captioner` of your own.", kind=str | None, panel=MODEL
    )
    annotations: FilePath | None = option(None, kind=str | None, panel=INPUTS, metavar="FILE")
    _: KW_ONLY
    base_url: str | None = option(None, panel=MODEL)
    prompt: FilePath | None = option(None, kind=str | None, panel=MODEL, metavar="FILE")
    max_new_tokens: int | None = option(None, panel=MODEL, min=1)
    batch_size: int | Literal["auto"] = option("auto", kind=str, panel=MODEL)
    device: str | None = option(None, panel=MODEL)
    videos: FilePath | None = option(None, kind=str | None, panel=INPUTS, metavar="DIR")
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
