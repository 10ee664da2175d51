"""Grade the responses of one model: accuracy, its intervals, its groups and its baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capeval.files.jsonl import collection_paused
from capeval.mcq.grades import GradedItem, Grades, Group, ReplyCounts
from capeval.mcq.strategies import Decision, ReplyToGrade
from capeval.mcq.tags import FLAGS, grouped
from capeval.schema import OPTION_LETTERS, Question
from capeval.stats.values import Coefficient, Interval, Missing
from capeval.stats.video_ratios import VideoRatios

_ALL = ("overall", "all")
_Places = NDArray[np.intp]


@dataclass
class Graded:
    """The decisions as arrays with one entry per response, before they are counted.

    `questions` are all that should have a response; `only_read` leaves out replies without an
    answer.
    """

    asked: Sequence[ReplyToGrade]
    decisions: Sequence[Decision]
    questions: Sequence[Question] | None = None
    only_read: bool = False
    resamples: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        responses = [one.response for one in self.asked]
        pairs = zip(self.asked, self.decisions, strict=True)
        self.right = np.array([one.option == asked.right for asked, one in pairs], dtype=bool)
        self.scored = np.array([not one.unscored for one in self.decisions], dtype=bool)
        self.answered = np.array([one.option is not None for one in self.decisions], dtype=bool)
        self.by_chance = np.array([one.by_chance for one in self.decisions], dtype=bool)
        self.counted = self.scored & self.answered if self.only_read else self.scored
        # Without a known video, a question counts as one.
        videos = [r.video or f"\0{r.benchmark}\0{r.id}" for r in responses]
        # Numbered in sorted order, so that resamples do not depend on the order of the responses.
        self._video = np.unique(videos, return_inverse=True)[1]
        self._chance = np.array([1 / len(r.options) for r in responses])
        times = Counter(one.answer for one in self.questions or responses)
        # Of equally common letters the first, so that the result does not depend on the order.
        self.letter = min(times, key=lambda one: (-times[one], one), default="A")
        self._frequent = np.array([one.answer == self.letter for one in responses], dtype=bool)

    def counted_of(self, places: Sequence[int]) -> _Places:
        at: _Places = np.array(places, dtype=np.intp)
        counted: _Places = at[self.counted[at]]
        return counted

    def ratios(self, columns: Sequence[_Places]) -> VideoRatios:
        places = np.concatenate(columns)
        used, rows = np.unique(self._video[places], return_inverse=True)
        shape = (len(used), len(columns))
        cells = rows * len(columns) + np.repeat(np.arange(len(columns)), [*map(len, columns)])
        right, asked = (
            np.bincount(cells, weights, len(used) * len(columns)).reshape(shape).astype(np.float64)
            for weights in (self.right[places], None)
        )
        return VideoRatios(right, asked, resamples=self.resamples, seed=self.seed)

    def group(self, at: _Places, ends: Interval | Missing | None) -> Group:
        n, correct = len(at), int(self.right[at].sum())
        answered = int(self.answered[at].sum())
        right_answered = int((self.right[at] & self.answered[at]).sum())
        return Group.model_construct(
            accuracy=(
                Coefficient(None, reason="no reply counts")
                if ends is None
                else Coefficient.of(correct / n, ends)
            ),
            n=n,
            correct=correct,
            answered=answered,
            accuracy_answered=right_answered / answered if answered else None,
            by_chance=int(self.by_chance[at].sum()),
            videos=len(np.unique(self._video[at])),
            baselines={
                # Summed exactly, whatever the order of the responses is.
                "chance": fsum(self._chance[at]) / n if n else None,
                "frequent": float(self._frequent[at].mean()) if n else None,
            },
        )

    def counts(self) -> ReplyCounts:
        keys = {(one.response.benchmark, one.response.id) for one in self.asked}
        missing = sum((q.benchmark, q.id) not in keys for q in self.questions or ())
        pairs = [*zip(self.asked, self.decisions, strict=True)]
        scored, answered = int(self.scored.sum()), int((self.scored & self.answered).sum())
        return ReplyCounts(
            questions=len(keys) + missing,
            responses=len(self.asked),
            missing=missing,
            failed=len(self.asked) - scored,
            scored=scored,
            empty=sum(one.is_empty and not decision.unscored for one, decision in pairs),
            answered=answered,
            no_answer=scored - answered,
            by_chance=int(self.by_chance.sum()),
            counted=int(self.counted.sum()),
            unlike_exact=sum(
                not decision.unscored
                and one.failure is None
                and decision.option != one.exact.option
                for one, decision in pairs
            ),
        )

    def items(self) -> list[GradedItem]:
        rows = zip(self.asked, self.decisions, self.counted, self.right, strict=True)
        return [
            GradedItem(
                id=one.response.id,
                benchmark=one.response.benchmark,
                video=one.response.video,
                answer=one.response.answer,
                choice=_letter(decision.option),
                correct=bool(right) if counted else None,
                rule=decision.rule,
                by_chance=decision.by_chance,
                exact=None if decision.unscored else _letter(one.exact.option),
                reply=one.response.reply,
                reason=decision.unscored or None,
                frames=one.response.frames,
                tags=one.response.tags,
            )
            for one, decision, counted, right in rows
        ]


@collection_paused()
def count_grades(
    graded: Graded,
    *,
    signature: str,
    settings: Mapping[str, Any],
    by: Sequence[str] | None = (),
) -> Grades:
    """Return the result of decisions by tags: the benchmark's or `by`; None for no groups."""
    tags = {} if by is None else grouped([one.response for one in graded.asked], by)
    columns = {_ALL: graded.counted_of(range(len(graded.asked)))}
    columns |= {
        (tag, name): graded.counted_of(at)
        for tag, places in tags.items()
        for name, at in places.items()
    }
    ratios = graded.ratios([*columns.values()])
    groups = {
        name: graded.group(at, ratios.share(number) if len(at) else None)
        for number, (name, at) in enumerate(columns.items())
    }
    whole, rules = groups[_ALL], Counter(one.rule for one in graded.decisions)
    frequent = {"letter": graded.letter, "value": whole.baselines["frequent"]}
    return Grades.model_construct(
        signature=signature,
        settings=dict(settings),
        counts=graded.counts(),
        overall=whole,
        by={tag: {name: groups[tag, name] for name in places} for tag, places in tags.items()},
        changes=_changes(groups, ratios),
        decided_by=dict(sorted(rules.items(), key=lambda rule: (-rule[1], rule[0]))),
        baselines={**whole.baselines, "frequent": frequent},
        items=[] if by is None else graded.items(),
    )


def _letter(option: int | None) -> str | None:
    return None if option is None else OPTION_LETTERS[option]


def _changes(
    groups: Mapping[tuple[str, str], Group], ratios: VideoRatios
) -> dict[str, Coefficient]:
    found = {}
    columns = [*groups]
    for flag in FLAGS:
        true, false = (flag, "true"), (flag, "false")
        if true not in groups or false not in groups:
            continue
        base, value = groups[false].accuracy.value, groups[true].accuracy.value
        if not base or value is None:
            reason = "no reply counts" if base is None or value is None else "accuracy is 0"
            where = "true" if value is None else "false"
            found[flag] = Coefficient(None, reason=f"{reason} where it is {where}")
            continue
        ends = ratios.share_change(columns.index(true), columns.index(false))
        found[flag] = Coefficient.of(value / base - 1, ends)
    return found
