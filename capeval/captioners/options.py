"""The options of a model that captions videos or answers questions about them."""

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, ClassVar, Literal

from capeval.llm.client import ServeOptions
from capeval.options import (
    LIMITS,
    MODEL,
    ModelOptions,
    Rule,
    declares,
    frames_option,
    in_file,
    option,
    python_only,
)

if TYPE_CHECKING:
    from capeval.captioners.protocol import Captioner, SimpleCaptioner
    from capeval.runs.engine import Progress
    from capeval.video import FrameReader


@declares
class CaptionerOptions(ServeOptions, ModelOptions):
    """The model, and how it is run.

    Parameters
    ----------
    model : A model that `capeval models` lists, hf:ORG/NAME, a folder such as ./ours, or the
        server's name for it.
    base_url : An OpenAI-compatible server.
    max_new_tokens : The longest reply, in tokens. By default 1024 for most models.
    temperature : Above 0, replies are sampled. By default 0 for most models.
    batch_size : Videos at a time on a GPU.
    device : cuda, cuda:1, mps or cpu. By default the best.
    seed : The seed of sampling, for models that run in this process.
    progress : Receives the status after every video.
    """

    model: "str | Captioner | SimpleCaptioner | None" = option(
        None, note="Or a `Captioner` of your own.", method="caption", panel=MODEL, metavar="NAME"
    )
    _: KW_ONLY
    base_url: str | None = option(None, panel=MODEL, metavar="URL")
    serve: bool = option(False, panel=MODEL)
    gpus: int | None = option(None, panel=MODEL, metavar="N", min=1)
    max_new_tokens: int | None = option(None, panel=MODEL, metavar="N", min=1)
    temperature: float | None = option(None, panel=MODEL, metavar="T", min=0, max=5)
    batch_size: int | Literal["auto"] = option("auto", panel=MODEL, metavar="N", min=1, max=4096)
    device: str | None = option(None, panel=MODEL, metavar="NAME")
    seed: int = option(0, panel=MODEL, metavar="N", min=0)
    max_concurrency: int = option(32, panel=LIMITS, metavar="N", min=1, max=4096)
    timeout: float = in_file(300.0, min=0.1, max=86_400)
    progress: "Progress | None" = python_only(None, method="update", shown=False)


@declares
class FramesOptions(CaptionerOptions):
    """The model and the frames that it sees: common to captions and answers.

    Parameters
    ----------
    decoder : pyav, or the papers' decord.
    ray : A Ray cluster's address; local starts one.
    """

    rules: ClassVar = (
        *CaptionerOptions.rules,
        Rule("ray", "serve", "--ray and --serve exclude each other; choose one"),
    )

    _: KW_ONLY
    frames: "str | int | FrameReader | None" = frames_option()
    decoder: str = in_file("pyav")
    ray: str | None = option(None, panel=MODEL, metavar="ADDRESS")
