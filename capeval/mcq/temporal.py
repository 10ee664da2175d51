"""Does a benchmark need more than one frame, and in order? Four diagnostics of graded runs.

Multi-frame gain, frame order sensitivity and frame information disparity are relative changes of
accuracy (Shangguan et al., TOMATO, ICLR 2025, section 3); the fourth is the share of questions
answered correctly with many frames and wrongly with one, by which TUNA-MCQ chose its questions
(Kong et al., ACL 2025, section 3.2.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from capeval.stats.values import Floats, Interval, Mask, Missing, Value
from capeval.stats.video_ratios import VideoRatios

Role = Literal["multi", "single", "picked", "shuffled", "blind"]
"""What a run shows of each video: many frames in order, one frame, one frame picked for the
question, the same many frames out of order, or nothing."""

ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True)
class Measure:
    """A comparison of two runs' answers to the same questions.

    `share` compares nothing: it counts the questions that only the first run answers correctly.
    """

    name: str
    upper: Role
    lower: Role
    share: bool = False


MEASURES = (
    Measure("multi_frame_gain", "multi", "single"),
    Measure("multi_frame_gain_picked", "multi", "picked"),
    Measure("frame_order_sensitivity", "multi", "shuffled"),
    Measure("frame_information_disparity", "picked", "single"),
    Measure("needs_frames", "multi", "single", share=True),
    Measure("needs_frames_picked", "multi", "picked", share=True),
)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A measure of some questions, as a fraction.

    Attributes
    ----------
    value : the relative change or the share
    interval : of 95%
    upper, lower : how many questions each of the two runs answers correctly
    questions : how many both runs answer, correctly or not
    videos : how many videos these are about
    """

    value: Value
    interval: Interval | Missing
    upper: int
    lower: int
    questions: int
    videos: int


def relative_change(upper: float, lower: float) -> Value:
    """Return `upper` divided by `lower`, minus 1; there is none of nothing.

    >>> relative_change(0.377, 0.212)
    0.7783018867924529
    >>> relative_change(0.1, 0.0)
    Missing(reason='the denominator is 0')
    """
    return upper / lower - 1 if lower else Missing("the denominator is 0")


def mean_change(changes: Sequence[Value]) -> Value:
    """Return the mean of several models' changes, not the change of their mean accuracies.

    >>> mean_change([0.2, 0.4])
    0.30000000000000004
    """
    there = [change for change in changes if not isinstance(change, Missing)]
    if len(there) < len(changes):
        return Missing(f"{len(changes) - len(there)} of {len(changes)} models have no value")
    return float(np.mean(there)) if there else Missing("there is no model")


def diagnose(
    correct: Mapping[Role, Floats],
    video: NDArray[np.int64],
    buckets: Sequence[Mask],
    *,
    draws: int = 10_000,
    seed: int = 0,
) -> list[dict[str, Diagnostic]]:
    """Return the diagnostics of every bucket of questions that the runs at hand allow.

    Parameters
    ----------
    correct : for each role (questions,): 1 correct, 0 wrong, NaN unscored or not asked
    video : (questions,), the number of each question's video from 0
    buckets : (questions,) each; which questions are in it
    draws, seed : of the bootstrap. All diagnostics of all buckets have the same resamples.
    """
    videos = int(video.max(initial=-1)) + 1
    tables: list[tuple[int, Measure, NDArray[np.float64]]] = []
    for at, bucket in enumerate(buckets):
        for measure in MEASURES:
            if measure.upper in correct and measure.lower in correct:
                table = _sums(correct[measure.upper], correct[measure.lower], video, bucket, videos)
                tables.append((at, measure, table))
    if not tables:
        return [{} for _ in buckets]
    # Columns of `_sums`: correct above, correct below, correct only above, questions.
    above = np.stack([t[:, 2] if m.share else t[:, 0] for _, m, t in tables], axis=1)
    below = np.stack([t[:, 3] if m.share else t[:, 1] for _, m, t in tables], axis=1)
    ratios = VideoRatios(above, below, draws=draws, seed=seed)
    intervals = [
        ratios.share(at) if measure.share else ratios.ratio(at, table[:, 3] > 0)
        for at, (_, measure, table) in enumerate(tables)
    ]
    found: list[dict[str, Diagnostic]] = [{} for _ in buckets]
    for (at, measure, table), interval in zip(tables, intervals, strict=True):
        found[at][measure.name] = _diagnostic(measure, table, interval)
    return found


def _sums(
    upper: Floats, lower: Floats, video: NDArray[np.int64], bucket: Mask, videos: int
) -> Floats:
    both = bucket & ~np.isnan(upper) & ~np.isnan(lower)
    right, other = upper[both], lower[both]
    columns = (right, other, right * (1 - other), np.ones_like(right))
    return np.stack([np.bincount(video[both], one, videos) for one in columns], axis=1)


def _diagnostic(measure: Measure, table: Floats, interval: Interval | Missing) -> Diagnostic:
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
    elif isinstance(interval, Interval) and not measure.share:
        interval = Interval(interval.low - 1, interval.high - 1, interval.method)
    videos = int((table[:, 3] > 0).sum())
    return Diagnostic(value, interval, upper, lower, questions, videos)


SHOWN: Mapping[Role, str] = {
    "multi": "all frames",
    "single": "one frame",
    "picked": "the hand-picked frame",
    "shuffled": "the shuffled frames",
    "blind": "no frame",
}
"""What each run shows, in words."""
