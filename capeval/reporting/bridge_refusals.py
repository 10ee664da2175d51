"""Why a bridged score is refused, in words, with the figures that decided."""

from __future__ import annotations

import math
from collections.abc import Mapping

from capeval.reporting.numbers import p_equation, percent, plain_number, points, tenths, thousands
from capeval.scoring.result import BridgeRefusal
from capeval.text import counted, one_line


def refusal_line(refusal: BridgeRefusal) -> str:
    """Return which rule refuses a score, with the figures, in words.

    >>> refusal_line(BridgeRefusal(rule="systems", figures={"systems": 3, "least": 5}))
    'too few anchors: 3 runs are judged by both, at least 5 are needed'
    """
    of = refusal.figures
    match refusal.rule:
        case "systems":
            count = _count(of, "systems")
            return (
                f"too few anchors: {counted(count, 'run')} {'is' if count == 1 else 'are'} judged "
                f"by both, at least {thousands(_number(of, 'least'))} are needed"
            )
        case "videos":
            return (
                f"too few videos: {thousands(_number(of, 'videos'))} are judged by both in every "
                f"anchor, at least {thousands(_number(of, 'least'))} are needed"
            )
        case "equal":
            if "system" in of:
                return f"without {_text(of, 'system')}, all anchors have one score by the new judge"
            return f"all anchors have one score by the new judge: {_percent(of, 'score')}"
        case "misfit":
            return (
                f"{_text(of, 'system')} is {_points(of, 'shift')} points off the line of the other "
                f"anchors (standard error {_tenths(of, 'error')}, {p_equation(_number(of, 'p'))} "
                "after Holm)"
            )
        case "width":
            return (
                f"too inexact: ±{_tenths(of, 'error')} points, and --max-error is "
                f"{plain_number(100 * _number(of, 'most'))}"
            )
        case "range":
            return (
                f"too far from the anchors: {_percent(of, 'score')} by the new judge, theirs are "
                f"{_percent(of, 'low')} to {_percent(of, 'high')}"
            )
        case "beyond":
            return f"the line predicts {_percent(of, 'value')}, which is no score"
        case "target":
            return "the new judge has no score"


def _number(figures: Mapping[str, float | str], name: str) -> float:
    value = figures.get(name)
    return float("nan") if value is None or isinstance(value, str) else value


def _count(figures: Mapping[str, float | str], name: str) -> int:
    value = _number(figures, name)
    return int(value) if math.isfinite(value) else 0


def _text(figures: Mapping[str, float | str], name: str) -> str:
    return one_line(str(figures.get(name)))


def _percent(figures: Mapping[str, float | str], name: str) -> str:
    return percent(_number(figures, name))


def _points(figures: Mapping[str, float | str], name: str) -> str:
    return points(_number(figures, name))


def _tenths(figures: Mapping[str, float | str], name: str) -> str:
    return tenths(100 * _number(figures, name))
