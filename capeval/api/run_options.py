"""The options of the commands that read runs, declared once for Python and for the command line."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from capeval.errors import UsageError
from capeval.options import (
    FRACTION,
    OUTPUT,
    FilePath,
    Notices,
    annotations_option,
    declares,
    human_columns,
    human_option,
    judge_option,
    judged_runs_argument,
    on_notice_option,
    option,
    out_option,
    python_only,
    required,
    resamples_option,
    runs_option,
    seed_option,
)

if TYPE_CHECKING:
    from capeval.runs.engine import Progress
    from capeval.schema import Annotation

T = TypeVar("T")


def check_has_human(columns: object, human: object) -> None:
    """Refuse names of columns without the human file that has them."""
    if columns and human is None:
        raise UsageError("--columns names columns of a human file; name the file with --human")


@declares
class CalibrateOptions:
    """The arguments of `capeval.calibrate`.

    Parameters
    ----------
    run : A judged run, a judge's folder, a judgments.jsonl, or a TUNA result file.
    labels : Labels of some captions: a file of human labels, or another judge's verdicts (a judged
        run, a judge's folder or a judgments.jsonl).
    out : Write the result to this file. By default calibrated.json beside the run's scores.json.
    """

    run: FilePath = required(positional=True, metavar="RUN")
    _: KW_ONLY
    labels: FilePath = required(metavar="FILE")
    columns: Mapping[str, str] | None = human_columns()
    judge: str | None = judge_option()
    annotations: "str | Path | Sequence[Annotation | Mapping[str, Any]] | None" = (
        annotations_option(note="Or `Annotation`s, or dicts.")
    )
    out: FilePath | None = option(None, panel=OUTPUT, metavar="FILE")
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


@declares
class CompareOptions:
    """The arguments of `capeval.compare`.

    Parameters
    ----------
    allow_mismatch : Compare runs that differ in judge, prompts, repeats or data, and say so.
    fail_under : The smallest difference to accept: f1=-0.5, action.recall=-1.
    min_coverage : How many annotated videos must be compared: a number, or a share such as 99%.
    resamples : Sign flips for p-values. By default 10,000.
    """

    judged_runs: Sequence[FilePath] = judged_runs_argument()
    _: KW_ONLY
    judge: str | None = judge_option()
    annotations: FilePath | None = annotations_option()
    allow_mismatch: bool = False
    fail_under: Sequence[str] = option((), metavar="MEASURE=POINTS")
    min_coverage: str | int | float | None = option(None, note=FRACTION, metavar="SHARE")
    # More need more memory than a CI machine has, and change no digit that is shown.
    resamples: int | None = resamples_option(max=100_000)
    seed: int = seed_option()
    out: FilePath | None = out_option()
    runs: FilePath = runs_option()


@declares
class ReportOptions:
    """The arguments of `capeval.report`.

    Parameters
    ----------
    frames : Frames of each video. By default 8, or none for more than 100 videos.
    videos : The folder of the videos. By default videos/ next to the annotations.
    embed : Put videos of up to 4 MB into the page, 100 MB in all; others are linked.
    track : Wraps the iterator over the videos' frames, given with its length, to show progress.
    """

    judged_runs: Sequence[FilePath] = judged_runs_argument()
    _: KW_ONLY
    out: FilePath | None = out_option()
    human: FilePath | None = human_option()
    columns: Mapping[str, str] | None = human_columns()
    frames: int | None = option(None, metavar="N", min=0, max=64)
    videos: FilePath | None = option(None, metavar="DIR")
    embed: bool = option(False)
    judge: str | None = judge_option()
    annotations: FilePath | None = annotations_option()
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()
    track: Callable[[Iterable[T], int], Iterable[T]] = python_only(lambda taken, _: taken)


@declares
class InspectOptions:
    """The arguments of `capeval.inspect`.

    Parameters
    ----------
    run : A judged run: its name under runs/, its folder, a judge's folder, or a judgments.jsonl.
    index : The video's index.
    """

    run: FilePath = required(positional=True, metavar="RUN")
    index: str = required(positional=True, metavar="VIDEO")
    _: KW_ONLY
    judge: str | None = judge_option()
    human: FilePath | None = human_option()
    columns: Mapping[str, str] | None = human_columns()
    annotations: FilePath | None = annotations_option()
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


@declares
class LeaderboardOptions:
    """The arguments of `capeval.leaderboard`.

    Parameters
    ----------
    judged_runs : The runs to rank: names, folders of runs or of judges; with questions, graded
        runs. By default all under runs/.
    questions : Rank graded runs of multiple-choice questions by accuracy.
    by : Tables after the overall one: types, characteristics, domain, complexity or all. JSON
        contains them all. With questions, the tag whose groups are the columns.
    published : Add published rows: the TUNA paper's 21 models; with questions, those of TUNA-MCQ,
        TOMATO and a study of answer selection.
    """

    judged_runs: Sequence[FilePath] = option((), positional=True, metavar="RUN")
    _: KW_ONLY
    questions: bool = False
    by: str | None = option(None, metavar="TABLES", panel=OUTPUT)
    published: bool = False
    annotations: FilePath | None = annotations_option()
    out: FilePath | None = out_option()
    runs: FilePath = runs_option()


@declares
class PlotOptions:
    """The arguments of `capeval.plot`.

    Parameters
    ----------
    what : Which figures: all, types, characteristics, domains, events, elements or frames;
        forest for two runs; scatter with human ratings.
    out : The folder to write them to.
    format : The formats: svg, pdf or png.
    """

    what: Sequence[str] = required(kind=str, positional=True, metavar="WHAT", commas=True)
    judged_runs: Sequence[FilePath] = judged_runs_argument()
    _: KW_ONLY
    out: FilePath = option("figures", metavar="DIR", panel=OUTPUT)
    format: Sequence[str] = option(("pdf",), metavar="FORMAT", commas=True, panel=OUTPUT)
    human: FilePath | None = human_option()
    columns: Mapping[str, str] | None = human_columns()
    judge: str | None = python_only(None, "Only the verdicts of this judge.")
    annotations: FilePath | None = annotations_option()
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


def _metrics(texts: Sequence[str] | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in texts or ():
        name, mark, path = text.partition("=")
        if not mark or not name.strip() or not path.strip():
            raise UsageError(f"--metric: {text!r} must be NAME=PATH")
        if not name.isprintable():
            raise UsageError(f"--metric: the name {name!r} has control characters; choose another")
        found.setdefault(name.strip(), []).append(path.strip())
    return found


@declares
class CorrelateOptions:
    """The arguments of `capeval.correlate`.

    Parameters
    ----------
    human : Human ratings or labels.
    metric : A judged run, a judgments.jsonl, a metrics.jsonl, one metric of it (PATH:METRIC), or a
        table (CSV, XLSX) of video_id, system?, and score or a column NAME; of the human file, its
        column NAME. One NAME may have several files.
    missing : If a rating or a score is missing: stop (error) or drop the caption.
    raters : Aggregate raters by mean or median, or report each.
    protocol : Only the statistics of a published protocol: tuna.
    statistic : Only these of kendall_b, spearman, pearson.
    grouping : Only these of pooled, item, within_system, system.
    published : Add the TUNA paper's table 3.
    progress : Shows the progress, with a method `update(status)`.
    """

    human: FilePath = required(metavar="FILE")
    metric: Mapping[str, FilePath | Sequence[FilePath]] | None = option(
        None,
        note="In Python a dict of the files by name.",
        kind=list[str] | None,
        metavar="NAME=PATH",
        parse=_metrics,
    )
    _: KW_ONLY
    judge: str | None = judge_option()
    columns: Mapping[str, str] | None = human_columns()
    annotations: "str | Path | Sequence[Annotation | Mapping[str, Any]] | None" = (
        annotations_option(note="Or `Annotation`s, or dicts.")
    )
    missing: Literal["error", "drop"] = option("error", metavar="ACTION")
    raters: Literal["mean", "median", "each"] = option("mean", metavar="MODE")
    seed: int = seed_option()
    protocol: str | None = option(None, metavar="NAME")
    statistic: Sequence[str] = option((), metavar="NAME", commas=True)
    grouping: Sequence[str] = option((), metavar="NAME", commas=True)
    published: bool = False
    out: FilePath | None = out_option()
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()
    progress: "Progress | None" = python_only(None, method="update", shown=False)


@declares
class SheetOptions:
    """The arguments of `capeval.rate_sheet`.

    Parameters
    ----------
    sampled_runs : Runs to sample captions from. By default all under runs/, or the sample if
        there are none.
    count : The number of videos. By default 40, or all if there are fewer.
    per_video : Captions of each video. By default one of every run.
    seed : The seed of the sample.
    videos : The folder of the videos that the page plays.
    out : The folder to write to.
    """

    sampled_runs: Sequence[FilePath] = option((), positional=True, metavar="RUN")
    _: KW_ONLY
    count: int | None = option(None, metavar="N", min=1)
    per_video: int | None = option(None, metavar="N", min=1)
    seed: int = option(0, metavar="N", min=0)
    annotations: FilePath | None = annotations_option()
    videos: FilePath | None = option(None, metavar="DIR")
    out: FilePath = option("rating", metavar="DIR", panel=OUTPUT)
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


@declares
class MergeOptions:
    """The arguments of `capeval.rate_merge`.

    Parameters
    ----------
    files : The raters' files, one each.
    key : The sheet's key.csv.
    out : The file to write.
    annotations : Check the key against these annotations, and show agreement by type of
        element; 'sample' for the bundled ones.
    partial : Accept files in which labels are missing.
    force : Replace an --out file that has other contents.
    """

    files: Sequence[FilePath] = required(positional=True, metavar="FILE")
    key: FilePath = required(metavar="FILE")
    _: KW_ONLY
    out: FilePath = option("human.csv", metavar="FILE", panel=OUTPUT)
    annotations: FilePath | None = option(None, metavar="FILE")
    partial: bool = False
    force: bool = False
    on_notice: Notices = on_notice_option()
