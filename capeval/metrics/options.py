"""The options of `capeval metrics`; what concerns one metric alone is in `capeval.toml`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING

from capeval.llm.types import ChatOptions
from capeval.options import (
    INPUTS,
    JUDGE,
    LIMITS,
    OUTPUT,
    ModelOptions,
    columns_option,
    declares,
    option,
    python_only,
)

if TYPE_CHECKING:
    from capeval.runs.engine import Progress


@declares
class MetricsOptions(ChatOptions, ModelOptions):
    """What is measured, with which metrics, and within which limits: see `help(capeval.measure)`.

    Parameters
    ----------
    captions : Runs, or captions files of annotated videos, which become runs. By default every
        run, or the sample.
    metric : Metrics. By default the controls, unigram-f1 and length.
    annotations : Annotations: a file, 'tuna' or 'sample'. By default the run's own.
    candidates : Captions of videos without annotations.
    references : Reference captions, for --candidates.
    columns : The columns of captions: index=clip,caption=text.
    system : Who wrote the candidates. By default the file's stem, or the model that its lines name.
    out : By default metrics.jsonl in the run; with --candidates, in the working folder.
    judge : The chat model of metrics such as clair. By default gpt-4o-2024-08-06, or the server's
        only model.
    device : Where local models run: cuda, cuda:1, mps or cpu. By default the best.
    progress : Receives the status after every caption.
    """

    captions: Sequence[str | Path] = option((), positional=True, metavar="RUN")
    _: KW_ONLY
    metric: Sequence[str] = option((), panel=INPUTS, metavar="NAME", commas=True)
    annotations: str | Path | None = option(None, panel=INPUTS, metavar="FILE")
    candidates: Sequence[str | Path] | Mapping[str, str] = option(
        (),
        note="Or a dict of captions by index.",
        kind=list[str] | None,
        panel=INPUTS,
        metavar="FILE",
    )
    references: str | Path | Mapping[str, str | Sequence[str]] | None = option(
        None,
        note="Or a dict of texts, or lists of texts, by index.",
        kind=str | None,
        panel=INPUTS,
        metavar="FILE",
    )
    system: str | None = option(None, panel=INPUTS, metavar="NAME")
    columns: Mapping[str, str] | None = columns_option(panel=INPUTS)
    ignore_unknown: bool = option(False, "Skip captions of other videos.", panel=INPUTS)
    out: str | Path | None = option(None, panel=OUTPUT, metavar="FILE")
    only: Collection[str] = python_only(())
    timeout: float = option(120.0, panel=LIMITS, metavar="S", min=0.1, max=86_400)
    device: str | None = option(None, panel=JUDGE, metavar="NAME")
    progress: "Progress | None" = python_only(None, method="update", shown=False)
