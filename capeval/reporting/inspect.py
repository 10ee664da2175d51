"""`capeval inspect`: one video in one judged run, and everything that explains its score.

A verdict is a sign and a word, so that it can be read without colours. Captions, names and replies
are text, whatever they contain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter

from capeval.errors import InputError
from capeval.options import (
    FilePath,
    annotations_option,
    command,
    declares,
    judge_option,
    required,
    runs_option,
    takes,
)
from capeval.schema import (
    RELATIONS,
    Annotation,
    ElementType,
    HumanLabel,
    Inputs,
    Provenance,
    Relation,
    VisualElement,
)
from capeval.scoring.counts import GROUPS
from capeval.scoring.judged_run import JudgedRun, load_judged
from capeval.scoring.scores import VideoScore
from capeval.show.numbers import percent, thousands
from capeval.show.result import Result
from capeval.show.table import (
    COUNT,
    PERCENT,
    Cell,
    Column,
    Kind,
    Page,
    Row,
    Table,
    columns,
    print_line,
    print_pages,
    text_of,
)
from capeval.text import counted, listed, nearest, one_line, shown

if TYPE_CHECKING:
    from rich.console import Console

Status = Literal["scored", "unscored", "uncaptioned", "unjudged"]

LABELS: Mapping[HumanLabel, tuple[str, str]] = {
    "entailment": ("✓", "entailed"),
    "lack": ("–", "lacking"),
    "contradiction": ("✗", "contradicted"),
    "covered": ("✓", "covered"),
    "not covered": ("–", "not covered"),
}
"""The sign and the word for each label; some human raters only say whether it is covered."""


_STYLES: Mapping[Relation, str] = {"entailment": "green", "lack": "dim", "contradiction": "red"}
_STATES = {"uncaptioned": "no caption", "unjudged": "not judged yet"}
# A sentence of a caption or an annotation in a table; longer ones come from broken files.
_TEXT = Kind(lambda text: one_line(text, 2000))


@declares
class InspectOptions:
    """The arguments of `capeval.inspect`.

    Parameters
    ----------
    run : A judged run: its name under runs/, its folder, a judge's folder, or a judgments.jsonl.
    index : The video's index.
    """

    run: FilePath = required(positional=True, metavar="RUN")
    index: str = required(positional=True, metavar="VIDEO")
    _: KW_ONLY
    judge: str | None = judge_option()
    annotations: FilePath | None = annotations_option()
    runs: FilePath = runs_option()


def named_label(label: HumanLabel) -> str:
    """Return the sign and the word for a label.

    >>> named_label("not covered")
    '– not covered'
    """
    return " ".join(LABELS[label])


@dataclass(frozen=True)
class ElementView:
    """An annotated element and its verdict.

    `relation` is None if the video is not scored. `votes` are the labels of each repeat, where
    there are several; `explanation` is the judge's line of reasoning, or None if it gave none.
    """

    id: str
    content: str
    type: ElementType
    weight: int
    relation: Relation | None
    votes: tuple[Relation, ...]
    explanation: str | None = None


@dataclass(frozen=True)
class EventView:
    """An annotated event; `matched` are the numbers of its candidate events, from 1.

    `start` is in seconds, where it is annotated.
    """

    number: int
    text: str
    start: float | None
    elements: tuple[ElementView, ...]
    matched: tuple[int, ...]


@dataclass(frozen=True)
class VideoCard(Result):
    """One video in one run.

    `status` is "uncaptioned" if there is no caption and "unjudged" if the caption has no judgment
    yet; `reason` says why a caption is unscored. `matches[i]` is the number of the reference
    event, from 1, of `candidate_events[i]`, or None. `scores` are by "all" and by type.
    """

    run: str
    index: str
    video: str | None
    characteristics: tuple[str, ...]
    domain: str | None
    status: Status
    reason: str | None
    caption: str | None
    candidate_events: tuple[str, ...]
    matches: tuple[int | None, ...]
    events: tuple[EventView, ...]
    notes: tuple[str, ...]
    scores: Mapping[str, VideoScore]
    inputs: Inputs | None = None
    provenance: Provenance | None = None

    @property
    def elements(self) -> tuple[ElementView, ...]:
        return tuple(element for event in self.events for element in event.elements)

    def as_json(self) -> Any:
        return TypeAdapter(VideoCard).dump_python(self, mode="json")

    def headline(self) -> str:
        where = f"{one_line(self.index)} in {one_line(self.run)}"
        if "all" not in self.scores:
            reason = f": {one_line(self.reason)}" if self.reason else ""
            return f"{where}: {_STATES.get(self.status, self.status)}{reason}"
        one, made = self.scores["all"], self.provenance
        # As in the headline of `score`: the snapshot that answered, where the endpoint named it.
        judge = f", judged by {one_line('+'.join(made.models) or made.judge)}" if made else ""
        return (
            f"{where}: F1 {percent(one.f1)}, precision {percent(one.precision)}, "
            f"recall {percent(one.recall)}{judge}."
        )

    def pages(self, *, full: bool = False) -> list[Page]:
        tables = [_candidates(self), _weights(self), _verdicts(self)]
        legend = "; ".join(map(named_label, RELATIONS))
        return [Page([table for table in tables if table.rows], notes=[legend])]

    def __str__(self) -> str:
        return text_of(self.show, width=100)

    def show(self, console: Console, *, full: bool = False) -> None:
        print_line(self.headline(), console)
        weight = sum(one.weight for one in self.elements)
        facts = [
            self.video and self.video != self.index and f"video {one_line(self.video)}",
            ", ".join(self.characteristics),
            self.domain and one_line(self.domain),
            counted(len(self.events), "reference event"),
            f"{counted(len(self.elements), 'element')} with a total weight of {thousands(weight)}",
        ]
        print_line("; ".join(fact for fact in facts if fact), console)
        if self.caption is not None:
            _print_block("Caption", self.caption if self.caption.strip() else "(empty)", console)
        if self.notes:
            notes = "\n".join(f"- {one}" for one in self.notes)
            _print_block("Notes on repaired replies", notes, console)
        console.print()
        print_pages(self.pages(full=full), console)


def card_of(run: JudgedRun, annotation: Annotation) -> VideoCard:
    index = annotation.index
    judgment, caption = run.judgments.get(index), run.captions.get(index)
    missing: Status = "unjudged" if caption else "uncaptioned"
    scored = run.scored.get(index)
    matches = scored.matches if scored else ()

    def element(event: int, place: int, given: VisualElement) -> ElementView:
        why = scored.explanations[event][place] if scored and scored.explanations else None
        return ElementView(
            id=f"{event + 1}.{place + 1}",
            content=given.content,
            type=given.type,
            weight=given.weight,
            relation=scored.relations[event][place] if scored else None,
            votes=tuple(one.relations[event][place] for one in (scored.repeats if scored else ())),
            explanation=why or None,
        )

    return VideoCard(
        run=run.name,
        index=index,
        video=annotation.video,
        characteristics=annotation.visual_characteristic,
        domain=annotation.domain,
        status=judgment.status if judgment else missing,
        reason=judgment.reason if judgment else None,
        caption=caption.caption if caption else None,
        candidate_events=scored.candidate_events if scored else (),
        matches=matches,
        events=tuple(
            EventView(
                number=number + 1,
                text=event.event,
                start=event.start,
                matched=tuple(at for at, of in enumerate(matches, 1) if of == number + 1),
                elements=tuple(
                    element(number, place, one) for place, one in enumerate(event.visual_elements)
                ),
            )
            for number, event in enumerate(annotation.events)
        ),
        notes=judgment.notes if judgment else (),
        scores=run.scores.videos.get(index, {}),
        inputs=judgment.inputs if judgment else None,
        provenance=judgment.provenance if judgment else None,
    )


# ---- The card as text --------------------------------------------------------------------------


def _print_block(title: str, text: str, console: Console) -> None:
    """Print text on its own lines, with terminal control characters escaped."""
    from rich.padding import Padding
    from rich.text import Text

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
    note = "Precision: entailed / (entailed + contradicted). Recall: entailed / all."
    heads = columns("Weight", *((name, COUNT) for name in counts), *measures)
    table = Table("", heads, note=note)
    for group in GROUPS:
        if one := card.scores.get(group):
            lacking = one.total - one.entailed - one.contradicted
            weights = one.entailed, lacking, one.contradicted, one.total
            table.rows.append([group, *weights, one.precision, one.recall, one.f1])
    return table


def _verdicts(card: VideoCard) -> Table:
    table = Table(
        "Reference events",
        [
            *(Column(name, words=True) for name in ("Verdict", "Id", "Type")),
            Column("Weight", kind=COUNT),
            Column("Element", words=True),
        ],
    )
    for event in card.events:
        rows = [_element(one, card.status) for one in event.elements]
        table.rows += [[_event(event, card)], *rows]
    return table


def _event(event: EventView, card: VideoCard) -> str:
    text = f"{event.number}. {_TEXT.show(event.text)}"
    if card.status != "scored":
        return text
    return f"{text} (matched by caption events: {', '.join(map(str, event.matched)) or 'none'})"


def _element(one: ElementView, status: str) -> Row:
    # Not a dash, which is the sign of an element that the caption lacks.
    verdict = Cell(f"({status})", style="yellow")
    if one.relation is not None:
        votes = " ".join(LABELS[vote][0] for vote in one.votes)
        style = _STYLES[one.relation]
        verdict = Cell(named_label(one.relation), f"\nvotes {votes}" if votes else "", style=style)
    why = f"\n→ {_TEXT.show(one.explanation)}" if one.explanation else ""
    return [verdict, one.id, one.type, one.weight, _TEXT.show(one.content) + why]


# ---- The command -------------------------------------------------------------------------------


@command("inspect", "as_json")
@takes(InspectOptions)
def inspect(o: InspectOptions) -> VideoCard:
    """Show why one video has its score: its caption, events and verdicts.

    Raises
    ------
    InputError, UsageError
        The run cannot be loaded, or its annotations lack the video.
    """
    run = load_judged(o.run, runs=Path(o.runs), judge=o.judge, annotations=o.annotations)
    if o.index not in run.annotated:
        hint = nearest(o.index, [*run.annotated]) or f"; it has {listed(run.annotated, 3)}"
        raise InputError(f"has no video {shown(o.index)}{hint}", file=run.annotations_path)
    return card_of(run, run.annotated[o.index])
