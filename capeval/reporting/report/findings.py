"""The weaknesses of a run, in sentences computed from its verdicts and scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from capeval.reporting.numbers import counted, interval, percent, place_name, thousands
from capeval.reporting.report.charts import Share
from capeval.reporting.report.data import Shown
from capeval.reporting.viewer.cards import EventView, VideoCard
from capeval.schema import ELEMENT_TYPES
from capeval.scoring import FEWEST, Bucket, Estimate

HEADINGS = (
    "Weakest type",
    "Lacking or contradicted",
    "The main things",
    "Whole events or details",
    "Beginning and end",
    "Weakest kind of video",
    "Weakest by events",
    "Weakest by elements",
    "Weakest domain",
    "Not checked",
)
"""All headings of findings, in their order."""
# The highest weight of an element.
_MAIN = 3
# Lists of these lengths can be read at a glance.
_MOST_LISTED, _MOST_LOSSES, _MOST_NAMED = 8, 5, 3


@dataclass(frozen=True)
class Finding:
    """One sentence under its heading."""

    heading: str
    text: str


@dataclass(frozen=True)
class Loss:
    """A video and the weight that was not entailed in it, of all its weight."""

    index: str
    lost: int
    total: int


@dataclass(frozen=True)
class Findings:
    """The weaknesses of one run; `shares` are weights of all elements, then by type."""

    sentences: tuple[Finding, ...]
    shares: tuple[Share, ...]
    losses: tuple[Loss, ...]


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
    """Some of the elements of the highest weight that are not entailed.

    With several runs or repeats they are `ranked` by how many miss them, else they are examples.
    `any` counts elements missed at least once, `by_all` those missed by every repeat.
    """

    listed: tuple[Missed, ...]
    ranked: bool
    any: int
    by_all: int
    contradicted: int


def findings_of(shown: Shown) -> Findings:
    """Return the weaknesses of a run."""
    scored = [card for card in shown.cards if card.status == "scored"]
    shares = _shares(scored)
    sentences = [
        *_types(shown.run.scores.overall),
        *_weight(shares),
        *_main(scored),
        *_events(scored),
        *_order(scored),
        *_kinds(shown),
        *_unmatched(shown),
    ]
    losses = sorted(
        (
            Loss(
                card.index,
                card.scores["all"].total - card.scores["all"].entailed,
                card.scores["all"].total,
            )
            for card in scored
        ),
        key=lambda loss: -loss.lost,
    )
    return Findings(
        tuple(sentences),
        shares,
        tuple(loss for loss in losses[:_MOST_LOSSES] if loss.lost),
    )


def missed_elements(shown: Sequence[Shown]) -> MissedElements:
    """Return main elements that are not entailed, at most one per video.

    With several runs or repeats, those missed most often come first; of equals the contradicted,
    then those of the video that lost the most weight. A single repeat gives examples from the
    videos that lost the most weight, contradicted and lacking in proportion.
    """
    found: list[tuple[float, Missed]] = []
    for cards in zip(*(one.cards for one in shown), strict=True):
        scored = [card for card in cards if card.status == "scored"]
        if not scored:
            continue
        every = [card.scores["all"] for card in scored]
        lost = sum(score.total - score.entailed for score in every) / len(scored)
        for places in zip(*(card.elements for card in scored), strict=True):
            element = places[0]
            votes = [vote for one in places for vote in (one.votes or (one.relation,))]
            missed = sum(vote != "entailment" for vote in votes)
            if element.weight == _MAIN and missed:
                wrong = votes.count("contradiction")
                of = (scored[0].index, element.id, element.type, element.content)
                found.append((lost, Missed(*of, missed, wrong, len(votes))))
    ranked = any(one.repeats > 1 for _, one in found)
    return MissedElements(
        listed=tuple(_most_often(found) if ranked else _examples(found)),
        ranked=ranked,
        any=len(found),
        by_all=sum(one.missed == one.repeats for _, one in found),
        contradicted=sum(one.contradicted > 0 for _, one in found),
    )


def _most_often(found: Sequence[tuple[float, Missed]]) -> list[Missed]:
    ordered = sorted(
        found,
        key=lambda one: (
            (-one[1].missed / one[1].repeats, -one[1].contradicted / one[1].repeats, -one[0])
        ),
    )
    of_each: dict[str, Missed] = {}
    for _, one in ordered:
        of_each.setdefault(one.index, one)
    return list(of_each.values())[:_MOST_LISTED]


def _examples(found: Sequence[tuple[float, Missed]]) -> list[Missed]:
    ordered = [one for _, one in sorted(found, key=lambda one: -one[0])]
    wrong = [one for one in ordered if one.contradicted]
    lacking = [one for one in ordered if not one.contradicted]
    size = min(_MOST_LISTED, len({one.index for one in found}))
    share = round(size * len(wrong) / len(found)) if found else 0
    if wrong and lacking and size > 1:
        share = min(max(share, 1), size - 1)
    # The rarer kind chooses first: it has fewer videos to choose from.
    first, second = (wrong, lacking) if len(wrong) <= len(lacking) else (lacking, wrong)
    count = share if first is wrong else size - share
    of_each: dict[str, Missed] = {}
    for kind, most in ((first, count), (second, size)):
        for one in kind:
            if len(of_each) < most:
                of_each.setdefault(one.index, one)
    chosen = set(map(id, of_each.values()))
    return [one for one in ordered if id(one) in chosen]


def _shares(cards: Sequence[VideoCard]) -> tuple[Share, ...]:
    rows = []
    for group in ("all", *ELEMENT_TYPES):
        scores = [card.scores[group] for card in cards if group in card.scores]
        entailed = sum(score.entailed for score in scores)
        contradicted = sum(score.contradicted for score in scores)
        total = sum(score.total for score in scores)
        if total:
            rows.append(Share(group, entailed, contradicted, total - entailed - contradicted))
    return tuple(rows)


@dataclass(frozen=True)
class _Place:
    name: str
    value: float
    estimate: Estimate
    n: int


def _ends(heading: str, places: Iterable[tuple[str, Estimate, int]], of: str = "") -> list[Finding]:
    """Return the weakest and the strongest place; nothing if there is no choice."""
    every = [
        _Place(name, estimate.value, estimate, n)
        for name, estimate, n in places
        if estimate.value is not None
    ]
    known = [one for one in every if one.n >= FEWEST]
    few = [one for one in every if one.n < FEWEST]
    if len(every) < 2:
        return []
    if len(known) < 2:
        only = f"; only {place_name(known[0].name, 80)} has {FEWEST} or more" if known else ""
        return [Finding(heading, f"Not compared, too few videos: {_named(few)}{only}.")]
    worst = min(known, key=lambda one: one.value)
    best = max(known, key=lambda one: one.value)
    if worst.value == best.value:
        return []
    text = (
        f"{place_name(worst.name, 80)}{of}: F1 {interval(worst.estimate)} over "
        f"{counted(worst.n, 'video')}; the strongest is {place_name(best.name, 80)}{of} with "
        f"{interval(best.estimate)} over {counted(best.n, 'video')}."
    )
    if (
        worst.estimate.high is not None
        and best.estimate.low is not None
        and worst.estimate.high >= best.estimate.low
    ):
        text += " Their intervals overlap: this order may be chance."
    if few:
        text += f" Left out, too few videos: {_named(few)}."
    return [Finding(heading, text)]


def _named(few: Sequence[_Place]) -> str:
    named = [f"{place_name(one.name, 80)} ({counted(one.n, 'video')})" for one in few[:_MOST_NAMED]]
    left = len(few) - len(named)
    return ", ".join(named) + (f" and {thousands(left)} more" if left else "")


def _types(overall: Bucket) -> list[Finding]:
    scores = [(name, getattr(overall, name)) for name in ELEMENT_TYPES]
    return _ends("Weakest type", ((name, one.f1, one.n) for name, one in scores))


def _weight(shares: Sequence[Share]) -> list[Finding]:
    if not shares:
        return []
    everything, *types = shares
    total = everything.total
    text = (
        f"Of the annotated weight the captions entail {percent(everything.entailed / total)}%, "
        f"lack {percent(everything.lacked / total)}% and contradict "
        f"{percent(everything.contradicted / total)}%."
    )
    if len(types) > 1:
        lacked = {one.label: one.lacked / one.total for one in types}
        wrong = {one.label: one.contradicted / one.total for one in types}
        text += _highest("Lacking most", lacked) + _highest("Contradicted most", wrong)
    return [Finding("Lacking or contradicted", text)]


def _highest(what: str, by_type: Mapping[str, float]) -> str:
    """Return the type with the highest share; nothing if all are equal."""
    if len(set(by_type.values())) < 2:
        return ""
    name = max(by_type, key=lambda one: by_type[one])
    return f" {what}: {name} ({percent(by_type[name])}%)."


def _main(cards: Sequence[VideoCard]) -> list[Finding]:
    relations = [e.relation for card in cards for e in card.elements if e.weight == _MAIN]
    if not relations:
        return []
    lacked, wrong = relations.count("lack"), relations.count("contradiction")
    return [
        Finding(
            "The main things",
            f"Of {counted(len(relations), 'element')} of the highest weight, "
            f"{percent(lacked / len(relations))}% are lacking and "
            f"{percent(wrong / len(relations))}% contradicted.",
        )
    ]


def _events(cards: Sequence[VideoCard]) -> list[Finding]:
    events = [event for card in cards for event in card.events]
    silent = [event for event in events if not event.matched]
    lost = _lacked(events)
    if not lost or not silent:
        return []
    return [
        Finding(
            "Whole events or details",
            f"{thousands(len(silent))} of {counted(len(events), 'reference event')} are matched "
            f"by no candidate event; {percent(_lacked(silent) / lost)}% of the lacking weight "
            "is lost with them; the rest is detail in events that the captions mention.",
        )
    ]


def _lacked(events: Iterable[EventView]) -> int:
    return sum(e.weight for event in events for e in event.elements if e.relation == "lack")


def _order(cards: Sequence[VideoCard]) -> list[Finding]:
    several = [card for card in cards if len(card.events) > 1]
    if not several:
        return []
    if len(several) < FEWEST:
        number = counted(len(several), "video")
        text = f"Not compared, too few videos: {number} of two events or more."
        return [Finding("Beginning and end", text)]
    parts = []
    for place in (0, -1):
        elements = [element for card in several for element in card.events[place].elements]
        entailed = sum(e.weight for e in elements if e.relation == "entailment")
        parts.append(percent(entailed / sum(e.weight for e in elements)))
    return [
        Finding(
            "Beginning and end",
            f"In {counted(len(several), 'video')} of two events or more, captions entail "
            f"{parts[0]}% of the first event's weight and {parts[1]}% of the last one's.",
        )
    ]


def _kinds(shown: Shown) -> list[Finding]:
    by = shown.run.scores.by
    found = []
    for heading, buckets, of in (
        ("Weakest kind of video", by.visual_characteristic, ""),
        ("Weakest by events", by.events, " events"),
        ("Weakest by elements", by.elements, " elements"),
        ("Weakest domain", by.domain, ""),
    ):
        places = ((name, bucket.all.f1, bucket.all.n) for name, bucket in buckets.items())
        found += _ends(heading, places, of)
    return found


def _unmatched(shown: Shown) -> list[Finding]:
    unmatched = shown.run.scores.unmatched_events
    if not unmatched.unmatched or unmatched.share is None:
        return []
    return [
        Finding(
            "Not checked",
            f"{thousands(unmatched.unmatched)} of "
            f"{counted(unmatched.candidate, 'candidate event')} ({percent(unmatched.share)}%) "
            "match no reference event. The method neither rewards nor punishes what they say.",
        )
    ]
