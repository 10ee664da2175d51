"""The options of `capeval probe`."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING

from capeval.judging.options import JudgingOptions
from capeval.options import INPUTS, OUTPUT, declares, option, python_only

if TYPE_CHECKING:
    from capeval.schema import Annotation


@declares
class ProbeOptions(JudgingOptions):
    """The arguments of `capeval.probe`.

    Parameters
    ----------
    annotations : Annotations (JSON or JSONL) to build probes of, or 'sample' for the bundled ones.
    count : How many videos to build probes of, or all if there are fewer.
    seed : The seed of the videos and of the probes. With more videos of the same seed, the probes
        of fewer stay the same.
    run : The name of the run that the probes become. By default the stem of the annotations' file.
    runs : The folder of this run. It is not that of other runs, so that no leaderboard ranks it.
    only_build : Write captions.jsonl, annotations.jsonl and labels.csv, and judge nothing.
    out : Write the result to this file, in the format of its suffix: .csv, .json, .md, .tex or
        .txt.
    """

    annotations: "str | Path | Sequence[Annotation]" = option(
        "sample", note="Or `Annotation`s.", positional=True, metavar="ANNOTATIONS"
    )
    _: KW_ONLY
    count: int = option(40, panel=INPUTS, metavar="N", min=1)
    seed: int = option(0, panel=INPUTS, metavar="N", min=0)
    run: str | None = option(None, panel=INPUTS, metavar="NAME")
    runs: str | Path = python_only("probes")
    only_build: bool = option(False, panel=OUTPUT)
    out: str | Path | None = option(None, panel=OUTPUT, metavar="FILE")
