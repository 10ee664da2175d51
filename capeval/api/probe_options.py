"""The options of `capeval probe`."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capeval.judging.options import JudgingOptions
from capeval.options import INPUTS, LIMITS, OUTPUT, declares, option, python_only

if TYPE_CHECKING:
    from capeval.schema import Annotation


@declares
class ProbeOptions(JudgingOptions):
    """The arguments of `capeval.probe`.

    Parameters
    ----------
    annotations : Annotations to build probes of, or 'sample' for the bundled ones.
    count : How many videos, or all if there are fewer.
    seed : The seed of videos and probes.
    run : The probes' run. By default the annotations' stem.
    runs : The folder of this run. It is not that of other runs, so that no leaderboard ranks it.
    out : Write the result to this file.
    """

    annotations: "str | Path | Sequence[Annotation | Mapping[str, Any]]" = option(
        "sample", note="Or `Annotation`s, or dicts.", positional=True, metavar="ANNOTATIONS"
    )
    _: KW_ONLY
    count: int = option(40, panel=INPUTS, metavar="N", min=1)
    seed: int = python_only(0, min=0)
    explain: bool = python_only(False)
    max_concurrency: int = python_only(64, min=1, max=4096)
    timeout: float = option(120.0, panel=LIMITS, metavar="S", min=0.1, max=86_400)
    run: str | None = option(None, panel=INPUTS, metavar="NAME")
    runs: str | Path = python_only("probes")
    out: str | Path | None = option(None, panel=OUTPUT, metavar="FILE")
