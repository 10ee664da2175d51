"""The options of VDCscore."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Any

from capeval.options import INPUTS, declares, option


@declares
class VdcscoreOptions:
    """The options of VDCscore: see `help(capeval.measure)`.

    Parameters
    ----------
    qa : VDCscore: the questions about each video with their correct answers, as VDC publishes them,
        or JSON lines of index and questions.
    """

    _: KW_ONLY
    qa: "str | Path | Mapping[str, Sequence[Mapping[str, Any]]] | None" = option(
        None,
        note="Or a dict of lists of questions, by index.",
        kind=str | None,
        panel=INPUTS,
        metavar="FILE",
    )
