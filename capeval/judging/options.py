"""The options of judging."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capeval.llm.types import EndpointOptions
from capeval.options import (
    INPUTS,
    JUDGE,
    LIMITS,
    Effort,
    FilePath,
    ModelOptions,
    columns_option,
    declares,
    ignore,
    option,
    python_only,
    required,
)

if TYPE_CHECKING:
    from capeval.judging.protocol import Judge
    from capeval.runs.engine import Progress
    from capeval.schema import Annotation, Caption

DEFAULT_PROMPTS = "tuna-cap-v1"
MODELS_OWN = "default"
"""The reasoning effort that sends nothing."""


@declares
class JudgingOptions(EndpointOptions):
    """Which judge judges, and within which limits.

    Parameters
    ----------
    judge : A chat model (docs/judging.md lists some); lexical, which only compares words; or a
        judge of an installed package. By default gpt-4o-2024-08-06, or the server's only model.
    prompts : A prompt set, a folder with one, or tuna:CHECKOUT.
    explain : Ask for reasons, which `inspect` shows. Counts as another judge.
    reasoning : none, minimal, low, medium, high, xhigh, max, or default (the model's own). Each
        counts as another judge. By default the least, where it is known.
    repeats : Judge each caption N times; the majority counts. By default as often as before, or
        once.
    progress : Receives the status after every video.
    on_notice : Called with one line for each notice, such as that a judge is retired soon.
    """

    _: KW_ONLY
    judge: "str | Judge | None" = option(
        None, note="Or a `Judge` of your own.", method="judge", panel=JUDGE, metavar="NAME"
    )
    prompts: str | Path = option(DEFAULT_PROMPTS, panel=JUDGE, metavar="NAME")
    explain: bool = option(False, panel=JUDGE)
    reasoning: Effort | None = option(None, panel=JUDGE, metavar="EFFORT")
    repeats: int | None = option(None, panel=JUDGE, metavar="N", min=1, max=100)
    progress: "Progress | None" = python_only(None, method="update", shown=False)
    on_notice: Callable[[str], None] = python_only(ignore, shown=False)


@declares
class RunOptions(JudgingOptions, ModelOptions):
    """Which runs or captions are judged, besides their names.

    Parameters
    ----------
    annotations : A file, tuna or sample. By default the run's.
    run : The captions file's run. By default its stem.
    columns : The columns of captions: index=clip,caption=text.
    """

    annotations: "str | Path | Sequence[Annotation | Mapping[str, Any]] | None" = option(
        None, note="Or `Annotation`s, or dicts.", panel=INPUTS, metavar="FILE"
    )
    _: KW_ONLY
    run: str | None = option(
        None,
        note="Captions in memory are stored only if it is given.",
        panel=INPUTS,
        metavar="NAME",
    )
    columns: Mapping[str, str] | None = columns_option(panel=INPUTS)
    ignore_unknown: bool = option(False, "Skip captions without an annotation.", panel=INPUTS)
    timeout: float = option(120.0, panel=LIMITS, metavar="S", min=0.1, max=86_400)


@declares
class _Captions:
    captions: "str | Path | Mapping[str, str] | Sequence[Caption]" = required(typed=False)


@declares
class JudgeOptions(RunOptions, _Captions):
    """What is judged, by which judge, and within which limits: see `help(capeval.judge)`.

    Parameters
    ----------
    captions : A captions file, a run's name or folder, `{index: caption}`, or `Caption`s.
    """


@declares
class JudgeCommandOptions(RunOptions):
    """The options of `capeval judge`."""

    targets: Sequence[FilePath] = option(
        (),
        "Runs, or captions files. By default every run, or the sample.",
        positional=True,
        metavar="RUN",
    )
