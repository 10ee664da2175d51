"""One video in the terminal: all that explains its score, of one run or of several.

A verdict is a sign and a word, so that it can be read without colours. Captions, names and
replies are shown as text whatever they hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from capeval.reporting.numbers import NOTHING, percent, thousands
from capeval.reporting.verdict_words import LABEL_WORDS, VERDICT_WORDS
from capeval.reporting.viewer.cards import ElementView, VideoCard
from capeval.reporting.viewer.raw_replies import RawReplies
from capeval.schema import ELEMENT_TYPES, HumanLabel, Provenance
from capeval.scoring.result import VideoScore
from capeval.text import both_ends, one_line

SIGNS: Mapping[HumanLabel, str] = {
    "entailment": "✓",
    "lack": "–",
    "contradiction": "✗",
    "covered": "✓",
    "not covered": "–",
}
_STYLES: Mapping[HumanLabel, str] = {
    "entailment": "green",
    "lack": "dim",
    "contradiction": "red",
    "covered": "green",
    "not covered": "dim",
}
_STATES = {
    "scored": "scored",
    "unscored": "unscored",
    "uncaptioned": "has no caption",
    "unjudged": "is not judged yet",
}
_ENDS = {
    "validated": "taken",
    "refused": "refused, and asked again",
    "exhausted": "refused; nothing came of it",
}

_SUMS = "precision: entailed of entailed and contradicted; recall: entailed of all"

# "✗ contradicted", and the room that an element's words need beside the verdicts.
_VERDICT = 15
_PEOPLE = 16
_MIDDLE = 5 + 10 + 7  # of id, type and weight
_WORDS = 22


def print_cards(
    cards: Mapping[str, VideoCard],
    console: Console,
    *,
    full: bool = False,  # noqa: ARG001
) -> None:
    """Print one video as several runs have it, their verdicts side by side where they fit.

    Parameters
    ----------
    cards : by the name of the run; all of one video
    """
    if not cards:
        return
    first = next(iter(cards.values()))
    _print_head(first, console)
    beside = len(cards) > 1 and _one_reference(list(cards.values())) and _room(len(cards), console)
    for name, card in cards.items():
        _print_run(name, card, console)
        if not beside:
            _print_events({name: card}, console)
    if beside:
        _title("Side by side", "", console)
        _print_events(cards, console)
    legend = "  ".join(f"{SIGNS[label]} {word}" for label, word in VERDICT_WORDS.items())
    console.print(Text(legend, style="dim"))


def print_raw_replies(raw: Mapping[str, RawReplies], console: Console) -> None:
    """Print what the model said itself, stage by stage and repeat by repeat.

    Parameters
    ----------
    raw : by the name of the run
    """
    for run, found in raw.items():
        _title("Raw replies", run, console)
        several = any(reply.repeat > 1 for reply in found.replies)
        for reply in found.replies:
            where = [f"repeat {reply.repeat}"] if several else []
            where.append(reply.stage)
            if reply.attempt > 1:
                where.append(f"asked again ({reply.attempt})")
            end = _ENDS[reply.state]
            if reply.finish_reason not in (None, "stop"):
                end += f"; it ended by {one_line(str(reply.finish_reason), 40)}"
            head = f"{', '.join(where)}, {one_line(reply.model)}: {end}"
            _block(head, console, indent=2, style="bold")
            _block(reply.text or "(empty)", console, indent=4)
            if reply.complaint is not None:
                _block(f"told: {reply.complaint}", console, indent=4, style="yellow")
        for notice in found.notices:
            _block(notice, console, indent=2, style="yellow")
        console.print()


def _readable(text: str) -> str:
    """Return text over its lines, whatever a terminal would obey shown as escapes."""
    return "\n".join(
        "".join(
            c if c.isprintable() else " " if c.isspace() else _escape(c)
            for c in line.expandtabs(4).rstrip()
        )
        for line in text.splitlines()
    )


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _block(text: str, console: Console, *, indent: int, style: str = "") -> None:
    console.print(Padding(Text(_readable(text), style=style), (0, 0, 0, indent), expand=False))


def _title(title: str, rest: str, console: Console) -> None:
    told = Text(title, style="bold")
    if rest:
        told.append(f"  {one_line(rest)}", style="bold cyan")
    console.print(told)


def _print_head(card: VideoCard, console: Console) -> None:
    console.print(Text(one_line(card.index), style="bold"))
    known = [
        ("video", card.video),
        ("characteristics", ", ".join(card.characteristics) or None),
        ("domain", card.domain),
        ("annotated", _counts(card)),
    ]
    for name, value in known:
        told = NOTHING if value is None else one_line(value)
        console.print(Text(f"  {name:<15} {told}"))
    console.print()


def _counts(card: VideoCard) -> str:
    elements = sum(len(event.elements) for event in card.events)
    weight = sum(element.weight for event in card.events for element in event.elements)
    events = _many(len(card.events), "reference event")
    return f"{events}, {_many(elements, 'element')}, weight {thousands(weight)}"


def _many(count: int, noun: str) -> str:
    return f"{thousands(count)} {noun}{'' if count == 1 else 's'}"


def _print_run(name: str, card: VideoCard, console: Console) -> None:
    _title("Run", name, console)
    if card.provenance is not None:
        _block(f"judged by {_maker(card.provenance)}", console, indent=2, style="dim")
    if card.status != "scored":
        told = _STATES[card.status] + (f": {card.reason}" if card.reason else "")
        _block(told, console, indent=2, style="yellow")
    console.print()
    if card.scores:
        _print_whole(_scores(card.scores), console, wraps=False)
        _block(_SUMS, console, indent=4, style="dim")
        console.print()
    if card.caption is not None:
        console.print(Text("  Caption", style="bold"))
        _block(card.caption if card.caption.strip() else "(empty)", console, indent=4)
        console.print()
    if card.candidate_events:
        console.print(Text("  Its events, and the reference event that each matches", style="bold"))
        _print_whole(_candidates(card), console)
    if card.notes:
        console.print(Text("  Notes of what was repaired", style="bold"))
        for note in card.notes:
            _block(f"- {note}", console, indent=4)
        console.print()


def _maker(made: Provenance) -> str:
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


def _table(*, header: bool) -> Table:
    return Table(
        box=box.SIMPLE_HEAD if header else None,
        show_header=header,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )


def _scores(scores: Mapping[str, VideoScore]) -> Table:
    table = _table(header=True)
    # Weights of three digits fit 80 columns still.
    table.padding = (0, 0, 0, 0)
    table.add_column(width=2)  # an indent that, unlike padding, may leave the terminal
    table.add_column("Weights", no_wrap=True)
    for heading in ("Entailed", "Lacking", "Contradicted", "Precision", "Recall", "F1"):
        table.add_column(heading, justify="right", no_wrap=True)
    for group in ("all", *ELEMENT_TYPES):
        if group not in scores:
            table.add_row("", group.title(), *[NOTHING] * 6)
            continue
        one = scores[group]
        mentioned = one.entailed + one.contradicted
        table.add_row(
            "",
            "Overall" if group == "all" else group.title(),
            thousands(one.entailed),
            thousands(one.total - mentioned),
            thousands(one.contradicted),
            f"{one.entailed}/{mentioned} = {percent(one.precision)}",
            f"{one.entailed}/{one.total} = {percent(one.recall)}",
            percent(one.f1),
        )
    return table


def _candidates(card: VideoCard) -> Table:
    table = _table(header=False)
    table.add_column(width=3)
    table.add_column(justify="right", width=len(str(len(card.candidate_events))))
    table.add_column(overflow="fold", min_width=_WORDS)
    table.add_column(min_width=len("matches none"))
    for place, (text, match) in enumerate(
        zip(card.candidate_events, card.matches, strict=True), start=1
    ):
        told = "matches none" if match is None else f"matches {match}"
        style = "yellow" if match is None else ""
        table.add_row("", str(place), Text(_readable(text)), Text(told, style=style))
    return table


def _print_events(cards: Mapping[str, VideoCard], console: Console) -> None:
    """Print the reference events, with a column of verdicts for each run."""
    events = next(iter(cards.values())).events
    widest = max(len(element.id) for event in events for element in event.elements)
    for place, event in enumerate(events):
        console.print(Text(f"  Reference event {event.number}", style="bold"))
        _block(event.text, console, indent=4)
        for name, card in cards.items():
            if card.status == "scored":
                whose = f"{one_line(name)}: " if len(cards) > 1 else ""
                matched = card.events[place].matched
                told = f"matched by {_listed(matched)}"
                console.print(Text(f"    {whose}{told}", style="dim" if matched else "yellow"))
        _print_whole(_elements(cards, place, widest), console)


def _elements(cards: Mapping[str, VideoCard], event: int, widest: int) -> Table:
    several = len(cards) > 1
    people = not several and any(
        element.human for card in cards.values() for e in card.events for element in e.elements
    )
    table = _table(header=True)
    # Of equal columns in all events, so that they can be read down.
    table.box, table.expand, table.header_style = None, True, "dim"
    table.add_column(width=3)
    for name in cards:
        heading = Text(_broken(name, _VERDICT)) if several else "Verdict"
        table.add_column(heading, width=_VERDICT, overflow="fold")
    if people:
        table.add_column("People", width=_PEOPLE, overflow="fold")
    table.add_column("Id", width=widest)
    table.add_column("Type", width=max(map(len, ELEMENT_TYPES)), no_wrap=True)
    table.add_column("Weight", width=6, justify="right")
    table.add_column("Element", ratio=1, min_width=_WORDS, overflow="fold")
    views = [card.events[event].elements for card in cards.values()]
    for elements in zip(*views, strict=True):
        one = elements[0]
        cells = [
            _verdict(element, card.status, people=several)
            for element, card in zip(elements, cards.values(), strict=True)
        ]
        if people:
            cells.append(_people(one))
        content = Text(_readable(one.content))
        table.add_row("", *cells, Text(one.id), Text(one.type), Text(str(one.weight)), content)
    return table


def _broken(name: str, width: int) -> str:
    """Return a name over lines that end where its words do; a longer word is left to be folded."""
    lines = [""]
    for word in re.findall(r"[^-_./@ ]*[-_./@ ]|[^-_./@ ]+", both_ends(name, 3 * width)):
        if lines[-1] and cell_len(lines[-1] + word.rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return "\n".join(line.rstrip() for line in lines)


def _verdict(element: ElementView, status: str, *, people: bool) -> Text:
    if element.relation is None:
        # Not a dash: that is the sign of an element which the caption lacks.
        told = Text(f"({status})", style="yellow")
    else:
        told = _label(element.relation)
    if element.votes:
        told.append(f"\n  votes {_signs(element.votes)}", style="dim")
    if people and element.human:
        told.append(f"\n  people {_signs(tuple(element.human.values()))}", style="dim")
    return told


def _signs(labels: Sequence[HumanLabel]) -> str:
    return " ".join(SIGNS[label] for label in labels)


def _people(element: ElementView) -> Text:
    several = len(element.human) > 1
    lines = [
        _label(label).append(f" {one_line(rater, 60)}" if several else "")
        for rater, label in element.human.items()
    ]
    return Text("\n").join(lines)


def _label(label: HumanLabel) -> Text:
    return Text(f"{SIGNS[label]} {LABEL_WORDS[label]}", style=_STYLES[label])


def _print_whole(table: Table, console: Console, *, wraps: bool = True) -> None:
    """Print a table of which nothing is ever cut: the terminal wraps its lines instead."""
    needs = Console(width=10_000).measure(table)
    fitting = max(needs.minimum, console.width) if wraps else needs.maximum
    table.width = fitting if table.expand else min(fitting, needs.maximum)
    console.print(table, crop=False)
    console.print()


def _listed(numbers: Sequence[int]) -> str:
    if not numbers:
        return "nothing in the caption"
    told = "event " if len(numbers) == 1 else "events "
    return f"{told}{', '.join(map(str, numbers))} of the caption"


def _room(count: int, console: Console) -> bool:
    return console.width >= 4 + count * (_VERDICT + 1) + _MIDDLE + _WORDS


def _one_reference(cards: Sequence[VideoCard]) -> bool:
    """Say whether all were judged against the same words and weights."""
    told = [
        [(e.text, [(v.content, v.type, v.weight) for v in e.elements]) for e in card.events]
        for card in cards
    ]
    return all(one == told[0] for one in told)
