"""The options of the commands that read runs, declared once for Python and for the command line."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import TYPE_CHECKING, Literal

from capeval.api import FilePath, Notices, ignore
from capeval.api.declaring import OUTPUT, declares, option, python_only, required

if TYPE_CHECKING:
    from capeval.api.reports import Strips
    from capeval.api.scoring import Annotations

judged_runs_argument = partial(
    required,
    "Judged runs: names under runs/, folders, judges' folders, judgments.jsonl or TUNA result "
    "files.",
    kind=list[str],
    positional=True,
    metavar="RUN",
)
judge_option = partial(
    option,
    None,
    "Which of several judges: the name of its folder, or the beginning of it.",
    metavar="NAME",
)
annotations_option = partial(
    option,
    None,
    "Annotations (JSON or JSONL), or 'sample' for the bundled ones. By default those that a run "
    "names.",
    kind=str | None,
    metavar="FILE",
)
ignore_unknown_option = partial(
    option, False, "Skip captions and verdicts of videos without an annotation."
)
human_option = partial(option, None, "Human ratings or labels.", metavar="FILE")
resamples_option = partial(
    option,
    None,
    "Bootstrap resamples and permutations. By default 10,000; in correlate 2,000 for p-values "
    "and 1,000 for comparisons.",
    metavar="N",
    min=99,
)
seed_option = partial(option, 0, "Seed of the statistics.", min=0, metavar="N")
runs_option = partial(option, "runs", "The folder of the runs.", metavar="DIR")
out_option = partial(
    option,
    None,
    "Write the result to this file.",
    note="Refused before anything is computed if it would replace an input.",
    panel=OUTPUT,
    metavar="FILE",
)
on_notice_option = partial(
    python_only,
    ignore,
    "Called with one line for everything that the caller should know but is no error.",
)


@declares
class ScoreOptions:
    """The arguments of `capeval.score`."""

    run: FilePath = required(
        "A judged run, a judge's folder, a judgments.jsonl, or a TUNA result file.",
        kind=str,
        positional=True,
        metavar="RUN",
    )
    annotations: "Annotations | None" = annotations_option(note="Or `Annotation`s.")
    _: KW_ONLY
    judge: str | None = judge_option()
    seed: int = seed_option()
    ignore_unknown: bool = ignore_unknown_option()
    out: FilePath | None = out_option()
    runs: FilePath = runs_option()


@declares
class CompareOptions:
    """The arguments of `capeval.compare`."""

    judged_runs: Sequence[FilePath] = judged_runs_argument()
    _: KW_ONLY
    judge: str | None = judge_option()
    annotations: str | None = annotations_option()
    allow_mismatch: bool = option(
        False, "Compare runs that differ in judge, prompts, repeats or data, and say so."
    )
    fail_under: Sequence[str] = option(
        (),
        "Smallest difference that passes: f1=-0.5, action.recall=-1. Repeatable.",
        metavar="MEASURE=POINTS",
    )
    gate: Literal["estimate", "lower"] | None = option(
        None,
        "What --fail-under tests: estimate, or lower for the lower end of the interval. By "
        "default estimate.",
        metavar="VALUE",
    )
    min_coverage: str | None = option(
        None, "How many annotated videos must be compared: 99% or a number.", metavar="SHARE"
    )
    resamples: int | None = resamples_option()
    seed: int = seed_option()
    out: FilePath | None = out_option()
    runs: FilePath = runs_option()


@declares
class ReportOptions:
    """The arguments of `capeval.report`."""

    judged_runs: Sequence[FilePath] = judged_runs_argument()
    _: KW_ONLY
    out: FilePath | None = out_option()
    human: FilePath | None = human_option()
    frames: int | None = option(
        None,
        "Frames of each video. By default 8, or none for more than 100 videos.",
        metavar="N",
        min=0,
        max=64,
    )
    videos: FilePath | None = option(
        None,
        "The folder of the videos. By default videos/ next to the annotations.",
        metavar="DIR",
    )
    judge: str | None = judge_option()
    annotations: str | None = annotations_option()
    seed: int = seed_option()
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()
    track: "Callable[[Strips, int], Strips]" = python_only(
        lambda taken, _: taken,
        "Wraps the iterator over the videos' frames, given with its length, to show progress.",
    )


@declares
class InspectOptions:
    """The arguments of `capeval.inspect`."""

    index: str = required("The video's index.", positional=True, metavar="INDEX")
    judged_runs: Sequence[FilePath] = option(
        (),
        "A run's name, its folder, a judge's folder, or a judgments.jsonl. Repeatable.",
        kind=list[str] | None,
        flag="--run",
        metavar="RUN",
    )
    _: KW_ONLY
    judge: str | None = judge_option()
    raw: bool = option(False, "Add the model's own replies, from the cache.")
    prompts: str | None = option(
        None,
        "With --raw: the prompt set or folder that the video was judged with, if it is not found "
        "by its name.",
        metavar="NAME",
    )
    human: FilePath | None = human_option()
    annotations: str | None = annotations_option()
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


@declares
class LeaderboardOptions:
    """The arguments of `capeval.leaderboard`."""

    named: Sequence[FilePath] = option(
        (),
        "Runs in addition to those under runs/: folders of runs or of judges.",
        kind=list[str] | None,
        positional=True,
        metavar="RUN",
    )
    _: KW_ONLY
    by: Literal["overall", "types", "characteristics", "domain", "complexity", "all"] = option(
        "overall",
        "Tables after the overall one: types, characteristics, domain, complexity or all. CSV "
        "and JSON contain them all.",
        metavar="TABLES",
    )
    form: Literal["table", "markdown", "latex", "csv", "json"] = option(
        "table", "table, markdown, latex, csv or json.", flag="--format", metavar="FORMAT"
    )
    published: bool = option(False, "Add the TUNA paper's 21 models (tables 8, 9 and 10).")
    annotations: str | None = annotations_option()
    min_coverage: float = option(
        0.99,
        "Percentage of the videos that must be scored for a rank.",
        note="In Python a fraction.",
        kind=str,
        shown_default="99%",
        metavar="SHARE",
    )
    out: FilePath | None = out_option()
    runs: FilePath = runs_option()


@declares
class PlotOptions:
    """The arguments of `capeval.plot`."""

    what: Sequence[str] = required(
        "Which figures: all, types, characteristics, domains, events, elements or frames; forest "
        "for two runs; scatter or confusion with human ratings.",
        kind=str,
        positional=True,
        metavar="WHAT",
        commas=True,
    )
    judged_runs: Sequence[FilePath] = judged_runs_argument()
    _: KW_ONLY
    out: FilePath = option("figures", "The folder to write them to.", kind=str, metavar="DIR")
    formats: Sequence[str] = option(
        ("pdf",),
        "svg, pdf or png; repeat the option or separate them by commas.",
        flag="--format",
        metavar="FORMAT",
        commas=True,
    )
    width: Literal["column", "text"] = option(
        "column", "That of a column (3.3 in) or of the text (6.9 in).", metavar="WIDTH"
    )
    human: FilePath | None = human_option()
    judge: str | None = judge_option()
    annotations: str | None = annotations_option()
    seed: int = seed_option()
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


@declares
class CorrelateOptions:
    """The arguments of `capeval.correlate`."""

    human: FilePath = required("Human ratings or labels.", metavar="FILE")
    metrics: Mapping[str, FilePath | Sequence[FilePath]] | None = option(
        None,
        "A metric: a judged run, a judgments.jsonl, a metrics.jsonl, or a CSV of "
        "video_id, system?, score. Repeatable; one NAME may have several files.",
        note="In Python the files by name.",
        kind=list[str] | None,
        flag="--metric",
        metavar="NAME=PATH",
    )
    _: KW_ONLY
    metric_columns: Sequence[str] = option(
        (),
        "Columns of the human file that contain metrics; repeat the option or separate them by "
        "commas.",
        metavar="COLUMN",
        commas=True,
    )
    annotations: "Annotations | None" = annotations_option(note="Or `Annotation`s.")
    missing: Literal["error", "drop"] = option(
        "error",
        "If a rated caption has no score: stop (error) or drop it.",
        metavar="ACTION",
    )
    raters: Literal["mean", "median", "zmean", "each"] = option(
        "mean",
        "How the ratings of several raters are aggregated: mean, median, zmean; or each to keep "
        "the raters apart.",
        metavar="MODE",
    )
    ci: Literal["bootstrap", "analytic", "none"] | None = option(
        None,
        "Kind of intervals: bootstrap, analytic or none. By default what suits each statistic.",
        metavar="KIND",
    )
    resamples: int | None = resamples_option()
    seed: int = seed_option()
    protocol: str | None = option(
        None, "Only the statistics of a published protocol: tuna or wmt23.", metavar="NAME"
    )
    statistics: Sequence[str] = option(
        (),
        "Only these of kendall_b, kendall_c, spearman, pearson, acc_eq.",
        flag="--statistic",
        metavar="NAME",
        commas=True,
    )
    groupings: Sequence[str] = option(
        (),
        "Only these of pooled, item, within_system, system.",
        flag="--grouping",
        metavar="NAME",
        commas=True,
    )
    published: bool = option(False, "Add the TUNA paper's table 3 for reference.")
    out: FilePath | None = out_option()
    runs: FilePath = runs_option()
    draws: int | None = python_only(None, "Deprecated name of `resamples`.")


@declares
class SheetOptions:
    """The arguments of `capeval.rate_sheet`."""

    named: Sequence[str] = option(
        (),
        "A run to sample captions from; repeatable. By default all under runs/, or the sample if "
        "there are none.",
        flag="--run",
        metavar="RUN",
    )
    _: KW_ONLY
    videos: int | None = option(
        None, "Number of videos. By default 40, or all if there are fewer.", metavar="N", min=1
    )
    per_video: int | None = option(
        None, "Captions of each video. By default one of every run.", metavar="N", min=1
    )
    seed: int = seed_option()
    annotations: str | None = annotations_option()
    video_dir: FilePath | None = option(
        None, "The folder of the videos that the page plays.", metavar="DIR"
    )
    out: FilePath = option("rating", "The folder to write to.", metavar="DIR")
    ignore_unknown: bool = ignore_unknown_option()
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


@declares
class MergeOptions:
    """The arguments of `capeval.rate_merge`."""

    files: Sequence[FilePath] = required(
        "The raters' files, one each.", positional=True, metavar="FILE"
    )
    key: FilePath = required("The sheet's key.csv.", metavar="FILE")
    _: KW_ONLY
    out: FilePath = option("human.csv", "The file to write.", metavar="FILE")
    annotations: str | None = option(
        None,
        "Check the key against these annotations, and show agreement by type of element; "
        "'sample' for the bundled ones.",
        metavar="FILE",
    )
    partial: bool = option(False, "Accept files in which labels are missing.")
    force: bool = option(False, "Replace an --out file that has other contents.")
    on_notice: Notices = on_notice_option()


@declares
class FramesOptions:
    """The arguments of `capeval.sample_frames`."""

    video: FilePath = required("A video file.", positional=True, metavar="VIDEO")
    frames: str = option(
        "32",
        "32 (spread evenly), 2fps, auto (2 a second below 16 s, else 1), auto@64 (at most 64), 1 "
        "(the middle one), 0,5,9 (indices from 0).",
        metavar="POLICY",
    )
    _: KW_ONLY
    decoder: str = option("pyav", "pyav, or decord for parity.", metavar="NAME")
    sheet: FilePath | None = option(None, "Write a contact sheet to this PNG file.", metavar="FILE")
    out: FilePath | None = option(
        None,
        "Write every frame at full size into this folder, named by its index.",
        metavar="DIR",
    )
