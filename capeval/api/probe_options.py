"""The options of `capeval probe`."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Union

from capeval.api import Notices, ignore
from capeval.judging.options import DEFAULT_PROMPTS
from capeval.options import (
    INPUTS,
    JUDGE,
    LIMITS,
    OUTPUT,
    declares,
    option,
    python_only,
)

if TYPE_CHECKING:
    from capeval.judging.protocol import Judge
    from capeval.llm.types import ChatClient
    from capeval.runs.engine import Progress
    from capeval.schema import Annotation


@declares
class ProbeOptions:
    """The arguments of `capeval.probe`.

    Parameters
    ----------
    annotations : Annotations (JSON or JSONL) to build probes of, or 'sample' for the bundled ones.
    judge : A judge to probe, as in `capeval judge`: a chat model, nli or nli:MODEL, 'lexical', or
        the judge of an installed package.
    videos : How many videos to build probes of, or all if there are fewer. The card says how many
        are needed.
    seed : The seed of the videos and of the probes. With more videos of the same seed, earlier
        verdicts are kept.
    base_url : An OpenAI-compatible endpoint, such as http://localhost:8000/v1. By default
        OPENAI_BASE_URL.
    prompts : A packaged prompt set, or a folder with one.
    explain : Ask for one line of reasoning per element. It counts as another judge.
    reasoning : How much a chat model reasons, as in `capeval judge`. Each effort counts as another
        judge.
    device : Where the model of nli runs, as in `capeval judge`.
    dtype : The precision of nli, as in `capeval judge`. Each counts as another judge.
    revision : A commit, tag or branch of the model of nli on the hub.
    repeats : Judge each caption this many times, as in `capeval judge`; the majority label counts.
    fail_under : The least headline, in percent; with less, the command exits with 4.
    runs : The folder of the runs. Cards are kept in probes/ next to it.
    max_concurrency : Calls at a time.
    timeout : Seconds for one call.
    max_cost : Stop calling after this many US dollars; a command then asks no question.
    out : Write the result to this file.
    api_key : Of the endpoint. By default OPENAI_API_KEY, or the variable that the catalogue names.
    cache : SQLite file of replies. By default in the user's cache folder.
    client : Replaces the network, for tests and recordings.
    progress : Receives the status after every caption.
    on_notice : Called with one line for everything that is no error, such as verdicts on other
        probes that are removed.
    """

    annotations: "str | Path | Sequence[Annotation]" = option(
        "sample", note="Or `Annotation`s.", positional=True, metavar="ANNOTATIONS"
    )
    _: KW_ONLY
    judge: Union[Sequence["str | Judge"], "Judge"] = option(
        (),
        note="Or a `Judge` of your own.",
        method="judge",
        kind=list[str] | None,
        panel=JUDGE,
        metavar="NAME",
    )
    # Enough for verbatim captions within 3 points, and for a first look at everything else.
    videos: int = option(40, panel=INPUTS, metavar="N", min=1)
    seed: int = option(0, panel=INPUTS, metavar="N", min=0)
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
    repeats: int = option(1, panel=JUDGE, metavar="N", min=1, max=100)
    # A fraction such as 0.9 would be a gate that nothing fails.
    fail_under: float | None = option(None, panel=LIMITS, metavar="PERCENT", min=1, max=100)
    runs: str | Path = option("runs", panel=INPUTS, metavar="DIR")
    max_concurrency: int = option(64, panel=LIMITS, metavar="N", min=1, max=4096)
    timeout: float = option(120.0, panel=LIMITS, metavar="SECONDS", min=0.1, max=86_400)
    max_cost: float | None = option(None, panel=LIMITS, metavar="DOLLARS", min=0)
    out: str | Path | None = option(None, panel=OUTPUT, metavar="FILE")
    api_key: str | None = python_only(None, shown=False)
    cache: str | Path | None = python_only(None)
    client: "ChatClient | None" = python_only(None, method="complete", shown=False)
    progress: "Progress | None" = python_only(None, method="update", shown=False)
    on_notice: Notices = python_only(ignore, shown=False)
