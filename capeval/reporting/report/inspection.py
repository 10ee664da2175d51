"""One video of a judged run in a terminal: the card of the report, as text.

A verdict is a sign and a word, so that it can be read without colours. Captions, names and replies
are text, whatever they contain.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from capeval.reporting.report.cards import LABELS, ElementView, EventView, VideoCard, named_label
from capeval.schema import RELATIONS, Relation
from capeval.scoring import GROUPS
from capeval.show.numbers import percent, thousands
from capeval.show.table import COUNT, PERCENT, Cell, Column, Kind, Row, Table, columns
from capeval.show.terminal import print_line, print_table
from capeval.text import counted, one_line

_STYLES: Mapping[Relation, str] = {"entailment": "green", "lack": "dim", "contradiction": "red"}
# Before a human label that differs from the verdict.
_DIFFERS = "≠"
_STATES = {"uncaptioned": "no caption", "unjudged": "not judged yet"}
# A sentence of a caption or an annotation in a table; longer ones come from broken files.
_TEXT = Kind(lambda text: one_line(text, 2000))


def print_card(card: VideoCard, console: Console) -> None:
    """Print the score of a video, its caption, events and verdicts, and what was repaired."""
    print_line(_headline(card), console)
    labelled = [one for one in card.elements if one.human and one.relation]
    if labelled:
        disputed = sum(bool(one.disputed_by) for one in labelled)
        print_line(
            f"Human raters labelled {counted(len(labelled), 'element')} and differ from the judge "
            f"on {thousands(disputed)}.",
            console,
        )
    weight = sum(one.weight for one in card.elements)
    facts = [
        card.video and card.video != card.index and f"video {one_line(card.video)}",
        ", ".join(card.characteristics),
        card.domain and one_line(card.domain),
        counted(len(card.events), "reference event"),
        f"{counted(len(card.elements), 'element')} of weight {thousands(weight)}",
    ]
    print_line("; ".join(fact for fact in facts if fact), console)
    if card.caption is not None:
        _block("Caption", card.caption if card.caption.strip() else "(empty)", console)
    if card.notes:
        _block("Notes on repaired replies", "\n".join(f"- {one}" for one in card.notes), console)
    for table in (_candidates(card), _weights(card), _verdicts(card)):
        if table.rows:
            console.print()
            print_table(table, console)
    labels = {label for one in card.elements for label in one.human.values()}
    legend = [named_label(one) for one in LABELS if one in RELATIONS or one in labels]
    if any(one.disputed_by for one in card.elements):
        legend.append(f"{_DIFFERS} a human label that differs from the verdict")
    console.print()
    print_line("  ".join(legend), console, style="dim")


def _headline(card: VideoCard) -> str:
    """Return the score of a video in a run, or why it has none, in a sentence."""
    where = f"{one_line(card.index)} in {one_line(card.run)}"
    if "all" not in card.scores:
        reason = f": {one_line(card.reason)}" if card.reason else ""
        return f"{where}: {_STATES.get(card.status, card.status)}{reason}"
    one = card.scores["all"]
    made = card.provenance
    # As in the headline of `score`: the snapshot that answered, where the endpoint named it.
    judge = f", judged by {one_line('+'.join(made.models) or made.judge)}" if made else ""
    return (
        f"{where}: F1 {percent(one.f1)}, precision {percent(one.precision)}, "
        f"recall {percent(one.recall)}{judge}."
    )


def _block(title: str, text: str, console: Console) -> None:
    """Print text on its own lines, with characters that control a terminal as escapes."""
    console.print()
    print_line(title, console, style="bold")
    # An escape is longer than its character; nothing is cut.
    lines = (one_line(line, 10 * len(line)) for line in text.splitlines())
    console.print(Padding(Text("\n".join(lines)), (0, 0, 0, 2), expand=False))


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


def _weights(card: VideoCard) -> Table:
    counts = (*(LABELS[label][1] for label in RELATIONS), "all")
    measures = ((name, PERCENT) for name in ("Precision", "Recall", "F1"))
    note = "Precision: entailed of entailed and contradicted. Recall: entailed of all."
    heads = columns("Weight", *((name, COUNT) for name in counts), *measures)
    table = Table("", heads, note=note)
    for group in GROUPS:
        if one := card.scores.get(group):
            lacking = one.total - one.entailed - one.contradicted
            weights = one.entailed, lacking, one.contradicted, one.total
            table.rows.append([group, *weights, one.precision, one.recall, one.f1])
    return table


def _verdicts(card: VideoCard) -> Table:
    """Return the reference events with their elements."""
    human = any(element.human for element in card.elements)
    names = ["Verdict", *(["Human"] if human else []), "Id", "Type"]
    table = Table(
        "Reference events",
        [
            *(Column(name, words=True) for name in names),
            Column("Weight", kind=COUNT),
            Column("Element", words=True),
        ],
    )
    for event in card.events:
        rows = [_element(one, card.status, human=human) for one in event.elements]
        table.rows += [[_event(event, card)], *rows]
    return table


def _event(event: EventView, card: VideoCard) -> str:
    text = f"{event.number}. {_TEXT.show(event.text)}"
    if card.status != "scored":
        return text
    return f"{text} (matched by events: {', '.join(map(str, event.matched)) or 'none'})"


def _element(one: ElementView, status: str, *, human: bool) -> Row:
    # Not a dash, which is the sign of an element that the caption lacks.
    verdict = Cell(f"({status})", style="yellow")
    if one.relation is not None:
        votes = " ".join(LABELS[vote][0] for vote in one.votes)
        style = _STYLES[one.relation]
        verdict = Cell(named_label(one.relation), f"\nvotes {votes}" if votes else "", style=style)
    labels = (
        f"{_DIFFERS + ' ' if rater in one.disputed_by else ''}{named_label(label)}"
        f"{f' {one_line(rater, 60)}' if len(one.human) > 1 else ''}"
        for rater, label in one.human.items()
    )
    why = f"\n→ {_TEXT.show(one.explanation)}" if one.explanation else ""
    shown = ["\n".join(labels)] if human else []
    return [verdict, *shown, one.id, one.type, one.weight, _TEXT.show(one.content) + why]
