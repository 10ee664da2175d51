"""One video of a judged run in a terminal, with all that explains its score.

A verdict is a sign and a word, so that it can be read without colours. Captions, names and replies
are text, whatever they contain.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from capeval.reporting.numbers import NOTHING, percent, thousands
from capeval.reporting.table import COUNT, PERCENT, Cell, Column, Kind, Row, Table, columns
from capeval.reporting.terminal import print_line, print_sentence, print_table
from capeval.reporting.viewer.cards import (
    LABEL_SIGNS,
    ElementView,
    EventView,
    VideoCard,
    label_legend,
    named_label,
)
from capeval.schema import Provenance, Relation
from capeval.scoring import GROUPS
from capeval.text import counted, one_line

_STYLES: Mapping[Relation, str] = {"entailment": "green", "lack": "dim", "contradiction": "red"}
# Before a human label that differs from the verdict.
_DIFFERS = "≠"
_STATES = {
    "scored": "scored",
    "unscored": "unscored",
    "uncaptioned": "no caption",
    "unjudged": "not judged yet",
}
_LEGEND = "precision: entailed of entailed and contradicted; recall: entailed of all"
# A caption's sentence or an annotated text in a table; longer ones come from broken files.
_LONGEST_TEXT = 2000
_TEXT = Kind(lambda text: one_line(text, _LONGEST_TEXT))


def print_card(card: VideoCard, console: Console, *, full: bool = False) -> None:
    """Print one video of a run.

    Parameters
    ----------
    full : everything; otherwise the score, the caption, and the elements that are not entailed or
        that a human rater labels otherwise
    """
    print_line(_headline(card), console)
    if human := _human_line(card):
        print_line(human, console)
    console.print()
    _print_facts(card, console, full=full)
    if full:
        _print_judging(card, console)
    if card.caption is not None:
        print_line("  Caption", console, style="bold")
        _block(card.caption if card.caption.strip() else "(empty)", console, indent=4)
        console.print()
    if full:
        _print_caption_events(card, console)
    _print_events(card, console, full=full)
    legend = label_legend(label for one in card.elements for label in one.human.values())
    if any(element.disputed_by for element in card.elements):
        legend += f"  {_DIFFERS} a human label that differs from the verdict"
    print_line(legend, console, style="dim")
    if not full:
        more = "--full shows every element, the weights by type and the caption's events."
        print_sentence(more, console, style="dim")


def _headline(card: VideoCard) -> str:
    """Return the score of a video in a run, or why it has none, in a sentence."""
    where = f"{one_line(card.index)} in {one_line(card.run)}"
    if card.status != "scored" or "all" not in card.scores:
        reason = f": {one_line(card.reason)}" if card.reason else ""
        return f"{where}: {_STATES[card.status]}{reason}"
    one = card.scores["all"]
    lacking = one.total - one.entailed - one.contradicted
    made = card.provenance
    # As in the headline of `score`: the snapshot that answered, where the endpoint named it.
    judge = f", judged by {one_line('+'.join(made.models) or made.judge)}" if made else ""
    return (
        f"{where}: F1 {percent(one.f1)}, precision {percent(one.precision)}, recall "
        f"{percent(one.recall)}; of weight {thousands(one.total)}, {thousands(one.entailed)} "
        f"entailed, {thousands(lacking)} lacking, {thousands(one.contradicted)} contradicted"
        f"{judge}."
    )


def _human_line(card: VideoCard) -> str:
    """Return how many elements human raters labelled and how often they differ, if they did."""
    labelled = [element for element in card.elements if element.human]
    if not labelled or card.status != "scored":
        return ""
    differing = sum(bool(element.disputed_by) for element in labelled)
    return (
        f"Human raters labelled {counted(len(labelled), 'element')} and differ from the judge on "
        f"{thousands(differing)}."
    )


def _print_facts(card: VideoCard, console: Console, *, full: bool) -> None:
    weight = thousands(sum(element.weight for element in card.elements))
    counts = (
        f"{counted(len(card.events), 'reference event')}, {counted(len(card.elements), 'element')}"
    )
    known = [
        ("video", card.video),
        ("characteristics", ", ".join(card.characteristics) or None),
        ("domain", card.domain),
        ("annotated", f"{counts}, weight {weight}"),
    ]
    if full:
        for name, value in known:
            text = NOTHING if value is None else one_line(value)
            print_line(f"  {name:<15} {text}", console)
    else:
        print_line("  " + "; ".join(one_line(value) for _, value in known[1:] if value), console)
    console.print()


def _print_judging(card: VideoCard, console: Console) -> None:
    """Print which judge it was, and the weights that make the score."""
    if card.provenance is not None:
        _block(f"judged by {_judge(card.provenance)}", console, indent=2, style="dim")
        console.print()
    if card.scores:
        print_table(_weights(card), console, indent=2)
        console.print()


def _print_caption_events(card: VideoCard, console: Console) -> None:
    """Print the events that the caption was split into, and what was repaired."""
    if card.candidate_events:
        print_table(_candidates(card), console, indent=2)
        console.print()
    if card.notes:
        print_line("  Notes on repaired replies", console, style="bold")
        for note in card.notes:
            _block(f"- {note}", console, indent=4)
        console.print()


def _judge(made: Provenance) -> str:
    answered = [model for model in made.models if model != made.judge]
    parts = [
        made.judge,
        answered and f"answered by {', '.join(answered)}",
        made.base_url and f"at {made.base_url}",
        made.prompts and f"prompts {made.prompts}",
        made.fingerprints and f"fingerprints {', '.join(made.fingerprints)}",
        made.left_off and f"without {', '.join(made.left_off)}",
    ]
    return one_line(", ".join(part for part in parts if part), 600)


_RATIO = Kind(lambda of: f"{of[0]}/{of[1]} = {percent(of[2])}")
"""A part, the whole, and the share as scored: 0 of 0 is not undefined."""
_WEIGHTS = columns(
    "Type",
    *((label, COUNT) for label in ("entailed", "lacking", "contradicted")),
    *(("precision", _RATIO), ("recall", _RATIO), ("F1", PERCENT)),
)


def _weights(card: VideoCard) -> Table:
    table = Table("Weights", _WEIGHTS, note=_LEGEND)
    for group in GROUPS:
        if (one := card.scores.get(group)) is None:
            table.rows.append([group, *[None] * 6])
            continue
        mentioned = one.entailed + one.contradicted
        ratios = (one.entailed, mentioned, one.precision), (one.entailed, one.total, one.recall)
        counts = one.entailed, one.total - mentioned, one.contradicted
        table.rows.append([group, *counts, *ratios, one.f1])
    return table


def _candidates(card: VideoCard) -> Table:
    matches = zip(card.matches, card.candidate_events, strict=True)
    return Table(
        "Events of the caption, and the reference event that each matches",
        [
            Column("Matches", words=True),
            Column("", kind=COUNT),
            Column("Event", words=True, kind=_TEXT),
        ],
        [
            ["none" if match is None else f"event {match}", number, text]
            for number, (match, text) in enumerate(matches, start=1)
        ],
    )


def _print_events(card: VideoCard, console: Console, *, full: bool) -> None:
    """Print the reference events and their elements."""
    listed = {
        event.number: [
            element
            for element in event.elements
            if full or element.relation != "entailment" or element.disputed_by
        ]
        for event in card.events
    }
    if not any(listed.values()):
        count = len(card.elements)
        all_of = "The only element is" if count == 1 else f"All {thousands(count)} elements are"
        print_line(f"  {all_of} entailed.", console)
        console.print()
        return
    human = any(element.human for element in card.elements)
    title = "Reference events"
    if not full:
        title += ", and elements that are not entailed"
        if any(element.disputed_by for element in card.elements):
            title += " or that human raters label otherwise"
    table = Table(
        title,
        [
            Column("Verdict", words=True),
            *([Column("Human", words=True)] if human else []),
            *(Column(name, words=True) for name in ("Id", "Type")),
            Column("Weight"),
            Column("Element", words=True),
        ],
    )
    for event in card.events:
        rows = [_element(one, card.status, human=human) for one in listed[event.number]]
        table.rows += [[_event(event, card, entailed=not rows)], *rows]
    print_table(table, console, indent=2)
    console.print()


def _event(event: EventView, card: VideoCard, *, entailed: bool) -> str:
    """Return the sentence of a reference event, and which events of the caption match it.

    `entailed` says that all its elements are, and none is listed.
    """
    facts = []
    if card.status == "scored":
        facts.append(f"matched by events: {', '.join(map(str, event.matched)) or 'none'}")
    facts += ["every element entailed"] if entailed else []
    text = f"{event.number}. {one_line(event.text, _LONGEST_TEXT)}"
    return f"{text} ({', '.join(facts)})" if facts else text


def _element(one: ElementView, status: str, *, human: bool) -> Row:
    cells: list[Cell | str] = [_verdict(one, status)]
    if human:
        raters = len(one.human) > 1
        labels = (
            f"{_DIFFERS + ' ' if rater in one.disputed_by else ''}{named_label(label)}"
            f"{f' {one_line(rater, 60)}' if raters else ''}"
            for rater, label in one.human.items()
        )
        cells.append("\n".join(labels))
    content = one_line(one.content, _LONGEST_TEXT)
    if one.explanation:
        content += f"\n→ {one_line(one.explanation, _LONGEST_TEXT)}"
    return [*cells, one.id, one.type, str(one.weight), content]


def _verdict(element: ElementView, status: str) -> Cell:
    if element.relation is None:
        # Not a dash, which is the sign of an element that the caption lacks.
        return Cell(f"({status})", style="yellow")
    votes = " ".join(LABEL_SIGNS[vote] for vote in element.votes)
    after = f"\nvotes {votes}" if votes else ""
    return Cell(named_label(element.relation), after=after, style=_STYLES[element.relation])


def _block(text: str, console: Console, *, indent: int, style: str = "") -> None:
    """Print text on its lines, with characters that control a terminal as escapes."""
    readable = "\n".join(
        "".join(
            c
            if c.isprintable()
            else " "
            if c.isspace()
            else c.encode("unicode_escape").decode("ascii")
            for c in line.expandtabs(4).rstrip()
        )
        for line in text.splitlines()
    )
    console.print(Padding(Text(readable, style=style), (0, 0, 0, indent), expand=False))
