"""Does a benchmark need more than one frame, and in order? Four diagnostics of graded runs.

Multi-frame gain, frame order sensitivity and frame information disparity are relative changes of
accuracy (Shangguan et al., TOMATO, ICLR 2025, section 3); the fourth is the share of questions
answered correctly with many frames and wrongly with one, by which TUNA-MCQ chose its questions
(Kong et al., ACL 2025, section 3.2.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from capeval.errors import InputError, UsageError
from capeval.mcq.grades import GradedItem, GradedRun, find_grades, read_graded_run, shown_by
from capeval.mcq.tags import MAIN_WAYS, benchmark_name, grouped
from capeval.options import (
    INPUTS,
    FilePath,
    command,
    declares,
    option,
    python_only,
    runs_option,
    takes,
)
from capeval.schema import Frozen
from capeval.show.numbers import NOTHING, percent, points, thousands
from capeval.show.result import Result
from capeval.show.table import COUNT, PERCENT, Column, Kind, Page, Row, Table, interval_kind
from capeval.stats.values import Floats, Interval, Mask, Missing
from capeval.stats.video_ratios import VideoRatios
from capeval.text import counted, cut, listed, one_line

Role = Literal["multi", "single", "picked", "shuffled"]

SHOWN: Mapping[Role, str] = {
    "multi": "all frames",
    "single": "one frame",
    "picked": "the hand-picked frame",
    "shuffled": "the shuffled frames",
}
"""What each run shows of a video, in words."""


@declares
class McqTemporalOptions:
    """The arguments of `capeval.mcq_temporal`; a run is a name, a folder or a grades.json.

    Parameters
    ----------
    multi : The run with many frames, in order.
    single : The run with one frame: a random one, or the first.
    picked : The run with one frame that was picked by hand for each question.
    shuffled : The run with the same many frames, shuffled.
    by : Group questions by this tag. By default task (TUNA-MCQ), reasoning_type (TOMATO) or
        task_type (Video-MME).
    resamples : Bootstrap resamples of videos.
    seed : The seed of the resamples.
    """

    _: KW_ONLY
    multi: FilePath | None = option(None, panel=INPUTS, metavar="RUN")
    single: FilePath | None = option(None, panel=INPUTS, metavar="RUN")
    picked: FilePath | None = option(None, panel=INPUTS, metavar="RUN")
    shuffled: FilePath | None = option(None, panel=INPUTS, metavar="RUN")
    by: str | None = option(None, metavar="TAG")
    # With fewer, the ends of a 95% interval would be single resamples.
    resamples: int = python_only(10_000, min=99)
    seed: int = python_only(0, min=0)
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


_NOT_WITH = "Right with many frames, not with one"
_NOT_WITH_PICKED = "Right with many, not with picked one"
MEASURES = (
    Measure("multi_frame_gain", "multi", "single", "Multi-frame gain"),
    Measure("multi_frame_gain_picked", "multi", "picked", "Multi-frame gain, hand-picked frame"),
    Measure("frame_order_sensitivity", "multi", "shuffled", "Frame order sensitivity"),
    Measure("frame_information_disparity", "picked", "single", "Frame information disparity"),
    Measure("needs_frames", "multi", "single", _NOT_WITH, share=True),
    Measure("needs_frames_picked", "multi", "picked", _NOT_WITH_PICKED, share=True),
)

FEWEST_QUESTIONS = 20
"""For the interval of a relative change: with fewer, half of the intervals are wider than
300 points (simulated with 35% and 60% right answers)."""


class MeasureResult(Frozen):
    """One measure of some questions, as a fraction, with its 95% interval over videos.

    Of the `questions` scored in both runs, the two answer `upper` and `lower` correctly.
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

    `correct` has for each role (questions,): 1 correct, 0 wrong, NaN unscored; `video` the number
    of each question's video, and `buckets` masks. All diagnostics share the resamples.
    """
    measures = [one for one in MEASURES if one.upper in correct and one.lower in correct]
    found: list[dict[str, MeasureResult]] = [{} for _ in buckets]
    tables = [
        (results, one, _by_video(correct[one.upper], correct[one.lower], video, bucket))
        for results, bucket in zip(found, buckets, strict=True)
        for one in measures
    ]
    above = np.stack([t[:, 2] if one.share else t[:, 0] for _, one, t in tables], axis=1)
    below = np.stack([t[:, 3] if one.share else t[:, 1] for _, one, t in tables], axis=1)
    ratios = VideoRatios(above, below, resamples=resamples, seed=seed)
    for n, (results, one, table) in enumerate(tables):
        interval = ratios.share(n) if one.share else ratios.ratio(n, table[:, 3] > 0)
        results[one.name] = _result(one, table, interval)
    return found


def _by_video(upper: Floats, lower: Floats, video: NDArray[np.int64], bucket: Mask) -> Floats:
    """Return numbers by video: correct above, correct below, correct only above, questions."""
    both = bucket & ~np.isnan(upper) & ~np.isnan(lower)
    right, other = upper[both], lower[both]
    columns = (right, other, right * (1 - other), np.ones_like(right))
    videos = int(video.max(initial=-1)) + 1
    return np.stack([np.bincount(video[both], one, videos) for one in columns], axis=1)


def _result(measure: Measure, table: Floats, interval: Interval | Missing) -> MeasureResult:
    upper, lower, only, questions = (int(total) for total in table.sum(axis=0).round())
    value: float | None = None
    reason: str | None = None
    if not questions:
        reason = "no question has an answer in both runs"
    elif measure.share:
        value = only / questions
    elif lower:
        value = relative_change(upper, lower)
    else:
        reason = f"no question is answered correctly with {SHOWN[measure.lower]}"
    if isinstance(interval, Interval) and not measure.share:
        interval = Interval(interval.low - 1, interval.high - 1)
        if questions < FEWEST_QUESTIONS:
            interval = Missing(f"no interval from fewer than {FEWEST_QUESTIONS} questions")
    if reason:
        interval = Missing(reason)
    ends, why = (None, interval.reason) if isinstance(interval, Missing) else (interval, None)
    return MeasureResult(
        value=value,
        reason=reason,
        low=ends.low if ends else None,
        high=ends.high if ends else None,
        interval_reason=why,
        upper=upper,
        lower=lower,
        questions=questions,
        videos=int((table[:, 3] > 0).sum()),
    )


# ---- The result --------------------------------------------------------------------------------

# The measures by tag on the default screen: the effects of several frames and of their order.
_MAIN = ("multi_frame_gain", "frame_order_sensitivity")


def _kind(pair: tuple[MeasureResult, Measure]) -> Kind:
    return interval_kind(percent if pair[1].share else points)


_COLUMNS = [
    Column("Measure", words=True),
    Column("Questions", kind=COUNT),
    Column("More", kind=PERCENT),
    Column("Less", kind=PERCENT),
    Column(
        "Change [95%]",
        kind=Kind(lambda pair: _kind(pair).show(pair[0]), after=lambda p: _kind(p).after(p[0])),
    ),
]


def _row(label: str, of: MeasureResult, measure: Measure) -> Row:
    sides = [correct / of.questions if of.questions else None for correct in (of.upper, of.lower)]
    return [cut(one_line(label), 60), of.questions, *sides, (of, measure)]


def _reasons(rows: Sequence[Row]) -> list[str]:
    found = [row[-1][0] for row in rows if len(row) > 1]
    lines = (
        f"{NOTHING}: {of.reason}" if of.reason else f"[{NOTHING}]: {of.interval_reason}"
        for of in found
        if of.interval_reason
    )
    return list(dict.fromkeys(map(one_line, lines)))


# ---- Graded runs in their roles ----------------------------------------------------------------


class RoleRun(Frozen):
    """A run in its role: `label` names its frames, and `questions` counts its scores."""

    name: str
    path: str
    label: str
    signature: str
    questions: int


class Temporal(Result, Frozen):
    """The contents of `capeval mcq temporal --json`: measures by name, of all questions and by tag.

    `unpaired` questions were not asked in all of the runs.
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
        shown = [one for one in MEASURES if one.name in self.overall]
        parts = []
        for one in [one for one in shown if one.name in _MAIN] or shown[:1]:
            of = self.overall[one.name]
            change = f"has no value ({of.reason})"
            if of.value is not None:
                change = f"{points(of.value)}%{interval_kind(points).after(of)}"
            parts.append(f"{one.title.lower()} {change}")
        on = f" on {benchmark_name(self.benchmark)}" if self.benchmark else ""
        asked = counted(max(of.questions for of in self.overall.values()), "question")
        return f"{one_line(self.model, 80)}{on}: {', '.join(parts)}; {asked}."

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
                notes=self._about_runs(),
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
        upper, lower = (self.runs[role].label for role in (measure.upper, measure.lower))
        if measure.share:
            return f"Right with {upper}, wrong with {lower}"
        return f"{measure.title.partition(',')[0]} ({upper} / {lower})"

    def _about_runs(self) -> list[str]:
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


