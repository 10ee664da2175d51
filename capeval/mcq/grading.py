"""Grade the responses of one model: accuracy, its intervals, its groups and its baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import fsum
from typing import Any

import numpy as np

from capeval.mcq.asked import Asked, letter_of
from capeval.mcq.breakdown import CHANGES, grouped
from capeval.mcq.grades import (
    Accuracy,
    Counts,
    GradedItem,
    Grades,
    Group,
    StrategyGrades,
)
from capeval.mcq.strategies import Convention, Decision, Strategy
from capeval.schema.question import Question
from capeval.stats.values import Interval, Missing
from capeval.stats.video_ratios import VideoRatios


@dataclass(frozen=True)
class Graded:
    """What was decided, before it is counted.

    Attributes
    ----------
    questions : what should have been asked, if it is known
    by : tags to group by, in place of the benchmark's own
    """

    asked: Sequence[Asked]
    decisions: Sequence[Decision]
    strategy: Strategy
    convention: Convention | None = None
    questions: Sequence[Question] | None = None
    by: Sequence[str] = ()
    resamples: int = 10_000
    seed: int = 0
    sides: Mapping[str, Sequence[Decision]] = field(default_factory=dict)


def count_grades(
    graded: Graded,
    *,
    signature: str,
    settings: Mapping[str, Any],
    strategies: Mapping[str, Strategy],
    captioning: dict[str, Any] | None = None,
) -> Grades:
    """Return the result of what was decided."""
    count = _Counter(graded)
    return Grades.model_construct(
        signature=signature,
        settings=dict(settings),
        counts=count.counts,
        overall=count.groups[_ALL],
        by={
            tag: {bucket: count.groups[tag, bucket] for bucket in buckets}
            for tag, buckets in count.places.items()
        },
        changes=count.changes(),
        decided_by=count.decided_by(),
        baselines=count.baselines(),
        strategies=[
            count.side(strategies[name], decisions) for name, decisions in graded.sides.items()
        ],
        captioning=captioning,
        items=count.items(),
    )


_ALL = ("overall", "all")


class _Counter:
    """Counts decisions; arrays have one entry per response."""

    def __init__(self, graded: Graded) -> None:
        self._graded = graded
        self._asked, self._decisions = graded.asked, graded.decisions
        self._responses = [one.response for one in graded.asked]
        self._scored = np.array([not one.unscored for one in graded.decisions], dtype=bool)
        self._answered = np.array([one.option is not None for one in graded.decisions], dtype=bool)
        right = [
            decision.option == one.right
            for one, decision in zip(graded.asked, graded.decisions, strict=True)
        ]
        self._right = np.array(right, dtype=bool)
        self._by_chance = np.array([one.by_chance for one in graded.decisions], dtype=bool)
        only_read = graded.convention is not None and graded.convention.only_read
        self._counted = self._scored & self._answered if only_read else self._scored
        # Where the video is not known, each question is one.
        videos = [r.video or f"\0{r.benchmark}\0{r.id}" for r in self._responses]
        # Sorted, so that the resamples do not depend on the order of the responses.
        names = {name: at for at, name in enumerate(sorted(set(videos)))}
        self._video = np.array([names[name] for name in videos], dtype=np.intp)
        self._chance = np.array([1 / len(r.options) for r in self._responses])
        self._frequent_letter, self._frequent = self._most_common()
        self.places = grouped(self._responses, graded.by)
        self._set_groups()

    def _most_common(self) -> tuple[str, np.ndarray[Any, Any]]:
        times = Counter(one.answer for one in self._graded.questions or self._responses)
        # Of equally common letters the first, so that the result does not depend on the order.
        letter = min(times, key=lambda one: (-times[one], one), default="A")
        return letter, np.array([one.answer == letter for one in self._responses], dtype=bool)

    def _set_groups(self) -> None:
        self._columns: dict[tuple[str, str], np.ndarray[Any, Any]] = {}
        every = np.arange(len(self._responses))
        for name, at in (
            (_ALL, every),
            *(
                ((tag, bucket), np.array(places, dtype=np.intp))
                for tag, buckets in self.places.items()
                for bucket, places in buckets.items()
            ),
        ):
            self._columns[name] = at[self._counted[at]]
        self._number = {name: at for at, name in enumerate(self._columns)}
        self._ratios = self._bootstrap(list(self._columns.values()), self._right)
        self.groups = {name: self._group(name) for name in self._columns}

    def _bootstrap(
        self, columns: Sequence[np.ndarray[Any, Any]], right: np.ndarray[Any, Any]
    ) -> VideoRatios:
        used = np.unique(np.concatenate([self._video[at] for at in columns] or [self._video[:0]]))
        row = np.zeros(int(self._video.max(initial=0)) + 1, dtype=np.intp)
        row[used] = np.arange(len(used))
        shape = (len(used), len(columns))
        corrects, asked = np.zeros(shape), np.zeros(shape)
        for column, at in enumerate(columns):
            rows = row[self._video[at]]
            asked[:, column] = np.bincount(rows, minlength=len(used))
            corrects[:, column] = np.bincount(rows, weights=right[at], minlength=len(used))
        return VideoRatios(
            corrects, asked, resamples=self._graded.resamples, seed=self._graded.seed
        )

    def _group(self, name: tuple[str, str]) -> Group:
        at = self._columns[name]
        n, correct = len(at), int(self._right[at].sum())
        answered = int(self._answered[at].sum())
        right_answered = int((self._right[at] & self._answered[at]).sum())
        return Group.model_construct(
            accuracy=_accuracy(correct, n, self._ratios.share(self._number[name]) if n else None),
            n=n,
            correct=correct,
            answered=answered,
            accuracy_answered=right_answered / answered if answered else None,
            by_chance=int(self._by_chance[at].sum()),
            videos=len(np.unique(self._video[at])),
            baselines=self._baselines_at(at),
        )

    def _baselines_at(self, at: np.ndarray[Any, Any]) -> dict[str, float | None]:
        n = len(at)
        return {
            # Summed exactly, whatever the order of the responses is.
            "chance": fsum(self._chance[at]) / n if n else None,
            "frequent": float(self._frequent[at].mean()) if n else None,
        }

    # ---- the parts of the result -------------------------------------------------------------

    @cached_property
    def counts(self) -> Counts:
        """How many replies there are of each kind."""
        keys = {(r.benchmark, r.id) for r in self._responses}
        known = self._graded.questions
        missing = 0 if known is None else sum((q.benchmark, q.id) not in keys for q in known)
        scored, answered = self._scored, self._answered & self._scored
        empty = sum(one.is_empty and ok for one, ok in zip(self._asked, scored, strict=True))
        return Counts(
            questions=len(keys) + missing,
            responses=len(self._responses),
            missing=missing,
            failed=int((~scored).sum()),
            scored=int(scored.sum()),
            empty=int(empty),
            answered=int(answered.sum()),
            no_answer=int((scored & ~self._answered).sum()),
            by_chance=int(self._by_chance.sum()),
            counted=int(self._counted.sum()),
            unlike_exact=_unlike_exact(self._asked, self._decisions),
        )

    def _one(self, at: np.ndarray[Any, Any], right: np.ndarray[Any, Any] | None = None) -> Accuracy:
        right = self._right if right is None else right
        if not len(at):
            return Accuracy(value=None, reason="there is no reply")
        return _accuracy(int(right[at].sum()), len(at), self._bootstrap([at], right).share(0))

    def changes(self) -> dict[str, Accuracy]:
        """Return the relative change of accuracy where a flag is true."""
        found = {}
        for flag in CHANGES:
            true, false = (flag, "true"), (flag, "false")
            if true not in self.groups or false not in self.groups:
                continue
            base, value = self.groups[false].accuracy.value, self.groups[true].accuracy.value
            if not base or value is None:
                reason = "no reply counts" if base is None or value is None else "accuracy is 0"
                where = "true" if value is None else "false"
                found[flag] = Accuracy(value=None, reason=f"{reason} where it is {where}")
                continue
            ends = self._ratios.share_change(self._number[true], self._number[false])
            found[flag] = _with_ends(value / base - 1, ends)
        return found

    def decided_by(self) -> dict[str, int]:
        """Return how many replies each rule decided."""
        return _rules(self._decisions)

    def baselines(self) -> dict[str, Any]:
        """Return the baselines of the whole set."""
        values = self.groups[_ALL].baselines
        return {
            **values,
            "frequent": {"letter": self._frequent_letter, "value": values["frequent"]},
        }

    def side(self, strategy: Strategy, decisions: Sequence[Decision]) -> StrategyGrades:
        """Return a strategy's result over all replies that it can grade."""
        right = np.array(
            [d.option == one.right for one, d in zip(self._asked, decisions, strict=True)],
            dtype=bool,
        )
        at = np.array([i for i, one in enumerate(decisions) if not one.unscored], dtype=np.intp)
        answered = [i for i in at if decisions[i].option is not None]
        return StrategyGrades.model_construct(
            select=strategy.name,
            published=strategy.published,
            accuracy=self._one(at, right),
            accuracy_answered=float(right[answered].mean()) if answered else None,
            n=len(at),
            answered=len(answered),
            by_chance=sum(one.by_chance for one in decisions),
            failed=len(decisions) - len(at),
            unlike_exact=_unlike_exact(self._asked, decisions),
            decided_by=_rules(decisions),
        )

    def items(self) -> list[GradedItem]:
        """Return every response with its decision."""
        rows = zip(self._asked, self._decisions, self._counted, self._right, strict=True)
        return [
            GradedItem(
                id=one.response.id,
                benchmark=one.response.benchmark,
                video=one.response.video,
                answer=one.response.answer,
                choice=letter_of(decision.option),
                correct=bool(right) if counted else None,
                rule=decision.rule,
                by_chance=decision.by_chance,
                exact=None if decision.unscored else letter_of(one.exact.option),
                reply=one.response.reply,
                reason=decision.unscored or None,
                frames=one.response.frames,
                tags=one.response.tags,
            )
            for one, decision, counted, right in rows
        ]


def _accuracy(correct: int, n: int, ends: Interval | Missing | None) -> Accuracy:
    if not n or ends is None:
        return Accuracy.model_construct(value=None, low=None, high=None, reason="no reply counts")
    return _with_ends(correct / n, ends)


def _with_ends(value: float, ends: Interval | Missing) -> Accuracy:
    if isinstance(ends, Missing):
        return Accuracy.model_construct(value=value, low=None, high=None, reason=ends.reason)
    return Accuracy.model_construct(value=value, low=ends.low, high=ends.high, reason=None)


def _rules(decisions: Sequence[Decision]) -> dict[str, int]:
    times = Counter(one.rule for one in decisions)
    return dict(sorted(times.items(), key=lambda rule: (-rule[1], rule[0])))


def _unlike_exact(asked: Sequence[Asked], decisions: Sequence[Decision]) -> int:
    return sum(
        not decision.unscored and one.failure is None and decision.option != one.exact.option
        for one, decision in zip(asked, decisions, strict=True)
    )
