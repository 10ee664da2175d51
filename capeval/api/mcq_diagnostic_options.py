"""The options of the command that compares graded runs of multiple-choice questions."""

from dataclasses import KW_ONLY
from functools import partial

from capeval.api import FilePath
from capeval.api.run_options import runs_option
from capeval.options import INPUTS, OUTPUT, declares, option, python_only

_role = partial(option, None, panel=INPUTS, metavar="RUN")


@declares
class McqTemporalOptions:
    """The arguments of `capeval.mcq_temporal`; a run is a name, a folder or a grades.json.

    Parameters
    ----------
    multi : The run with many frames, in order.
    single : The run with a single frame, at random or the first.
    picked : The run with a frame picked for each question.
    shuffled : The run with the same many frames, shuffled.
    by : Group questions by this tag. By default task (TUNA-MCQ), reasoning_type (TOMATO) or
        task_type (Video-MME).
    resamples : Bootstrap resamples of videos.
    seed : The seed of the resamples.
    out : Write the result to this file, in the format of its suffix: .csv, .json, .md, .tex or
        .txt.
    """

    _: KW_ONLY
    multi: FilePath | None = _role()
    single: FilePath | None = _role()
    picked: FilePath | None = _role()
    shuffled: FilePath | None = _role()
    by: str | None = option(None, metavar="TAG")
    # With fewer, the ends of a 95% interval would be single resamples.
    resamples: int = python_only(10_000, min=99)
    seed: int = python_only(0, min=0)
    out: FilePath | None = option(None, panel=OUTPUT, metavar="FILE")
    runs: FilePath = runs_option()
