"""The weaknesses of a run, in sentences computed from its verdicts and scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from capeval.reporting.inspect import EventView, VideoCard
from capeval.schema import ELEMENT_TYPES, Relation
from capeval.scoring import FEWEST_VIDEOS, Scores
from capeval.scoring.counts import WAYS
from capeval.scoring.scores import scores_by
from capeval.show.numbers import interval, percent, place_name, thousands
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
    """Some of the elements of the highest weight that are not entailed, those missed most first.

    `any` counts elements missed at least once, `by_all` those missed by every repeat.
    """

    listed: tuple[Missed, ...]
    any: int
    by_all: int
    contradicted: int


def findings_of(cards: Sequence[VideoCard], scores: Scores) -> Findings:
    """Return the weaknesses of a run."""
    scored = [card for card in cards if card.status == "scored"]
    shares = _shares(scored)
    sentences = {
        "Weakest type": _ends(scores, "type"),
        "Lacking or contradicted": _weight(shares),
        "Highest weight": _main(scored),
        "Unmentioned events": _events(scored),
        "Beginning and end": _order(scored),
        "Weakest kind of video": _ends(scores, "visual_characteristic"),
        "Weakest by events": _ends(scores, "events"),
        "Weakest by elements": _ends(scores, "elements"),
        "Weakest domain": _ends(scores, "domain"),
        "Unmatched events": _unmatched(scores),
    }
    if not scored:
        sentences = dict.fromkeys(sentences, "No video is scored.")
    totals = [(card.index, card.scores["all"]) for card in scored]
    losses = [LostWeight(index, of.total - of.entailed, of.total) for index, of in totals]
    losses.sort(key=lambda loss: -loss.lost)
    return Findings(sentences, shares, tuple(loss for loss in losses[:_MOST_LOSSES] if loss.lost))


def missed_elements(runs: Sequence[Sequence[VideoCard]]) -> MissedElements:
    """Return main elements that are not entailed, at most one per video.

    Those that most repeats of all runs miss come first; of equals the contradicted, then those of
    the video that lost the most weight.
    """
    found: list[tuple[tuple[float, ...], Missed]] = []
    for cards in zip(*runs, strict=True):
        scored = [card for card in cards if card.status == "scored"]
        lost = sum(of.total - of.entailed for of in (card.scores["all"] for card in scored))
        for places in zip(*(card.elements for card in scored), strict=True):
            element = places[0]
            votes = [vote for one in places for vote in (one.votes or (one.relation,))]
            missed = sum(vote != "entailment" for vote in votes)
            if element.weight == _MAIN and missed:
                wrong = votes.count("contradiction")
                of = (scored[0].index, element.id, element.type, element.content)
                order = -missed / len(votes), -wrong / len(votes), -lost / len(scored)
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


def _shares(cards: Sequence[VideoCard]) -> tuple[Share, ...]:
    rows = []
    for group in ("all", *ELEMENT_TYPES):
        scores = [card.scores[group] for card in cards if group in card.scores]
        entailed = sum(score.entailed for score in scores)
        contradicted = sum(score.contradicted for score in scores)
        lacked = sum(score.total for score in scores) - entailed - contradicted
        weights: dict[Relation, int] = {
            "entailment": entailed,
            "contradiction": contradicted,
            "lack": lacked,
        }
        if any(weights.values()):
            rows.append(Share(group, weights))
    return tuple(rows)


def _ends(scores: Scores, way: str) -> str:
    """Return the weakest and the strongest place that have enough videos."""
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


def _main(cards: Sequence[VideoCard]) -> str:
    relations = [e.relation for card in cards for e in card.elements if e.weight == _MAIN]
    if not relations:
        return "No element has the highest weight."
    lacked, wrong = relations.count("lack"), relations.count("contradiction")
    return (
        f"Of {counted(len(relations), 'element')} of the highest weight, "
        f"{percent(lacked / len(relations))}% are lacking and "
        f"{percent(wrong / len(relations))}% contradicted."
    )


def _events(cards: Sequence[VideoCard]) -> str:
    events = [event for card in cards for event in card.events]
    silent = [event for event in events if not event.matched]
    lost = _lacked(events)
    if not lost or not silent:
        return "None: every reference event is matched by a candidate event."
    return (
        f"{thousands(len(silent))} of {counted(len(events), 'reference event')} are matched "
        f"by no candidate event; {percent(_lacked(silent) / lost)}% of the lacking weight "
        "is lost with them; the rest is detail in events that the captions mention."
    )


def _lacked(events: Iterable[EventView]) -> int:
    return sum(e.weight for event in events for e in event.elements if e.relation == "lack")


def _order(cards: Sequence[VideoCard]) -> str:
    several = [card for card in cards if len(card.events) > 1]
    if len(several) < FEWEST_VIDEOS:
        return f"Too few videos of two events or more: {FEWEST_VIDEOS} are needed."
    videos = f"{counted(len(several), 'video')} of two events or more"
    parts = []
    for place in (0, -1):
        elements = [element for card in several for element in card.events[place].elements]
        entailed = sum(e.weight for e in elements if e.relation == "entailment")
        parts.append(percent(entailed / sum(e.weight for e in elements)))
    return (
        f"In {videos}, captions entail {parts[0]}% of the first event's weight and {parts[1]}% of "
        "the last one's."
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
