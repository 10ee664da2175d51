"""What a reader of correlations should know about the data: kinds, subjects and numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from pydantic import Field

from capeval.files.id_hints import hint_of
from capeval.scoring.result import ResultModel
from capeval.text import counted, listed

HUMAN_WORDS = {"f1": "F1", "covered": "coverage"}
"""Names of human scores in messages, where they differ from those in files."""

# Names in one line that is printed without --full.
_NAMED = 3


class Notice(ResultModel):
    """Something that was left out or is doubtful.

    Attributes
    ----------
    kind : one of those that `PHRASES` has
    metric, human, rater : what it is about: a metric or judge, a human score, one rater's
    values : its numbers and names
    """

    kind: str
    metric: str | None = None
    human: str | None = None
    rater: str | None = None
    values: dict[str, Any] = Field(default_factory=dict)

    @property
    def subject(self) -> str:
        """What it is about; empty if it is about the data as a whole."""
        if self.human is None:
            return self.metric or ""
        rater = f" of {self.rater}" if self.rater else ""
        return f"human {HUMAN_WORDS.get(self.human, self.human)}{rater}"

    @property
    def message(self) -> str:
        """What it says, without the subject."""
        return PHRASES[self.kind](self.values)

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}" if self.subject else self.message


def notice_lines(notices: Iterable[Notice], *, full: bool = True) -> list[str]:
    """Return a line for each notice; those that differ only in what they are about share one.

    Of raters, the first is named and the others are counted. Without `full`, three of the subjects
    are named.

    >>> few = {"count": 9, "unit": "video"}
    >>> notice_lines(Notice(kind="few", human=name, values=few) for name in ("f1", "recall"))
    ['human F1, human recall: only 9 videos (fewer than 30): intervals will be wide']
    """
    by_rater: dict[Hashable, list[Notice]] = {}
    for number, one in enumerate(notices):
        same = (one.kind, one.metric, one.human) if one.rater else number
        by_rater.setdefault(same, []).append(one)
    subjects: dict[str, list[str]] = {}
    for first, *others in by_rater.values():
        also = f" (also for {counted(len(others), 'other rater')})" if others else ""
        subjects.setdefault(first.message + also, []).append(first.subject)
    lines = []
    for message, names in subjects.items():
        named = listed(dict.fromkeys(names), len(names) if full else _NAMED)
        lines.append(f"{named}: {message}" if named else message)
    return lines


def _unmatched(v: Mapping[str, Any]) -> str:
    more = v["total"] - v["matched"] - len(v["missing"])
    names = ", ".join(v["missing"]) + (f" and {more} more" if more else "")
    return f"{v['matched']} of {v['total']} matched{hint_of(v['alike'])}; missing: {names}"


def _left_out(v: Mapping[str, Any]) -> str:
    return (
        f"{counted(v['labels'], 'label')} of videos without an annotation are left out: "
        f"{listed(v['videos'])}"
    )


PHRASES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "message": lambda v: str(v["text"]),
    "unmatched": _unmatched,
    "unannotated": _left_out,
    "partly_labelled": lambda v: (
        f"{counted(v['captions'], 'caption')} not fully labelled by a rater: these labels count "
        "for elements but give no score of the caption"
    ),
    "evenly_divided": lambda v: (
        f"raters are evenly divided on {counted(v['elements'], 'element')}, left out here; this "
        "favours a judge: see --raters each"
    ),
    "few": lambda v: (
        f"only {counted(v['count'], v['unit'])} (fewer than 30): intervals will be wide"
    ),
    "many": lambda v: (
        f"groups of more than {v['captions']:,} captions ({listed(v['groupings'])}) have intervals "
        "of Spearman's rho and Pearson's r only"
    ),
    "not_tunas_design": lambda v: (
        "the protocol tuna is for one caption of each of 40 videos; only then are values "
        f"comparable with the paper's; here are {counted(v['rows'], 'caption')} of "
        f"{counted(v['videos'], 'video')} by {counted(v['systems'], 'system')}"
    ),
    "too_few": lambda v: f"{counted(v['count'], v['unit'])}: no intervals (needs 5)",
    "ties": lambda v: (
        "more than 30% of all pairs are tied" if v["share"] < 1 else "constant, so no correlation"
    ),
    "no_human_score": lambda _: "there is no human score to compare a metric with",
    "unrated": lambda v: f"{counted(v['captions'], 'caption')} without this score",
}
"""The sentence of each kind."""
