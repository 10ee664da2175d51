"""The card of a judge: what share of certain verdicts it gets right, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from capeval.errors import InputError
from capeval.files.reading import parse_json, read_text
from capeval.runs.verdicts import JudgeIdentity, judged_by
from capeval.schema import ELEMENT_TYPES, RELATIONS, Judgment, Provenance, Relation, Scored, Usage
from capeval.stats.proportions import clusters_needed, design_effect, wilson
from capeval.text import complaint
from capeval.trust.probe import KINDS, Kind
from capeval.trust.probe_grading import Grade, Graded, grade_probes
from capeval.trust.probe_set import ProbeSet, rule_versions
from capeval.version import __version__

LAYOUT = 1
"""The version of the layout of `probe.json`."""

HALF_WIDTHS = {"3": 0.03, "10": 0.1}
"""The half-widths of intervals, by their points, for which a card says how many videos they take:
3 points for a kind of probe, 10 for one type of element in it."""

# What asks about the description; an injection is an attack on the judge, and is a line of its own.
_DESCRIPTIVE: frozenset[Kind] = frozenset(KINDS) - {"injected", "foreign"}


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rate(_Model):
    """A number of right verdicts out of `n`, in so many videos; fractions with a 95% interval.

    `design_effect` divides `n` in the interval. `videos_for` is the number of videos to probe for
    an interval of plus and minus so many points, by these points.
    """

    correct: int = Field(ge=0)
    n: int = Field(ge=0)
    videos: int = Field(ge=0)
    value: float | None = Field(ge=0, le=1)
    low: float | None = Field(ge=0, le=1)
    high: float | None = Field(ge=0, le=1)
    design_effect: float | None = Field(ge=1)
    videos_for: dict[str, int | None]


class KindResult(_Model):
    """What one kind of probe found.

    Attributes
    ----------
    captions, unscored : how many captions there are, and how many of them have no verdict
    tested : what the kind is about, for all elements ("all") and for each type that occurs
    others : elements whose verdict must be that on the unchanged caption, as in `tested`
    unmatched : events that must have no match
    ungraded, unused : elements that were not graded, and what no caption could use, by reason
    """

    captions: int = Field(ge=0)
    unscored: int = Field(ge=0)
    tested: dict[str, Rate]
    others: dict[str, Rate]
    unmatched: Rate
    ungraded: dict[str, int]
    unused: dict[str, int]


class Headline(_Model):
    """The mean of the three recalls; None where one of them is of nothing.

    A recall is over all elements of descriptive captions with this expected verdict, as in the
    confusion matrix, whether or not the base caption was judged rightly.

    Its interval is the mean of the three intervals, which holds however they depend on each other.
    """

    value: float | None = Field(ge=0, le=1)
    low: float | None
    high: float | None
    recalls: dict[Relation, Rate]
    worst: str | None
    worst_value: float | None


class ProbedJudge(_Model):
    """Who was probed: the fields of `JudgeIdentity`, and what its verdicts record.

    `hashes` are those of its full identity, the present one first, then those under which earlier
    versions of capeval stored verdicts of the same judge.
    """

    identity: dict[str, Any]
    hashes: list[str] = Field(min_length=1)
    title: str
    models: list[str]
    fingerprints: list[str]
    left_off: list[str]


class Card(_Model):
    """The content of `probe.json`."""

    layout: int = LAYOUT
    version: str
    judge: ProbedJudge
    seed: int
    annotated: int
    videos: int
    data: str
    probes: str
    rules: dict[str, str]
    captions: int
    unscored: int
    headline: Headline
    kinds: dict[Kind, KindResult]
    confusion: dict[Relation, dict[Relation, int]]
    repeat: Rate
    repeat_unscored: int
    usage: Usage
    cost: float | None
    """US dollars of all calls, cached or not, at the price of the day; None without a price."""

    @property
    def name(self) -> str:
        """The judge's name."""
        return str(self.judge.identity["judge"])


def make_card(
    probes: ProbeSet,
    judgments: Mapping[str, Judgment],
    *,
    identity: JudgeIdentity,
    hashes: Sequence[str],
    title: str,
    cost: Callable[[Usage], float | None],
) -> Card:
    """Return the card of a judge from its verdicts on probes, by id.

    Parameters
    ----------
    identity : of the judge, used where it scored nothing
    hashes : as in `ProbedJudge`
    cost : the price of tokens
    """
    graded = grade_probes(probes, judgments)
    counts = Counter(probe.kind for probe in probes.probes)
    mine = [judgments[probe.id] for probe in probes.probes if probe.id in judgments]
    scored = [one for one in mine if isinstance(one, Scored)]
    stored, models = judged_by(mine) if mine else (identity, [])
    usage = sum((part for one in mine for part in one.usage.values()), Usage())
    videos = len(probes.videos)
    kinds = {
        kind: _kind(kind, graded, probes, counts[kind], videos)
        for kind in KINDS
        if counts[kind] or probes.unused.get(kind)
    }
    again = graded.agreement
    return Card(
        version=__version__,
        judge=ProbedJudge(
            identity=identity_fields(stored),
            hashes=list(hashes),
            title=title,
            models=models,
            fingerprints=_recorded(scored, lambda made: made.fingerprints),
            left_off=_recorded(scored, lambda made: made.left_off),
        ),
        seed=probes.seed,
        annotated=probes.annotated,
        videos=videos,
        data=probes.data,
        probes=probes.digest,
        rules=rule_versions(),
        captions=len(probes.probes),
        unscored=sum(graded.unscored.values()),
        headline=_headline(graded, kinds, videos),
        kinds=kinds,
        confusion=_confusion(graded),
        repeat=_rate([one for one, _ in again.values()], [n for _, n in again.values()], videos),
        repeat_unscored=graded.unscored.get("repeat", 0),
        usage=usage,
        cost=cost(usage),
    )


