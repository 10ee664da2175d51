"""The weaknesses of a run, in sentences computed from its verdicts and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from capeval.schema import RELATIONS, Annotation, Relation, Scored
from capeval.scoring.counts import GROUPS, WAYS
from capeval.scoring.judged_run import JudgedRun
from capeval.scoring.scores import Scores, scores_by
from capeval.show.numbers import interval, percent, place_name, thousands
from capeval.stats.values import FEWEST_VIDEOS
from capeval.text import counted

# The highest weight of an element.
_MAIN = 3
# Lists of these lengths can be read at a glance.
_MOST_LISTED, _MOST_LOSSES = 8, 5


@dataclass(frozen=True)
class Share:
    """A row of a stacked bar: the weight of all elements or of a type, by verdict."""

    label: str
    weights: Mapping[Relation, int]

    @property
    def total(self) -> int:
        return sum(self.weights.values())

    @property
    def parts(self) -> Mapping[Relation, float]:
        return {verdict: weight / self.total for verdict, weight in self.weights.items()}


@dataclass(frozen=True)
class LostWeight:
    """A video and the weight that was not entailed in it, of all its weight."""

    index: str
    lost: int
    total: int


@dataclass(frozen=True)
class Findings:
    """The weaknesses of one run.

    `sentences` are by heading, the same headings for all runs, and "" where the annotations have
    no such kinds of videos; `shares` are weights of all elements, then by type.
    """

    sentences: Mapping[str, str]
    shares: tuple[Share, ...]
    losses: tuple[LostWeight, ...]


@dataclass(frozen=True)
class Missed:
    """An element of the highest weight, and how many of all repeats in all runs missed it."""

    index: str
    id: str
    type: str
    content: str
    missed: int
    contradicted: int
    repeats: int


@dataclass(frozen=True)
class MissedElements:
    """Some of the elements of the highest weight that are not entailed, most missed first.

    `any` counts elements missed at least once, `by_all` those missed by every repeat.
    """

    listed: tuple[Missed, ...]
    any: int
    by_all: int
    contradicted: int


class _Event(NamedTuple):
    """A reference event: whether it is matched, and the weights and verdicts of its elements."""

    matched: bool
    elements: Sequence[tuple[int, Relation]]

    def weight(self, *verdicts: Relation) -> int:
        return sum(weight for weight, verdict in self.elements if verdict in verdicts)


def _judged(annotation: Annotation, verdict: Scored) -> list[_Event]:
    return [
        _Event(
            number in verdict.matches,
            [(e.weight, label) for e, label in zip(event.visual_elements, labels, strict=True)],
        )
        for number, (event, labels) in enumerate(
            zip(annotation.events, verdict.relations, strict=True), start=1
        )
    ]


def findings_of(run: JudgedRun) -> Findings:
    scores = run.scores
    scored = run.scored
    videos = [_judged(one, scored[one.index]) for one in run.annotations if one.index in scored]
    events = [event for video in videos for event in video]
    shares = _shares(scores)
    sentences = {
        "Weakest type": _ends(scores, "type"),
        "Lacking or contradicted": _weight(shares),
        "Highest weight": _main(events),
        "Unmentioned events": _events(events),
        "Beginning and end": _order(videos),
        "Weakest kind of video": _ends(scores, "visual_characteristic"),
        "Weakest by events": _ends(scores, "events"),
        "Weakest by elements": _ends(scores, "elements"),
        "Weakest domain": _ends(scores, "domain"),
        "Unmatched events": _unmatched(scores),
    }
    if not videos:
        sentences = dict.fromkeys(sentences, "No video is scored.")
    totals = [(index, of["all"]) for index, of in scores.videos.items()]
    losses = [LostWeight(index, of.total - of.entailed, of.total) for index, of in totals]
    losses.sort(key=lambda loss: -loss.lost)
    return Findings(sentences, shares, tuple(loss for loss in losses[:_MOST_LOSSES] if loss.lost))


def missed_elements(runs: Sequence[JudgedRun]) -> MissedElements:
    """Return main elements that are not entailed, at most one per video.

    Elements that most repeats of all runs miss come first, in ties contradicted ones, then those of
    the video that lost the most weight.
    """
    found: list[tuple[tuple[float, ...], Missed]] = []
    for annotation in runs[0].annotations:
        index = annotation.index
        judged = [
            (run.scored[index], run.scores.videos[index]["all"])
            for run in runs
            if index in run.scored
        ]
        lost = sum(of.total - of.entailed for _, of in judged)
        verdicts = [vote.relations for one, _ in judged for vote in (one.repeats or (one,))]
        labels = zip(*(chain.from_iterable(one) for one in verdicts), strict=True)
        for (place, element), votes in zip(annotation.elements.items(), labels, strict=False):
            missed = sum(vote != "entailment" for vote in votes)
            if element.weight == _MAIN and missed:
                wrong = votes.count("contradiction")
                of = (index, place, element.type, element.content)
                order = -missed / len(votes), -wrong / len(votes), -lost / len(judged)
                found.append((order, Missed(*of, missed, wrong, len(votes))))
    of_each: dict[str, Missed] = {}
    for _, one in sorted(found, key=lambda pair: pair[0]):
        of_each.setdefault(one.index, one)
    return MissedElements(
        listed=tuple(of_each.values())[:_MOST_LISTED],
        any=len(found),
        by_all=sum(one.missed == one.repeats for _, one in found),
        contradicted=sum(one.contradicted > 0 for _, one in found),
    )


def _shares(scores: Scores) -> tuple[Share, ...]:
    rows = []
    for group in GROUPS:
        of_videos = [of[group] for of in scores.videos.values() if group in of]
        entailed = sum(score.entailed for score in of_videos)
        contradicted = sum(score.contradicted for score in of_videos)
        lacked = sum(score.total for score in of_videos) - entailed - contradicted
        weights: dict[Relation, int] = {
            "entailment": entailed,
            "contradiction": contradicted,
            "lack": lacked,
        }
        if any(weights.values()):
            rows.append(Share(group, weights))
    return tuple(rows)


def _ends(scores: Scores, way: str) -> str:
    """Describe the weakest and the strongest place with enough videos."""
    unit = WAYS[way].unit
    places = {name: of for name, of in scores_by(scores, way).items() if of.n}
    known = {name: of for name, of in places.items() if of.n >= FEWEST_VIDEOS}
    if len(places) < 2:
        return ""
    if len(known) < 2:
        return f"Too few videos to compare: two groups of {FEWEST_VIDEOS} are needed."
    f1 = {name: of.f1.value or 0.0 for name, of in known.items()}
    low_name, high_name = min(f1, key=lambda name: f1[name]), max(f1, key=lambda name: f1[name])
    worst, best = known[low_name], known[high_name]
    gap = f1[high_name] - f1[low_name]
    if not gap:
        return f"None: all have F1 {percent(best.f1.value)}."
    text = (
        f"{place_name(low_name, 80)}{unit}: F1 {interval(worst.f1)} over "
        f"{counted(worst.n, 'video')}, {percent(gap)} points below the strongest, "
        f"{place_name(high_name, 80)}{unit} with {interval(best.f1)} over "
        f"{counted(best.n, 'video')}."
    )
    high, low = worst.f1.high, best.f1.low
    if high is not None and low is not None and high >= low:
        text += " Their intervals overlap: this order may be chance."
    return text


def _weight(shares: Sequence[Share]) -> str:
    if not shares:
        return ""
    everything, *types = shares
    part = everything.parts
    text = (
        f"Of the annotated weight the captions entail {percent(part['entailment'])}%, lack "
        f"{percent(part['lack'])}% and contradict {percent(part['contradiction'])}%."
    )
    named: tuple[tuple[str, Relation], ...] = (
        ("Lacking most", "lack"),
        ("Contradicted most", "contradiction"),
    )
    for what, verdict in named:
        by_type = {one.label: one.parts[verdict] for one in types}
        if len({*by_type.values()}) > 1:
            name = max(by_type, key=lambda one: by_type[one])
            text += f" {what}: {name} ({percent(by_type[name])}%)."
    return text


def _main(events: Sequence[_Event]) -> str:
    relations = [verdict for one in events for weight, verdict in one.elements if weight == _MAIN]
    if not relations:
        return "No element has the highest weight."
    lacked, wrong = relations.count("lack"), relations.count("contradiction")
    return (
        f"Of {counted(len(relations), 'element')} of the highest weight, "
        f"{percent(lacked / len(relations))}% are lacking and "
        f"{percent(wrong / len(relations))}% contradicted."
    )


def _events(events: Sequence[_Event]) -> str:
    silent = [event for event in events if not event.matched]
    lost = sum(event.weight("lack") for event in events)
    if not lost or not silent:
        return "None: every reference event is matched by a candidate event."
    return (
        f"{thousands(len(silent))} of {counted(len(events), 'reference event')} match "
        f"no candidate event; {percent(sum(one.weight('lack') for one in silent) / lost)}% of "
        "the lacking weight is lost with them; the rest is detail in events that the captions "
        "mention."
    )


def _order(videos: Sequence[Sequence[_Event]]) -> str:
    several = [events for events in videos if len(events) > 1]
    if len(several) < FEWEST_VIDEOS:
        return f"Too few videos of two events or more: {FEWEST_VIDEOS} are needed."
    parts = []
    for place in (0, -1):
        entailed = sum(events[place].weight("entailment") for events in several)
        total = sum(events[place].weight(*RELATIONS) for events in several)
        parts.append(percent(entailed / total))
    return (
        f"In {counted(len(several), 'video')} of two events or more, captions entail {parts[0]}% "
        f"of the first event's weight and {parts[1]}% of the last one's."
    )


def _unmatched(scores: Scores) -> str:
    unmatched = scores.unmatched_events
    if not unmatched.unmatched:
        return "None: every candidate event matches a reference event."
    return (
        f"{thousands(unmatched.unmatched)} of "
        f"{counted(unmatched.candidate, 'candidate event')} ({percent(unmatched.share)}%) "
        "match no reference event. The method neither rewards nor penalises them."
    )
