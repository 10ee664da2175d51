"""Verdicts that changed from one run to another: how many, of which types, and some of them."""

from __future__ import annotations

from capeval.reporting.report.cards import LABELS
from capeval.schema import ELEMENT_TYPES, RELATIONS
from capeval.scoring.comparison_result import Comparison, Flip, Transitions
from capeval.show.numbers import thousands
from capeval.show.table import Table, columns
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


def flip_table(found: Comparison, most: int) -> list[Table]:
    """Return a table of `most` flipped elements, titled by how many there are; none without any."""
    chosen = _chosen(found)[:most]
    if not chosen:
        return []
    by_type = ", ".join(
        f"{group} {thousands(flipped)}"
        for group in ELEMENT_TYPES
        if (flipped := _flipped(found.flips.counts[group]))
    )
    return [
        Table(
            "Flipped elements of the videos that changed most",
            columns("Video, element", "A → B", "Content", "weight", words=3),
            [_element(flip) for flip in chosen],
            note=f"{flip_line(found)} By type: {by_type}.",
        )
    ]


def _flipped(counts: Transitions) -> int:
    return _total(counts) - sum(counts[label][label] for label in RELATIONS)


def _total(counts: Transitions) -> int:
    return sum(sum(row.values()) for row in counts.values())


def _entailed_alone(counts: Transitions) -> tuple[int, int]:
    """Return what is entailed in the second run alone, and in the first alone."""
    others = [label for label in RELATIONS if label != "entailment"]
    gained = sum(counts[label]["entailment"] for label in others)
    return gained, sum(counts["entailment"][label] for label in others)


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
        f"{LABELS[flip.first][1]}\n→ {LABELS[flip.second][1]}",
        one_line(flip.content, _LONGEST_CONTENT),
        str(flip.weight),
    ]
