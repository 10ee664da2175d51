"""Verdicts that changed from one run to another: how many, of which types, and some of them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from capeval.reporting.numbers import thousands
from capeval.reporting.text_table import Sheet
from capeval.reporting.verdict_words import VERDICT_WORDS
from capeval.schema import RELATIONS
from capeval.scoring import GROUPS
from capeval.scoring.comparison_result import Comparison, Flip, Transitions
from capeval.text import both_ends, one_line

_NAME, _CONTENT = 40, 600
# Narrower than the first, people's words are given more room; they are never given less than the
# second.
_GOOD, _LEAST = 40, 16
_GAP = 2
_OF_A_VIDEO = 2


def flip_sheets(
    found: Comparison, most: int, width: int | None, *, paper: bool = False
) -> list[Sheet]:
    """Return how verdicts changed, by label and by type, and `most` of the elements.

    Parameters
    ----------
    width : of the terminal, in which people's words are wrapped; None for no limit
    paper : elements in two lines each, to fit the text of an article
    """
    flips = found.flips
    if not flips.videos:
        return []
    sheets = [_transitions(flips.counts["all"], len(flips.elements))]
    if flips.elements:
        sheets.append(_by_type(found))
    if chosen := _chosen(found)[:most]:
        sheets.append(_elements(chosen, width, paper=paper))
    return sheets


def _transitions(counts: Transitions, flipped: int) -> Sheet:
    total = sum(sum(row.values()) for row in counts.values())
    sheet = Sheet(
        f"{thousands(flipped)} of {thousands(total)} verdicts flipped",
        ["A rows, B columns", *(VERDICT_WORDS[label] for label in RELATIONS)],
    )
    for label in RELATIONS:
        row = [thousands(counts[label][to]) for to in RELATIONS]
        sheet.rows.append([VERDICT_WORDS[label], *row])
    return sheet


def _by_type(found: Comparison) -> Sheet:
    sheet = Sheet(
        "Flips by type of element",
        ["Elements", "verdicts", "flipped", "gained", "lost", "net", "net weight"],
        note="gained: entailed in B alone; lost: entailed in A alone; net: gained less lost.",
    )
    for group in GROUPS:
        counts, weights = found.flips.counts[group], found.flips.weights[group]
        total = sum(sum(row.values()) for row in counts.values())
        stayed = sum(counts[label][label] for label in RELATIONS)
        gained, lost = _entailed_alone(counts)
        heavier, lighter = _entailed_alone(weights)
        if total:
            figures = map(thousands, (total, total - stayed, gained, lost))
            sheet.rows.append(
                [group, *figures, _net(gained - lost), _net(heavier - lighter)]
            )  # fmt: skip
    return sheet


def _entailed_alone(counts: Transitions) -> tuple[int, int]:
    """Return what is entailed in the second run alone, and in the first alone."""
    others = [label for label in RELATIONS if label != "entailment"]
    gained = sum(counts[label]["entailment"] for label in others)
    return gained, sum(counts["entailment"][label] for label in others)


def _net(count: int) -> str:
    return f"{count:+,}" if count else "0"


def _chosen(found: Comparison) -> list[Flip]:
    """Return all flips, first the two heaviest of each video, then the next two, and so on.

    Videos come by how far their F1 moved, of equals in the annotations' order.
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


def _elements(chosen: Sequence[Flip], width: int | None, *, paper: bool) -> Sheet:
    sheet = _flat(chosen, width)
    at = sheet.header.index("Content")
    if paper or (width is not None and _room(sheet, at, width) < _GOOD):
        sheet = _stacked(chosen, width)
        at = sheet.header.index("Content")
    if width is not None:
        room = max(_LEAST, _room(sheet, at, width))
        for row in sheet.rows:
            row[at] = _wrapped(row[at], room)
    return sheet


_TITLE = "Flipped elements, of the videos that moved furthest"


def _flat(chosen: Sequence[Flip], width: int | None) -> Sheet:
    sheet = Sheet(_TITLE, ["Video", "Element", "Type", "A", "B", "Content", "weight"], left=6)
    for flip in chosen:
        verdicts = VERDICT_WORDS[flip.first], VERDICT_WORDS[flip.second]
        content, weight = one_line(flip.content, _CONTENT), str(flip.weight)
        sheet.rows.append(
            [_index(flip, width), flip.element_id, flip.type, *verdicts, content, weight]
        )
    return sheet


def _stacked(chosen: Sequence[Flip], width: int | None) -> Sheet:
    """Return the same in two lines each, which leaves people's words more room."""
    sheet = Sheet(_TITLE, ["Video, element", "A → B", "Content", "weight"], left=3)
    for flip in chosen:
        sheet.rows.append(
            [
                f"{_index(flip, width)}\n{flip.element_id} {flip.type}",
                f"{VERDICT_WORDS[flip.first]}\n→ {VERDICT_WORDS[flip.second]}",
                one_line(flip.content, _CONTENT),
                str(flip.weight),
            ]
        )
    return sheet


def _index(flip: Flip, width: int | None) -> str:
    return one_line(flip.index) if width is None else both_ends(flip.index, _NAME)


def _room(sheet: Sheet, at: int, width: int) -> int:
    """Return how wide a column may be beside the others."""
    columns = zip(sheet.header, *sheet.rows, strict=True)
    widths = [max(cell_len(line) for cell in column for line in cell.split("\n"))
              for column in columns]  # fmt: skip
    return width - _GAP * (len(widths) - 1) - (sum(widths) - widths[at])


def _wrapped(text: str, room: int) -> str:
    lines = Text(text).wrap(Console(width=room), room)
    return "\n".join(line.plain.rstrip() for line in lines)