def _compared(runs: Mapping[Role, GradedRun], o: McqTemporalOptions) -> Temporal:
    if not any(one.upper in runs and one.lower in runs for one in MEASURES):
        raise UsageError(
            "nothing can be compared: name a run of many frames (--multi) and one of a single "
            "frame (--single, --picked) or of shuffled frames (--shuffled)"
        )
    for role, run in runs.items():
        fitting = (role, "single") if role == "picked" else (role,)
        for shows in {shown_by(one.frames) for one in run.items}:
            if shows and shows.role not in fitting:
                raise UsageError(f"--{role}: {run.name} saw {shows.label}, not {SHOWN[role]}")
    for about, names in (
        ("models", dict.fromkeys(run.model for run in runs.values() if run.model)),
        ("benchmarks", dict.fromkeys(run.benchmark for run in runs.values())),
    ):
        if len(names) > 1:
            raise UsageError(f"the runs are of several {about}: {listed(names)}")
    answers: dict[Role, dict[tuple[str, str], GradedItem]] = {
        role: {(one.benchmark, one.id): one for one in run.items} for role, run in runs.items()
    }
    questions: dict[tuple[str, str], GradedItem] = {}
    for role, of in answers.items():
        for key, one in of.items():
            known = questions.setdefault(key, one)
            if (known.video, known.answer) != (one.video, one.answer):
                raise InputError(
                    f"question {one.id} has a different video or answer in the other runs",
                    file=runs[role].path,
                )
    first = next(iter(runs.values()))
    tag = o.by or MAIN_WAYS.get(first.benchmark)
    groups: dict[str, list[int]] = {}
    if tag and (o.by or any(tag in one.tags for one in questions.values())):
        groups = grouped([*questions.values()], [tag])[tag]
    # Numbered in sorted order, so that resamples do not depend on the order of the responses.
    video = np.unique([one.video for one in questions.values()], return_inverse=True)[1]
    correct = {
        role: np.array([getattr(of.get(key), "correct", None) for key in questions], float)
        for role, of in answers.items()
    }
    every = np.arange(len(video))
    masks = [every >= 0, *(np.isin(every, places) for places in groups.values())]
    overall, *by = diagnose(correct, video, masks, resamples=o.resamples, seed=o.seed)
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
        tag=tag if groups else None,
        overall=overall,
        by=dict(zip(groups, by, strict=True)),
        unpaired=len(questions) - len(asked_everywhere),
        resamples=o.resamples,
        seed=o.seed,
        notes=tuple(_differences(runs, answers)),
    )


