"""One video in a terminal, with all that explains its score in one run or in several.

A verdict is a sign and a word, so that it can be read without colours. Captions, names and replies
are text, whatever they contain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from capeval.llm.cache import STATE_NAMES
from capeval.reporting.numbers import NOTHING, letter_of, percent, thousands
from capeval.reporting.table import (
    Cell,
    Column,
    Row,
    Table,
    columns,
    print_line,
    print_sentence,
    print_table,
)
from capeval.reporting.viewer.cards import (
    LABEL_SIGNS,
    ElementView,
    EventView,
    VideoCard,
    label_legend,
    named_label,
)
from capeval.reporting.viewer.raw_replies import RawReplies
from capeval.schema import ELEMENT_TYPES, Provenance, Relation
from capeval.text import both_ends, counted, one_line

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
# The name of a run heads a column of verdicts: longer, it keeps both its ends.
_LONGEST_NAME = 40
# A caption's sentence or an annotated text in a table; longer ones come from broken files.
_LONGEST_TEXT = 2000


def print_cards(cards: Mapping[str, VideoCard], console: Console, *, full: bool = False) -> None:
    """Print one video as several runs have it, their verdicts side by side.

    Parameters
    ----------
    cards : by the name of the run; all of the same video
    full : everything; otherwise the caption, unless there are several runs, and the elements
        that a run has not entailed or that a human rater labels otherwise; several runs are
        letters then, and verdicts signs
    """
    if not cards:
        return
    for number, (name, card) in enumerate(cards.items()):
        letter = f"{letter_of(number)} " if len(cards) > 1 and not full else ""
        print_line(letter + _headline(name, card), console)
        if human := _human_line(card):
            print_line(" " * len(letter) + human, console)
    console.print()
    _print_facts(next(iter(cards.values())), console, full=full)
    several = len(cards) > 1
    together = (
        several
        and _same_reference(list(cards.values()))
        and _events(cards, full=full).fit(console.width - 2, 1) is not None
    )
    for name, card in cards.items():
        _print_run(name if several else "", card, console, full=full, caption=full or not several)
        if not together:
            _print_events({name: card}, console, full=full)
    if together:
        _print_events(cards, console, full=full)
    elements = [element for card in cards.values() for element in card.elements]
    legend = label_legend(label for element in elements for label in element.human.values())
    if any(element.disputed_by for element in elements):
        legend += f"  {_DIFFERS} a human label that differs from the verdict"
    print_line(legend, console, style="dim")
    if not full:
        more = "--full shows every element, the weights by type and the caption's events."
        print_sentence(more, console, style="dim")


def print_raw_replies(raw: Mapping[str, RawReplies], console: Console) -> None:
    """Print the model's own replies, stage by stage and repeat by repeat.

    Parameters
    ----------
    raw : by the name of the run
    """
    for run, found in raw.items():
        print_line(f"Raw replies  {one_line(run)}", console, style="bold")
        several = any(reply.repeat > 1 for reply in found.replies)
        for reply in found.replies:
            where = [f"repeat {reply.repeat}"] if several else []
            where.append(reply.stage)
            if reply.attempt > 1:
                where.append(f"asked again ({reply.attempt})")
            end = STATE_NAMES[reply.state]
            if reply.finish_reason not in (None, "stop"):
                end += f"; finish reason {one_line(str(reply.finish_reason), 40)}"
            head = f"{', '.join(where)}, {one_line(reply.model)}: {end}"
            _block(head, console, indent=2, style="bold")
            _block(reply.text or "(empty)", console, indent=4)
            if reply.complaint is not None:
                _block(f"complaint: {reply.complaint}", console, indent=4, style="yellow")
        for notice in found.notices:
            _block(notice, console, indent=2, style="yellow")
        console.print()


def _headline(name: str, card: VideoCard) -> str:
    """Return the score of a video in a run, or why it has none, in a sentence."""
    where = f"{one_line(card.index)} in {one_line(name)}"
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


def _print_run(name: str, card: VideoCard, console: Console, *, full: bool, caption: bool) -> None:
    """Print what one run has: its judge, weights, caption, the caption's events, and notes."""
    if name and full:
        print_line(f"Run  {one_line(name)}", console, style="bold")
    if full and card.provenance is not None:
        _block(f"judged by {_judge(card.provenance)}", console, indent=2, style="dim")
        console.print()
    if full and card.scores:
        print_table(_weights(card), console, indent=2)
        console.print()
    if caption and card.caption is not None:
        print_line("  Caption", console, style="bold")
        _block(card.caption if card.caption.strip() else "(empty)", console, indent=4)
        console.print()
    if full and card.candidate_events:
        print_table(_candidates(card), console, indent=2)
        console.print()
    if full and card.notes:
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


def _weights(card: VideoCard) -> Table:
    table = Table(
        "Weights",
        columns("Type", "entailed", "lacking", "contradicted", "precision", "recall", "F1"),
        note=_LEGEND,
    )
    for group in ("all", *ELEMENT_TYPES):
        if group not in card.scores:
            table.rows.append([group, *[NOTHING] * 6])
            continue
        one = card.scores[group]
        mentioned = one.entailed + one.contradicted
        table.rows.append(
            [
                group,
                thousands(one.entailed),
                thousands(one.total - mentioned),
                thousands(one.contradicted),
                f"{one.entailed}/{mentioned} = {percent(one.precision)}",
                f"{one.entailed}/{one.total} = {percent(one.recall)}",
                percent(one.f1),
            ]
        )
    return table


