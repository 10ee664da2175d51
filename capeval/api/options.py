"""The options of judging and generating, declared once for Python and for the command line.

Each field is an argument of the Python function. A field declared with `option` is an option of the
command as well; its help text describes both.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Coroutine
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

if TYPE_CHECKING:
    from capeval.api.judging import Captions
    from capeval.api.scoring import Annotations
    from capeval.captioners.images import ImageKind
    from capeval.captioners.protocol import Captioner, SimpleCaptioner
    from capeval.judging.protocol import Judge
    from capeval.llm import ChatClient
    from capeval.runs.engine import Progress
    from capeval.video import FrameReader

INPUTS, LIMITS, OUTPUT = "Inputs", "Limits", "Output"
JUDGE, MODEL, FRAMES, MACHINES = "Judge", "Model", "Frames", "Several machines"

P = ParamSpec("P")
OptionsT = TypeVar("OptionsT")
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """How the command line takes a field.

    `kind` is the type that typer parses, `flag` the option's name where it is not the field's, and
    `settings` are further arguments of `typer.Option`.
    """

    kind: Any
    help: str
    panel: str
    flag: str | None
    settings: dict[str, Any]


def option(
    default: T, kind: Any, text: str, *, panel: str, flag: str | None = None, **settings: Any
) -> T:
    """Declare a field that is an option of the command too."""
    metadata = {"option": Option(kind, text, panel, flag, settings)}
    found: T = field(default=default, metadata=metadata)
    return found


def options_of(options: type) -> dict[str, tuple[Option, Any]]:
    """Return the command's options by field, each with its default."""
    return {
        one.name: (one.metadata["option"], one.default)
        for one in dataclasses.fields(options)
        if "option" in one.metadata
    }