def _label(role: Role, run: GradedRun) -> str:
    labels = {shows.label for one in run.items if (shows := shown_by(one.frames))}
    return labels.pop() if len(labels) == 1 else SHOWN[role]


def _differences(
    runs: Mapping[Role, GradedRun], answers: Mapping[Role, Mapping[tuple[str, str], GradedItem]]
) -> Iterator[str]:
    """Yield differences between the runs besides frames, and from the paper's runs."""
    strategies = dict.fromkeys(run.read_by for run in runs.values())
    if len(strategies) > 1:
        yield (
            f"the replies were read by different strategies ({listed(strategies)}); grade all runs "
            "with one --select"
        )
    ordered, shuffled = (answers.get(role, {}) for role in ("multi", "shuffled"))
    differ = sum(
        _frame_set(ordered[key]) != _frame_set(shuffled[key]) for key in {*ordered} & {*shuffled}
    )
    if differ:
        yield (
            f"{counted(differ, 'question')} had other frames in the shuffled run than in the "
            "ordered one, so that more than the order differs"
        )
    label = _label("single", runs["single"]) if "single" in runs else "random frame"
    if label != "random frame":
        yield f"the TOMATO paper uses a random frame; this run: {label}"


def _frame_set(one: GradedItem) -> list[str]:
    return sorted(map(str, one.frames.get("indices") or ()))


@command("mcq temporal", "as_json", "form", "full")
@takes(McqTemporalOptions)
def mcq_temporal(o: McqTemporalOptions) -> Temporal:
    """Check whether the questions need several frames, in order.

    It compares graded runs of the same model and questions: with many frames, with one random
    frame, with one hand-picked frame, and with the many frames shuffled.

    Raises
    ------
    InputError, UsageError
        A run cannot be read, or the runs do not fit together.
    """
    given = {role: getattr(o, role) for role in SHOWN if getattr(o, role) is not None}
    files = {role: find_grades(run, Path(o.runs)) for role, run in given.items()}
    if len({*files.values()}) < len(files):
        raise UsageError("the same run is named for two roles; each role needs different frames")
    return _compared({role: read_graded_run(file) for role, file in files.items()}, o)
