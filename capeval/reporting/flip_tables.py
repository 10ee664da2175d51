"""Verdicts that changed from one run to another: how many, of which types, and some of them."""

from __future__ import annotations

from capeval.reporting.numbers import thousands
from capeval.reporting.table import COUNT, Kind, Table, columns
from capeval.reporting.viewer.cards import LABEL_WORDS
from capeval.schema import RELATIONS
from capeval.scoring import GROUPS
from capeval.scoring.comparison_result import Comparison, Flip, Transitions
from capeval.text import counted, one_line

# A longer text is cut: it comes from a broken file.
_LONGEST_CONTENT = 600
# Of each video so many flips come before those of the next, so that one video does not fill all.
_OF_A_VIDEO = 2


def flip_line(found: Comparison) -> str:
    """Return how many verdicts changed, and in which direction."""
    counts = found.flips.counts["all"]
    gained, lost = _entailed_alone(counts)
    return (
        f"{thousands(len(found.flips.elements))} of {counted(_total(counts), 'verdict')} flipped: "
        f"{counted(gained, 'element')} {'is' if gained == 1 else 'are'} entailed only in B, "
        f"{thousands(lost)} only in A."
    )


def flip_tables(found: Comparison, most: int) -> list[Table]:
    """Return how verdicts changed, all in all and by type, and `most` of the elements."""
    flips = found.flips
    if not flips.videos:
        return []
    tables = [_transitions(flips.counts["all"], len(flips.elements))]
    if flips.elements:
        tables.append(_by_type(found))
    if chosen := _chosen(found)[:most]:
        tables.append(
            Table(
                "Flipped elements of the videos that changed most",
                columns("Video, element", "A → B", "Content", "weight", words=3),
                [_element(flip) for flip in chosen],
            )
        )
    return tables


def _transitions(counts: Transitions, flipped: int) -> Table:
    return Table(
        f"{thousands(flipped)} of {counted(_total(counts), 'verdict')} flipped",
        columns("A rows, B columns", *((LABEL_WORDS[label], COUNT) for label in RELATIONS)),
        [[LABEL_WORDS[label], *(counts[label][to] for to in RELATIONS)] for label in RELATIONS],
    )


def _by_type(found: Comparison) -> Table:
    table = Table(
        "Flips by type of element",
        columns(
            "Elements",
            *((name, COUNT) for name in ("verdicts", "flipped", "gained", "lost")),
            *((name, _NET) for name in ("net", "net weight")),
        ),
        note="gained: entailed only in B; lost: entailed only in A; net: gained − lost.",
    )
    for group in GROUPS:
        counts, weights = found.flips.counts[group], found.flips.weights[group]
        total = _total(counts)
        stayed = sum(counts[label][label] for label in RELATIONS)
        gained, lost = _entailed_alone(counts)
        heavier, lighter = _entailed_alone(weights)
        if total:
            numbers = (total, total - stayed, gained, lost, gained - lost, heavier - lighter)
            table.rows.append([group, *numbers])
    return table


def _total(counts: Transitions) -> int:
    return sum(sum(row.values()) for row in counts.values())


def _entailed_alone(counts: Transitions) -> tuple[int, int]:
    """Return what is entailed in the second run alone, and in the first alone."""
    others = [label for label in RELATIONS if label != "entailment"]
    gained = sum(counts[label]["entailment"] for label in others)
    return gained, sum(counts["entailment"][label] for label in others)


_NET = Kind(lambda count: f"{count:+,}" if count else "0")


def _chosen(found: Comparison) -> list[Flip]:
    """Return all flips, first the two heaviest of each video, then the next two, and so on.

    Videos come in the order of how far their F1 moved, ties in the annotations' order.
    """
    by_video: dict[str, list[Flip]] = {}
    for flip in found.flips.elements:
        by_video.setdefault(flip.index, []).append(flip)
    videos = sorted(by_video, key=lambda index: -abs(found.videos[index].f1.value))
    ranked = [
        (place // _OF_A_VIDEO, number, flip)
        for number, index in enumerate(videos)
        for place, flip in enumerate(sorted(by_video[index], key=lambda flip: -flip.weight))
    ]
    return [flip for _, _, flip in sorted(ranked, key=lambda one: one[:2])]


def _element(flip: Flip) -> list[str]:
    return [
        f"{one_line(flip.index)}\n{flip.element_id} {flip.type}",
        f"{LABEL_WORDS[flip.first]}\n→ {LABEL_WORDS[flip.second]}",
        one_line(flip.content, _LONGEST_CONTENT),
        str(flip.weight),
    ]
