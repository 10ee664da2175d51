"""Does a benchmark need more than one frame, and in order? Four diagnostics of graded runs.

Multi-frame gain, frame order sensitivity and frame information disparity are relative changes of
accuracy (Shangguan et al., TOMATO, ICLR 2025, section 3); the fourth is the share of questions
answered correctly with many frames and wrongly with one, by which TUNA-MCQ chose its questions
(Kong et al., ACL 2025, section 3.2.3).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from capeval.errors import InputError, UsageError
from capeval.files.outputs import check_output
from capeval.mcq.grades import (
    GradedItem,
    GradedRun,
    Part,
    find_grades,
    read_graded_run,
    shown_by,
)
from capeval.mcq.responses import RESPONSES
from capeval.mcq.tags import MAIN_WAYS, benchmark_name, grouped
from capeval.options import (
    INPUTS,
    OUTPUT,
    FilePath,
    command,
    declares,
    option,
    python_only,
    runs_option,
    takes,
)
from capeval.show.numbers import NOTHING, percent, points, thousands
from capeval.show.result import Result, write
from capeval.show.table import COUNT, PERCENT, Column, Kind, Page, Row, Table, interval_kind
from capeval.stats.values import Floats, Interval, Mask, Missing, Value
from capeval.stats.video_ratios import VideoRatios
from capeval.text import counted, cut, listed, one_line

Role = Literal["multi", "single", "picked", "shuffled"]
"""What a run shows of each video: many frames in order, one frame, one frame picked for the
question, or the same many frames out of order."""

SHOWN: Mapping[Role, str] = {
    "multi": "all frames",
    "single": "one frame",
    "picked": "the hand-picked frame",
    "shuffled": "the shuffled frames",
}
"""What each run shows, in words."""

_role = functools.partial(option, None, panel=INPUTS, metavar="RUN")


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


@dataclass(frozen=True, slots=True)
class Measure:
    """A comparison of two runs' answers to the same questions.

    `share` compares nothing: it counts the questions that only the first run answers correctly.
    """

    name: str
    upper: Role
    lower: Role
    title: str
    share: bool = False


MEASURES = (
    Measure("multi_frame_gain", "multi", "single", "Multi-frame gain"),
    Measure("multi_frame_gain_picked", "multi", "picked", "Multi-frame gain, hand-picked frame"),
    Measure("frame_order_sensitivity", "multi", "shuffled", "Frame order sensitivity"),
    Measure("frame_information_disparity", "picked", "single", "Frame information disparity"),
    Measure("needs_frames", "multi", "single", "Right with many frames, not with one", share=True),
    Measure(
        *("needs_frames_picked", "multi", "picked", "Right with many, not with picked one"),
        share=True,
    ),
)

FEWEST_QUESTIONS = 20
"""For the interval of a relative change: of fewer questions, half of the intervals are wider than
300 points (simulated with 35% and 60% right answers)."""


class MeasureResult(Part):
    """One measure of some questions, as a fraction.

    Attributes
    ----------
    value : a relative change, or a share; None for the reason in `reason`
    low, high : the 95% interval over videos; None for the reason in `interval_reason`
    upper, lower : how many of `questions` the two runs answer correctly
    questions : how many are scored in both runs
    videos : how many videos these are about
    """

    value: float | None
    reason: str | None = None
    low: float | None = None
    high: float | None = None
    interval_reason: str | None = None
    upper: int
    lower: int
    questions: int
    videos: int


def relative_change(upper: float, lower: float) -> float:
    """Return `upper` divided by `lower`, minus 1."""
    return upper / lower - 1


def diagnose(
    correct: Mapping[Role, Floats],
    video: NDArray[np.int64],
    buckets: Sequence[Mask],
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[dict[str, MeasureResult]]:
    """Return the diagnostics of every bucket of questions that the runs at hand allow.

    Parameters
    ----------
    correct : for each role (questions,): 1 correct, 0 wrong, NaN unscored or not asked
    video : (questions,), the number of each question's video from 0
    buckets : (questions,) each; which questions are in it
    resamples, seed : of the bootstrap; all diagnostics of all buckets share the resamples
    """
    videos = int(video.max(initial=-1)) + 1
    tables = [
        (at, one, _sums(correct[one.upper], correct[one.lower], video, bucket, videos))
        for at, bucket in enumerate(buckets)
        for one in MEASURES
        if one.upper in correct and one.lower in correct
    ]
    found: list[dict[str, MeasureResult]] = [{} for _ in buckets]
    if not tables:
        return found
    # Columns of `_sums`: correct above, correct below, correct only above, questions.
    above = np.stack([t[:, 2] if m.share else t[:, 0] for _, m, t in tables], axis=1)
    below = np.stack([t[:, 3] if m.share else t[:, 1] for _, m, t in tables], axis=1)
    ratios = VideoRatios(above, below, resamples=resamples, seed=seed)
    for n, (at, one, table) in enumerate(tables):
        interval = ratios.share(n) if one.share else ratios.ratio(n, table[:, 3] > 0)
        found[at][one.name] = _result(one, table, interval)
    return found


def _sums(
    upper: Floats, lower: Floats, video: NDArray[np.int64], bucket: Mask, videos: int
) -> Floats:
    both = bucket & ~np.isnan(upper) & ~np.isnan(lower)
    right, other = upper[both], lower[both]
    columns = (right, other, right * (1 - other), np.ones_like(right))
    return np.stack([np.bincount(video[both], one, videos) for one in columns], axis=1)


def _result(measure: Measure, table: Floats, interval: Interval | Missing) -> MeasureResult:
    upper, lower, only, questions = (int(total) for total in table.sum(axis=0).round())
    value: Value
    if not questions:
        value = Missing("no question has an answer in both runs")
    elif measure.share:
        value = only / questions
    elif not lower:
        value = Missing(f"no question is answered correctly with {SHOWN[measure.lower]}")
    else:
        value = relative_change(upper, lower)
    if isinstance(value, Missing):
        interval = value
    elif not measure.share and questions < FEWEST_QUESTIONS and not isinstance(interval, Missing):
        interval = Missing(f"no interval from fewer than {FEWEST_QUESTIONS} questions")
    base = 0 if measure.share else 1
    return MeasureResult(
        value=None if isinstance(value, Missing) else value,
        reason=value.reason if isinstance(value, Missing) else None,
        low=None if isinstance(interval, Missing) else interval.low - base,
        high=None if isinstance(interval, Missing) else interval.high - base,
        interval_reason=interval.reason if isinstance(interval, Missing) else None,
        upper=upper,
        lower=lower,
        questions=questions,
        videos=int((table[:, 3] > 0).sum()),
    )


# ---- The result --------------------------------------------------------------------------------

# What the default screen has by tag: that a question takes several frames, and their order.
_MAIN = ("multi_frame_gain", "frame_order_sensitivity")


def _shown(pair: tuple[MeasureResult, Measure]) -> Kind:
    return interval_kind(percent if pair[1].share else points)


_CHANGE = Kind(lambda pair: _shown(pair).show(pair[0]), after=lambda p: _shown(p).after(p[0]))
_COLUMNS = [
    Column("Measure", words=True),
    Column("Questions", kind=COUNT),
    Column("More", kind=PERCENT),
    Column("Less", kind=PERCENT),
    Column("Change [95%]", kind=_CHANGE),
]


def _row(label: str, of: MeasureResult, measure: Measure) -> Row:
    sides = [correct / of.questions if of.questions else None for correct in (of.upper, of.lower)]
    return [cut(one_line(label), 60), of.questions, *sides, (of, measure)]


def _reasons(rows: Sequence[Row]) -> list[str]:
    """Return why values or intervals are missing, each reason once."""
    found = (row[-1][0] for row in rows if len(row) > 1)
    lines = (
        f"{NOTHING}: {of.reason}" if of.reason else f"[{NOTHING}]: {of.interval_reason}"
        for of in found
        if of.reason or of.interval_reason
    )
    return list(dict.fromkeys(map(one_line, lines)))


# ---- Graded runs in their roles ----------------------------------------------------------------


class RoleRun(Part):
    """A run in its role; `label` is what it shows of a video, `questions` how many it scores."""

    name: str
    path: str
    label: str
    signature: str
    questions: int


class Temporal(Result, Part):
    """The contents of `capeval mcq temporal --json`.

    Attributes
    ----------
    tag : the tag that questions are grouped by; None without groups
    overall : the measures of all questions, by name
    by : the same for each value of the tag
    unpaired : the questions that not all of the runs asked
    """

    screen: ClassVar = 40

    benchmark: str
    model: str
    runs: dict[Role, RoleRun]
    tag: str | None
    overall: dict[str, MeasureResult]
    by: dict[str, dict[str, MeasureResult]]
    unpaired: int
    resamples: int
    seed: int
    notes: tuple[str, ...]

    def headline(self) -> str:
        found = self.overall
        parts = []
        shown = [one for one in MEASURES if one.name in found]
        for one in [one for one in shown if one.name in _MAIN] or shown[:1]:
            of = found[one.name]
            ends = f"[{NOTHING}]" if of.low is None else f"[{points(of.low)}, {points(of.high)}]"
            value = f"{points(of.value)}% {ends}"
            value = value if of.value is not None else f"has no value ({of.reason})"
            parts.append(f"{one.title.lower()} {value}")
        on = f" on {benchmark_name(self.benchmark)}" if self.benchmark else ""
        asked = max(of.questions for of in found.values())
        who = one_line(self.model, 80)
        return f"{who}{on}: {', '.join(parts)}; {counted(asked, 'question')}."

    def pages(self, *, full: bool = False) -> list[Page]:
        rows: list[Row] = [["All questions"]] if self.by else []
        measures = [one for one in MEASURES if one.name in self.overall]
        rows += [_row(one.title, self.overall[one.name], one) for one in measures]
        for one in measures:
            if self.by and (full or one.name in _MAIN):
                rows.append([cut(one_line(f"{self._heading(one)} by {self.tag}"), 100)])
                rows += [_row(name, of[one.name], one) for name, of in self.by.items()]
        more = f"by {one_line(self.tag or '')}, every measure: --full"
        table = Table(
            "Accuracy with more and with less of the video, in percent",
            _COLUMNS,
            rows,
            "; ".join([*_reasons(rows), *([more] if self.by and not full else [])]),
        )
        return [
            Page(
                [table],
                about="95% intervals by paired bootstrap over videos",
                notes=self._notes(),
                warnings=[one_line(note, 600) for note in self.notes],
                signatures=[*dict.fromkeys(one_line(r.signature, 600) for r in self.runs.values())],
            )
        ]

    def records(self) -> list[dict[str, Any]]:
        groups = [("overall", "", self.overall)]
        groups += [(self.tag or "", bucket, of) for bucket, of in self.by.items()]
        about = {"benchmark": self.benchmark, "model": self.model}
        return [
            {**about, "by": way, "bucket": bucket, "measure": name, **of.model_dump(mode="json")}
            for way, bucket, measures in groups
            for name, of in measures.items()
        ]

    def _heading(self, measure: Measure) -> str:
        """Return a measure with what its two runs show."""
        upper, lower = (self.runs[role].label for role in (measure.upper, measure.lower))
        if measure.share:
            return f"Right with {upper}, wrong with {lower}"
        # The heading names both runs, so that the name need not say which frame it is.
        return f"{measure.title.partition(',')[0]} ({upper} / {lower})"

    def _notes(self) -> list[str]:
        runs = self.runs.items()
        lines = [", ".join(f"{role} {one_line(run.name, 80)} ({run.label})" for role, run in runs)]
        asked = max(run.questions for _, run in runs)
        fewest = min(of.questions for of in self.overall.values())
        if fewest < asked:
            lines.append(
                "A comparison leaves out the questions that one of its runs has no score for, "
                f"{thousands(asked - fewest)} at most"
            )
        return lines


_Key = tuple[str, str]


def compared(
    runs: Mapping[Role, GradedRun],
    *,
    tag: str | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> Temporal:
    """Return the diagnostics of one model's runs, by what they show.

    `tag` groups the questions; by default it is that of the benchmark.
    """
    if not any(one.upper in runs and one.lower in runs for one in MEASURES):
        raise UsageError(
            "nothing can be compared: name a run of many frames (--multi) and one of a single "
            "frame (--single, --picked) or of shuffled frames (--shuffled)"
        )
    for about, names in (
        ("models", dict.fromkeys(run.model for run in runs.values() if run.model)),
        ("benchmarks", dict.fromkeys(run.benchmark for run in runs.values())),
    ):
        if len(names) > 1:
            raise UsageError(f"the runs are of several {about}: {listed(names)}")
    answers = {
        role: {(one.benchmark, one.id): one for one in run.items} for role, run in runs.items()
    }
    questions = _questions(runs, answers)
    first = next(iter(runs.values()))
    used = tag or MAIN_WAYS.get(first.benchmark)
    groups: dict[str, list[int]] = {}
    if used and (tag or any(used in one.tags for one in questions.values())):
        groups = grouped([*questions.values()], [used])[used]
    # Sorted, so that the resamples do not depend on the order of the responses.
    videos = {name: at for at, name in enumerate(sorted({q.video for q in questions.values()}))}
    video = np.array([videos[one.video] for one in questions.values()], dtype=np.int64)
    correct = {role: _correct(of, questions) for role, of in answers.items()}
    every = np.arange(len(video))
    masks = [every >= 0, *(np.isin(every, places) for places in groups.values())]
    overall, *by = diagnose(correct, video, masks, resamples=resamples, seed=seed)
    asked_everywhere = set.intersection(*({*of} for of in answers.values()))
    return Temporal(
        benchmark=first.benchmark,
        model=first.model or first.name,
        runs={
            role: RoleRun(
                name=run.name,
                path=str(run.path),
                label=_label(role, run),
                signature=run.signature,
                questions=int((~np.isnan(correct[role])).sum()),
            )
            for role, run in runs.items()
        },
        tag=used if groups else None,
        overall=overall,
        by=dict(zip(groups, by, strict=True)),
        unpaired=len(questions) - len(asked_everywhere),
        resamples=resamples,
        seed=seed,
        notes=tuple(_notes(runs, answers)),
    )


def _label(role: Role, run: GradedRun) -> str:
    labels = {shows.label for one in run.items if (shows := shown_by(one.frames))}
    return labels.pop() if len(labels) == 1 else SHOWN[role]


def _questions(
    runs: Mapping[Role, GradedRun], answers: Mapping[Role, Mapping[_Key, GradedItem]]
) -> dict[_Key, GradedItem]:
    """Return every question once; those of one id must be the same in all runs."""
    found: dict[_Key, GradedItem] = {}
    for role, of in answers.items():
        for key, one in of.items():
            known = found.setdefault(key, one)
            if (known.video, known.answer) != (one.video, one.answer):
                raise InputError(
                    f"question {one.id} has another video or answer than in the other runs",
                    file=runs[role].path,
                )
    return found


def _notes(
    runs: Mapping[Role, GradedRun], answers: Mapping[Role, Mapping[_Key, GradedItem]]
) -> Iterator[str]:
    strategies = dict.fromkeys(run.read_by for run in runs.values())
    if len(strategies) > 1:
        yield (
            f"the replies were read by different strategies ({listed(strategies)}); grade all runs "
            "with one --select"
        )
    shuffled = answers.get("shuffled", {})
    differ = sum(
        key in shuffled and _frame_set(one) != _frame_set(shuffled[key])
        for key, one in answers.get("multi", {}).items()
    )
    if differ:
        yield (
            f"{counted(differ, 'question')} had other frames in the shuffled run than in the "
            "ordered one, so that more than the order differs"
        )
    label = _label("single", runs["single"]) if "single" in runs else "random frame"
    if label != "random frame":
        yield f"the single frame is the {label}; the TOMATO paper's measures are of a random one"


def _frame_set(one: GradedItem) -> object:
    indices = one.frames.get("indices")
    return sorted(map(str, indices)) if isinstance(indices, list) else None


def _correct(of: Mapping[_Key, GradedItem], questions: Iterable[_Key]) -> Floats:
    values = ((of[key].correct if key in of else None) for key in questions)
    return np.array([np.nan if v is None else float(v) for v in values], dtype=np.float64)


@command("mcq temporal", "as_json", "form_or_csv", "full")
@takes(McqTemporalOptions)
def mcq_temporal(o: McqTemporalOptions) -> Temporal:
    """Check whether the questions need several frames, in order.

    It compares graded runs of the same model and questions: with many frames, with one random
    frame, with one hand-picked frame, and with the many frames shuffled.

    Raises
    ------
    InputError, UsageError
        A run cannot be read, the runs do not fit together, or `out` cannot be written.
    """
    given = {role: getattr(o, role) for role in SHOWN if getattr(o, role) is not None}
    files = {role: find_grades(run, Path(o.runs)) for role, run in given.items()}
    if len({*files.values()}) < len(files):
        raise UsageError("the same run is named for two roles; each shows the model other frames")
    if o.out is not None:
        read = [file for one in files.values() for file in (one, one.with_name(RESPONSES))]
        check_output(Path(o.out), read)
    runs = {role: read_graded_run(file) for role, file in files.items()}
    result = compared(runs, tag=o.by, resamples=o.resamples, seed=o.seed)
    if o.out is not None:
        write(result, o.out, "table")
    return result