def _candidates(card: VideoCard) -> Table:
    rows: list[Row] = [
        [
            "none" if match is None else f"event {match}",
            str(number),
            one_line(text, _LONGEST_TEXT),
        ]
        for number, (text, match) in enumerate(
            zip(card.candidate_events, card.matches, strict=True), start=1
        )
    ]
    return Table(
        "Events of the caption, and the reference event that each matches",
        [Column("Matches", words=True), Column(""), Column("Event", words=True)],
        rows,
    )


def _events(cards: Mapping[str, VideoCard], *, full: bool) -> Table:
    """Return the reference events with their elements, and a column of verdicts for each run."""
    several = len(cards) > 1
    first = next(iter(cards.values()))
    # One run has the labels of humans in a column; of several they are below each run's verdict.
    human = not several and any(e.human for e in first.elements)
    names = ["Verdict"]
    if several:
        named = {letter_of(n): card for n, card in enumerate(cards.values())}
        cards = cards if full else named
        names = [both_ends(name, _LONGEST_NAME) for name in cards]
    title = "Reference events"
    if not full:
        disputed = any(element.disputed_by for card in cards.values() for element in card.elements)
        title += ", and elements that are not entailed" + (
            " or that human raters label otherwise" if disputed else ""
        )
    table = Table(
        title,
        [
            *(Column(name, words=True) for name in names),
            *([Column("Human", words=True)] if human else []),
            *(Column(name, words=True) for name in ("Id", "Type")),
            Column("Weight"),
            Column("Element", words=True),
        ],
    )
    for place, event in enumerate(first.events):
        rows = [
            _element(elements, list(cards.values()), human=human, short=several and not full)
            for elements in zip(*(c.events[place].elements for c in cards.values()), strict=True)
            if full or any(e.relation != "entailment" or e.disputed_by for e in elements)
        ]
        table.rows += [[_event(event, cards, place, several, entailed=not rows)], *rows]
    return table


def _print_events(cards: Mapping[str, VideoCard], console: Console, *, full: bool) -> None:
    """Print the reference events and their elements; nothing to show is said in a sentence."""
    table = _events(cards, full=full)
    if all(len(row) == 1 for row in table.rows):
        count = len(next(iter(cards.values())).elements)
        all_of = "The only element is" if count == 1 else f"All {thousands(count)} elements are"
        runs = "" if len(cards) == 1 else f" in all {len(cards)} runs"
        print_line(f"  {all_of} entailed{runs}.", console)
    else:
        print_table(table, console, indent=2)
    console.print()


def _event(
    event: EventView,
    cards: Mapping[str, VideoCard],
    place: int,
    several: bool,
    *,
    entailed: bool,
) -> str:
    """Return the sentence of a reference event, and which events of the captions match it.

    `entailed` says that all its elements are, and none is listed.
    """
    matched = []
    for name, card in cards.items():
        if card.status == "scored":
            numbers = ", ".join(map(str, card.events[place].matched)) or "none"
            matched.append(f"{one_line(name)} {numbers}" if several else numbers)
    text = f"{event.number}. {one_line(event.text, _LONGEST_TEXT)}"
    facts = [f"matched by events: {'; '.join(matched)}"] if matched else []
    facts += ["every element entailed"] if entailed else []
    return f"{text} ({', '.join(facts)})" if facts else text


def _element(
    elements: Sequence[ElementView], cards: Sequence[VideoCard], *, human: bool, short: bool
) -> list[Cell | str]:
    one = elements[0]
    cells: list[Cell | str] = [
        _verdict(element, card.status, human=len(cards) > 1, short=short)
        for element, card in zip(elements, cards, strict=True)
    ]
    if human:
        raters = len(one.human) > 1
        labels = (
            f"{_DIFFERS + ' ' if rater in one.disputed_by else ''}{named_label(label)}"
            f"{f' {one_line(rater, 60)}' if raters else ''}"
            for rater, label in one.human.items()
        )
        cells.append("\n".join(labels))
    content = one_line(one.content, _LONGEST_TEXT)
    if len(cards) == 1 and one.explanation:
        content += f"\n→ {one_line(one.explanation, _LONGEST_TEXT)}"
    return [*cells, one.id, one.type, str(one.weight), content]


def _verdict(element: ElementView, status: str, *, human: bool, short: bool) -> Cell:
    if element.relation is None:
        # Not a dash, which is the sign of an element that the caption lacks.
        return Cell(f"({status})", style="yellow")
    style = _STYLES[element.relation]
    if short:
        differing = dict.fromkeys(LABEL_SIGNS[element.human[r]] for r in element.disputed_by)
        after = f"{_DIFFERS}{''.join(differing)}" if differing else ""
        return Cell(LABEL_SIGNS[element.relation], after=after, style=style)
    votes = " ".join(LABEL_SIGNS[vote] for vote in element.votes)
    after = f"\nvotes {votes}" if votes else ""
    if human and element.human:
        labels = (
            (_DIFFERS if rater in element.disputed_by else "") + LABEL_SIGNS[label]
            for rater, label in element.human.items()
        )
        after += f"\nhuman {' '.join(labels)}"
    if human and element.explanation:
        after += f"\n→ {one_line(element.explanation, _LONGEST_TEXT)}"
    return Cell(named_label(element.relation), after=after, style=style)


def _same_reference(cards: Sequence[VideoCard]) -> bool:
    """Return whether all were judged against the same texts and weights."""
    references = [
        [(e.text, [(v.content, v.type, v.weight) for v in e.elements]) for e in card.events]
        for card in cards
    ]
    return all(one == references[0] for one in references)


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
