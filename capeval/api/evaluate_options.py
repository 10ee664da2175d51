"""The options of `capeval.evaluate`."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

from capeval.api import FilePath, Notices, ignore
from capeval.options import INPUTS, JUDGE, LIMITS, MODEL, declares, option, python_only, required

if TYPE_CHECKING:
    from capeval.runs.engine import Progress


@declares
class EvaluateOptions:
    """The arguments of `capeval.evaluate`.

    Parameters
    ----------
    targets : Models as `capeval generate --model` takes them, runs, or captions files.
    annotations : A file, tuna or sample. By default the run's; of a new run the sample.
    videos : Their folder. By default videos/ next to the annotations.
    limit : Only the first N videos.
    model_url : An OpenAI-compatible server of the models; several share the calls.
    serve : Start each model's server, then end it.
    judge : As in `capeval judge`.
    judge_url : An OpenAI-compatible server of the judge; several share the calls.
    max_cost : Spend at most this in all, without asking.
    generating : Further arguments of `capeval.generate`.
    judging : Further arguments of `capeval.judge`.
    reporting : Further arguments of `capeval.report`.
    runs : The folder of the runs.
    progress : Receives the status after every video.
    on_notice : Called with one line for each notice.
    """

    targets: Sequence[FilePath] = required(positional=True, metavar="MODEL")
    annotations: FilePath | None = option(None, panel=INPUTS, metavar="FILE")
    _: KW_ONLY
    videos: FilePath | None = option(None, panel=INPUTS, metavar="DIR")
    limit: int | None = option(None, panel=INPUTS, metavar="N", min=1)
    model_url: Sequence[str] | None = option(None, panel=MODEL, metavar="URL")
    serve: bool = option(False, panel=MODEL)
    judge: str | None = option(None, panel=JUDGE, metavar="NAME")
    judge_url: Sequence[str] | None = option(None, panel=JUDGE, metavar="URL")
    max_cost: float | None = option(None, panel=LIMITS, metavar="USD", min=0)
    generating: Mapping[str, Any] | None = python_only(None)
    judging: Mapping[str, Any] | None = python_only(None)
    reporting: Mapping[str, Any] | None = python_only(None)
    runs: FilePath = python_only("runs")
    progress: "Progress | None" = python_only(None, method="update", shown=False)
    on_notice: Notices = python_only(ignore, shown=False)
