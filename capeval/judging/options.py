"""The options of judging."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from capeval.options import (
    INPUTS,
    JUDGE,
    CallOptions,
    ModelOptions,
    declares,
    option,
    python_only,
    required,
)

if TYPE_CHECKING:
    from capeval.judging.protocol import Judge
    from capeval.llm.types import ChatClient
    from capeval.runs.engine import Progress
    from capeval.schema import Annotation, Caption

DEFAULT_PROMPTS = "tuna-cap-v1"
MODELS_OWN = "default"
"""The reasoning effort that sends nothing."""


def _ignore(_notice: str) -> None:
    pass


@declares
class JudgingOptions(CallOptions):
    """Which judge judges, and within which limits.

    Parameters
    ----------
    judge : A chat model; nli or nli:MODEL, a model of natural-language inference in this process;
        'lexical', the baseline that only compares words; or the judge of an installed package. By
        default gpt-4o-2024-08-06, or the endpoint's only model. `capeval
        judges` lists chat models.
    base_url : An OpenAI-compatible endpoint, such as http://localhost:8000/v1. By default
        OPENAI_BASE_URL.
    prompts : A packaged prompt set, or a folder with one.
    explain : Ask for one line of reasoning per element, which `inspect` shows. It counts as another
        judge.
    reasoning : How much the model reasons: none, minimal, low, medium, high, xhigh, max, or default
        for the model's own default. Without it, a model that takes no temperature while it reasons
        is asked not to reason, if it can be. Each effort counts as another judge.
    repeats : Judge each caption this many times; the majority label counts. More can be added
        later. By default as often as this judge was last asked to judge the run, or once.
    device : Where the model of nli runs: cuda, one GPU such as cuda:1, mps or cpu. By default the
        best available.
    dtype : The precision of nli: auto, bfloat16, float16 or float32. By default auto, which is
        bfloat16 where the device has instructions for it, else float32. Each counts as another
        judge.
    revision : A commit, tag or branch of the model of nli on the hub. By default the newest.
    client : Replaces the network, for tests and recordings.
    progress : Receives the status after every video.
    on_notice : Called with one line for each notice, such as that a judge is retired soon.
    """

    _: KW_ONLY
    judge: "str | Judge | None" = option(
        None, note="Or a `Judge` of your own.", method="judge", panel=JUDGE, metavar="NAME"
    )
    base_url: str | None = option(None, panel=JUDGE, metavar="URL")
    prompts: str | Path = option(DEFAULT_PROMPTS, panel=JUDGE, metavar="NAME")
    explain: bool = option(False, panel=JUDGE)
    reasoning: (
        Literal["default", "none", "minimal", "low", "medium", "high", "xhigh", "max"] | None
    ) = option(None, panel=JUDGE, metavar="EFFORT")
    device: str | None = option(None, panel=JUDGE, metavar="NAME")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = option(
        None, panel=JUDGE, metavar="NAME"
    )
    revision: str | None = option(None, panel=JUDGE, metavar="NAME")
    repeats: int | None = option(None, panel=JUDGE, metavar="N", min=1, max=100)
    client: "ChatClient | None" = python_only(None, method="complete", shown=False)
    progress: "Progress | None" = python_only(None, method="update", shown=False)
    on_notice: Callable[[str], None] = python_only(_ignore, shown=False)


@declares
class JudgeOptions(JudgingOptions, ModelOptions):
    """What is judged, by which judge, and within which limits: see `help(capeval.judge)`.

    Parameters
    ----------
    captions : A captions file, a run's name or folder, `{index: caption}`, or `Caption`s.
    annotations : Annotations (JSON or JSONL), or 'sample' for the bundled ones. By default those
        that a run names.
    run : The name of the run that a captions file becomes. By default the file's stem.
    """

    captions: "str | Path | Mapping[str, str] | Sequence[Caption]" = required(typed=False)
    annotations: "str | Path | Sequence[Annotation] | None" = option(
        None, note="Or `Annotation`s.", panel=INPUTS, metavar="FILE"
    )
    _: KW_ONLY
    run: str | None = option(
        None,
        note="Captions in memory are stored only if it is given.",
        panel=INPUTS,
        metavar="NAME",
    )
    ignore_unknown: bool = option(
        False, "Skip captions of videos without an annotation.", panel=INPUTS
    )
