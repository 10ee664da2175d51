"""The options of judging."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING

from capeval.options import (
    INPUTS,
    JUDGE,
    OUTPUT,
    ModelOptions,
    declares,
    option,
    python_only,
    required,
)

if TYPE_CHECKING:
    from capeval.judging.protocol import Judge
    from capeval.llm import ChatClient
    from capeval.runs.engine import Progress
    from capeval.schema import Annotation, Caption

DEFAULT_PROMPTS = "tuna-cap-v2"


@declares
class JudgeOptions(ModelOptions):
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
    explain : Ask for one line of reasoning per element, which `inspect` shows. It counts as another
        judge.
    repeats : Judge each caption this many times; the majority label counts.
    seed : Seed of the bootstrap.
    client : Replaces the network, for tests and recordings.
    progress : Receives the status after every video.
    """

    captions: "str | Path | Mapping[str, str] | Sequence[Caption]" = required(typed=False)
    annotations: "str | Path | Sequence[Annotation] | None" = option(
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
    ignore_unknown: bool = option(
        False, "Skip captions whose index is not in the annotations.", panel=INPUTS
    )
    judge: "str | Judge | None" = option(
        None, note="Or a `Judge` of your own.", kind=str | None, panel=JUDGE
    )
    base_url: str | None = option(None, panel=JUDGE)
    prompts: str | Path = option(DEFAULT_PROMPTS, kind=str, panel=JUDGE)
    explain: bool = option(False, panel=JUDGE)
    repeats: int = option(1, panel=JUDGE, min=1, max=100)
    seed: int = option(0, panel=OUTPUT, min=0)
    client: "ChatClient | None" = python_only(None, repr=False)
    progress: "Progress | None" = python_only(None, repr=False)
