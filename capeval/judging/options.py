"""The options of judging."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from capeval.options import ENDPOINT, INPUTS, JUDGE, LIMIT, LIMITS, MAX_COST, ONLY, OUTPUT, option

if TYPE_CHECKING:
    from capeval.judging.protocol import Judge
    from capeval.llm import ChatClient
    from capeval.runs.engine import Progress
    from capeval.schema import Annotation, Caption

DEFAULT_PROMPTS = "tuna-cap-v1"


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

    captions: str | Path | Mapping[str, str] | Sequence[Caption]
    annotations: str | Path | Sequence[Annotation] | None = option(
        "Annotations (JSON or JSONL); 'sample' for the bundled ones.", INPUTS, metavar="FILE"
    )
    _: KW_ONLY
    run: str | None = option(
        "Name of the run that a captions file becomes. Default: the file's stem.", INPUTS
    )
    only: Collection[str] = option(ONLY, INPUTS, (), list[str] | None, metavar="INDEX")
    limit: int | None = option(LIMIT, INPUTS, None, int | None, min=1)
    ignore_unknown: bool = option(
        "Skip captions whose index is not in the annotations.",
        INPUTS,
        False,
        flag="--ignore-unknown",
    )
    judge: str | Judge | None = option(
        "A chat model; 'lexical', the baseline that only compares words; or the judge of an "
        "installed package. Default: gpt-4o-2024-08-06, or the endpoint's only model.",
        JUDGE,
    )
    base_url: str | None = option(f"{ENDPOINT}. Default: OPENAI_BASE_URL.", JUDGE)
    prompts: str | Path = option(
        "A packaged prompt set, or a folder with one.", JUDGE, DEFAULT_PROMPTS
    )
    repeats: int = option(
        "Judge each caption this many times; the majority label counts.", JUDGE, 1, min=1, max=100
    )
    max_concurrency: int = option("Calls at a time.", LIMITS, 64, min=1, max=4096)
    timeout: float = option("Seconds for one call.", LIMITS, 120.0, min=0.1, max=86_400)
    max_cost: float | None = option(MAX_COST, LIMITS, None, float | None, min=0.0)
    seed: int = option("Seed of the bootstrap.", OUTPUT, 0, min=0)
    api_key: str | None = field(default=None, repr=False)
    runs: str | Path = "runs"
    cache: str | Path | None = None
    client: ChatClient | None = field(default=None, repr=False)
    progress: Progress | None = field(default=None, repr=False)