def identity_fields(identity: JudgeIdentity) -> dict[str, Any]:
    """Return the fields of an identity that two verdicts must share to be of one judge."""
    compared = {one.name for one in fields(identity) if one.compare}
    return {name: value for name, value in asdict(identity).items() if name in compared}


def load_card(file: Path) -> Card:
    """Read a `probe.json`; raises `InputError`."""
    value = parse_json(read_text(file), file=file)
    try:
        return Card.model_validate(value)
    except ValidationError as faults:
        field, message = complaint(faults)
        raise InputError(
            f"{message}; run `capeval probe` again", file=file, field=field[:200]
        ) from None


def _recorded(scored: Sequence[Scored], of: Callable[[Provenance], Iterable[str]]) -> list[str]:
    return sorted({value for one in scored for value in of(one.provenance)})


def _kind(kind: Kind, graded: Graded, probes: ProbeSet, captions: int, videos: int) -> KindResult:
    mine = [grade for grade in graded.grades if grade.kind == kind and grade.counts]
    matched = graded.unmatched.get(kind, ())
    return KindResult(
        captions=captions,
        unscored=graded.unscored.get(kind, 0),
        tested=_by_type([grade for grade in mine if grade.tested], videos),
        others=_by_type([grade for grade in mine if not grade.tested], videos),
        # One event of a video.
        unmatched=_rate([int(right) for right in matched], [1] * len(matched), videos),
        ungraded=dict(graded.ungraded.get(kind, {})),
        unused=dict(probes.unused.get(kind, {})),
    )


def _by_type(grades: Sequence[Grade], videos: int) -> dict[str, Rate]:
    groups = {"all": grades} | {
        kind: of for kind in ELEMENT_TYPES if (of := [g for g in grades if g.type == kind])
    }
    return {name: rate_of(of, videos) for name, of in groups.items() if of}


def rate_of(grades: Iterable[Grade], videos: int) -> Rate:
    """Return the share of right verdicts, clustered by video.

    `videos` is the number of videos probed, whether or not they have such an element.
    """
    correct: Counter[str] = Counter()
    n: Counter[str] = Counter()
    for grade in grades:
        correct[grade.video] += grade.correct
        n[grade.video] += 1
    return _rate([correct[video] for video in n], list(n.values()), videos)


def _rate(correct: Sequence[int], n: Sequence[int], videos: int) -> Rate:
    total = sum(n)
    if not total:
        return Rate(
            correct=0,
            n=0,
            videos=0,
            value=None,
            low=None,
            high=None,
            design_effect=None,
            videos_for={},
        )
    right = sum(correct)
    effect = design_effect(np.array(correct, dtype=float), np.array(n, dtype=float))
    low, high = wilson(right / total, total / effect)
    return Rate(
        correct=right,
        n=total,
        videos=len(n),
        value=right / total,
        low=low,
        high=high,
        design_effect=effect,
        videos_for={
            points: clusters_needed(right / total, total / effect / videos, width)
            for points, width in HALF_WIDTHS.items()
        },
    )


def _headline(graded: Graded, kinds: Mapping[Kind, KindResult], videos: int) -> Headline:
    descriptive = [grade for grade in graded.grades if grade.kind in _DESCRIPTIVE]
    recalls = {
        relation: rate_of((g for g in descriptive if g.expected == relation), videos)
        for relation in RELATIONS
    }
    of = list(recalls.values())
    known = all(rate.n for rate in of)
    lines = [
        (rate.value, name)
        for kind, result in kinds.items()
        for name, rates in ((kind, result.tested), (f"{kind}: rest", result.others))
        if (rate := rates.get("all")) is not None and rate.value is not None
    ]
    worst = min(lines, key=lambda line: line[0], default=None)
    return Headline(
        value=sum(rate.value or 0.0 for rate in of) / len(of) if known else None,
        low=sum(rate.low or 0.0 for rate in of) / len(of) if known else None,
        high=sum(rate.high or 0.0 for rate in of) / len(of) if known else None,
        recalls=recalls,
        worst=worst and worst[1],
        worst_value=worst and worst[0],
    )


def _confusion(graded: Graded) -> dict[Relation, dict[Relation, int]]:
    found = Counter(
        (grade.expected, grade.given) for grade in graded.grades if grade.kind in _DESCRIPTIVE
    )
    return {one: {other: found[one, other] for other in RELATIONS} for one in RELATIONS}