def takes(
    options: Callable[P, OptionsT],
) -> Callable[[Callable[[OptionsT], Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
    """Give a function of one options object the arguments of that object's class.

    Type checkers and `help()` show the fields of the class as the parameters of the function.
    """

    def decorate(
        work: Callable[[OptionsT], Coroutine[Any, Any, R]],
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        @functools.wraps(work)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await work(options(*args, **kwargs))

        call.__signature__ = inspect.signature(options)  # type: ignore[attr-defined]
        return call

    return decorate


_ONLY = "Only these indexes (repeat, or separate by commas)."
_LIMIT = "Only the first N."
_ENDPOINT = "An OpenAI-compatible endpoint, such as http://localhost:8000/v1"
_MAX_COST = "Stop calling after this many US dollars; implies --yes."


@dataclass(frozen=True)
class JudgeOptions:
    """What is judged, by which judge, and within which limits.

    Besides the options of the command:

    Parameters
    ----------
    captions : a captions file, a run's name or folder, `{index: caption}`, or `Caption`s
    annotations : their file, `"sample"`, or `Annotation`s; a run knows its own
    judge : may be a `Judge` of your own
    run : the run's name under `runs`; captions in memory are stored only if it is given
    api_key : of the endpoint; else from OPENAI_API_KEY
    cache : SQLite file of replies; by default in the user's cache folder
    client : replaces the network, for tests and recordings
    progress : is shown the status after every caption
    """

    captions: Captions
    annotations: Annotations | None = option(
        None,
        str | None,
        "Annotations (JSON or JSONL); 'sample' for the bundled ones.",
        panel=INPUTS,
        metavar="FILE",
    )
    _: KW_ONLY
    run: str | None = option(
        None,
        str | None,
        "Name of the run that a captions file becomes. Default: the file's stem.",
        panel=INPUTS,
    )
    only: Collection[str] = option((), list[str] | None, _ONLY, panel=INPUTS, metavar="INDEX")
    limit: int | None = option(None, int | None, _LIMIT, panel=INPUTS, min=1)
    ignore_unknown: bool = option(
        False,
        bool,
        "Skip captions whose index is not in the annotations.",
        panel=INPUTS,
        flag="--ignore-unknown",
    )
    judge: str | Judge | None = option(
        None,
        str | None,
        "A chat model; 'lexical', the baseline that only compares words; or the judge of an "
        "installed package. Default: gpt-4o-2024-08-06, or the endpoint's only model.",
        panel=JUDGE,
    )
    base_url: str | None = option(
        None, str | None, f"{_ENDPOINT}. Default: OPENAI_BASE_URL.", panel=JUDGE
    )
    prompts: str | Path = option(
        "tuna-cap-v1", str, "A packaged prompt set, or a folder with one.", panel=JUDGE
    )
    repeats: int = option(
        1,
        int,
        "Judge each caption this many times; the majority label counts.",
        panel=JUDGE,
        min=1,
        max=100,
    )
    max_concurrency: int = option(64, int, "Calls at a time.", panel=LIMITS, min=1, max=4096)
    timeout: float = option(
        120.0, float, "Seconds for one call.", panel=LIMITS, min=0.1, max=86_400
    )
    max_cost: float | None = option(None, float | None, _MAX_COST, panel=LIMITS, min=0.0)
    seed: int = option(0, int, "Seed of the bootstrap.", panel=OUTPUT, min=0)
    api_key: str | None = field(default=None, repr=False)
    runs: str | Path = "runs"
    cache: str | Path | None = None
    client: ChatClient | None = field(default=None, repr=False)
    progress: Progress | None = field(default=None, repr=False)


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
        None,
        str | None,
        "A model of the catalogue, hf:ORG/NAME, or a server's name for its model.",
        panel=MODEL,
    )
    annotations: str | Path | None = option(
        None,
        str | None,
        "Annotations (JSON or JSONL) that list the videos. Default: the bundled sample.",
        panel=INPUTS,
        metavar="FILE",
    )
    _: KW_ONLY
    base_url: str | None = option(None, str | None, f"{_ENDPOINT}.", panel=MODEL)
    prompt: str | Path | None = option(
        None,
        str | None,
        "The prompt for every video. Default: the annotations' question where they have one, "
        "else tuna-cap-v1.",
        panel=MODEL,
        metavar="FILE",
    )
    max_new_tokens: int | None = option(
        None,
        int | None,
        "Tokens a caption may have. Default: the catalogue's, 1024 for most.",
        panel=MODEL,
        min=1,
    )
    batch_size: int | Literal["auto"] = option(
        "auto", str, "Videos at a time on a device: a number or auto.", panel=MODEL
    )
    device: str | None = option(
        None, str | None, "cuda, mps or cpu. Default: the best available.", panel=MODEL
    )
    videos: str | Path | None = option(
        None,
        str | None,
        "Folder of the videos. Default: videos/ beside the annotations, else that folder.",
        panel=INPUTS,
        metavar="DIR",
    )
    run: str | None = option(
        None, str | None, "Name of the run. Default: the model's.", panel=INPUTS
    )
    only: Collection[str] = option((), list[str] | None, _ONLY, panel=INPUTS, metavar="INDEX")
    limit: int | None = option(None, int | None, _LIMIT, panel=INPUTS, min=1)
    frames: str | FrameReader | None = option(
        None,
        str | None,
        "32 spread evenly, 2fps, or auto (2 a second below 16 s, else 1). "
        "Default: the catalogue's.",
        panel=FRAMES,
    )
    decoder: str = option("pyav", str, "pyav or decord.", panel=FRAMES)
    shuffle: int | None = None
    images: ImageKind | None = option(
        None,
        str | None,
        "How an endpoint gets frames: jpeg, png, or video (a list of JPEGs, for vLLM). "
        "Default: the catalogue's, jpeg for most.",
        panel=FRAMES,
    )
    jpeg_quality: int = option(90, int, "Quality of JPEGs.", panel=FRAMES, min=1, max=100)
    max_side: int | None = option(
        None,
        int | None,
        "Shrink frames for an endpoint to this many pixels. Default: not shrunk.",
        panel=FRAMES,
        min=16,
    )
    shard: str | None = option(
        None,
        str | None,
        "Do part I of N; the last part to finish merges all.",
        panel=MACHINES,
        metavar="I/N",
    )
    merge: bool = option(
        False,
        bool,
        "Merge the shards of --run that exist, and stop.",
        panel=MACHINES,
        flag="--merge",
    )
    max_concurrency: int = option(32, int, "Calls at a time.", panel=LIMITS, min=1, max=4096)
    timeout: float = option(
        300.0, float, "Seconds for one call.", panel=LIMITS, min=0.1, max=86_400
    )
    max_cost: float | None = option(None, float | None, _MAX_COST, panel=LIMITS, min=0.0)
    api_key: str | None = field(default=None, repr=False)
    runs: str | Path = "runs"
    cache: str | Path | None = None
    client: ChatClient | None = field(default=None, repr=False)
    progress: Progress | None = field(default=None, repr=False)
