"""The options of the commands that read runs, declared once for Python and for the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from capeval.errors import UsageError
from capeval.options import (
    OUTPUT,
    FilePath,
    Notices,
    annotations_option,
    declares,
    human_columns,
    judge_option,
    on_notice_option,
    option,
    out_option,
    python_only,
    required,
    runs_option,
    seed_option,
)

if TYPE_CHECKING:
    from capeval.runs.engine import Progress
    from capeval.schema import Annotation

T = TypeVar("T")


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


@declares
class FramesOptions:
    """The arguments of `capeval.sample_frames`.

    Parameters
    ----------
    video : A video file.
    frames : The frames to take: 32 (spread evenly), 2fps, auto (2 a second below 16 s, else 1),
        auto@64 (at most 64), 1 (the middle one), 0,5,9 (indices from 0).
    decoder : The decoder: pyav, or decord to compare with.
    sheet : Write a contact sheet to this PNG file.
    out : Write every frame at full size into this folder, named by its index.
    """

    video: FilePath = required(positional=True, metavar="VIDEO")
    frames: str | int = option("32", metavar="POLICY")
    _: KW_ONLY
    decoder: str = option("pyav", metavar="NAME")
    sheet: FilePath | None = option(None, metavar="FILE", panel=OUTPUT)
    out: FilePath | None = option(None, metavar="DIR", panel=OUTPUT)


@declares
class ModelsOptions:
    """The arguments of `capeval.models`.

    Parameters
    ----------
    name : Show every field of one model: its name or its hub id.
    """

    name: str | None = option(None, positional=True, metavar="NAME")
