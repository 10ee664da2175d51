"""One video in one judged run, with all that explains its score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import TypeAdapter

from capeval.errors import UsageError
from capeval.files.ratings import LabelTable, load_human
from capeval.schema import (
    Annotation,
    ElementType,
    HumanLabel,
    Inputs,
    Provenance,
    Relation,
    VisualElement,
)
from capeval.scoring.judged_run import JudgedRun
from capeval.scoring.result import VideoScore

HumanLabels = Mapping[tuple[str, str | None], Mapping[str, Mapping[str, HumanLabel]]]
"""By (video, system or None), then element id, then rater."""

Status = Literal["scored", "unscored", "uncaptioned", "unjudged"]

LABELS: Mapping[HumanLabel, tuple[str, str]] = {
    "entailment": ("✓", "entailed"),
    "lack": ("–", "lacking"),
    "contradiction": ("✗", "contradicted"),
    "covered": ("✓", "covered"),
    "not covered": ("–", "not covered"),
}
"""The sign and the word for each label; some human raters only say whether it is covered."""


def named_label(label: HumanLabel) -> str:
    """Return the sign and the word for a label.

    >>> named_label("not covered")
    '– not covered'
    """
    return " ".join(LABELS[label])


@dataclass(frozen=True)
class ElementView:
    """An annotated element and its verdict.

    `relation` is None where the video is not scored. `votes` are the labels of each repeat, where
    there are several; `human` are the labels of human raters, by rater. `explanation` is the
    judge's line of reasoning, or None if it gave none.
    """

    id: str
    content: str
    type: ElementType
    weight: int
    relation: Relation | None
    votes: tuple[Relation, ...]
    human: Mapping[str, HumanLabel]
    explanation: str | None = None

    @property
    def disputed_by(self) -> tuple[str, ...]:
        """The human raters whose label differs from the verdict, on the scale of the label."""
        covered = "covered" if self.relation == "entailment" else "not covered"
        alike = (self.relation, covered)
        return tuple(
            rater for rater, label in self.human.items() if self.relation and label not in alike
        )


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
class VideoCard:
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
        """The elements of all events."""
        return tuple(element for event in self.events for element in event.elements)

    def to_json(self) -> dict[str, Any]:
        """Return the card as JSON values."""
        card: dict[str, Any] = TypeAdapter(VideoCard).dump_python(self, mode="json")
        return card


def card_of(run: JudgedRun, annotation: Annotation, human: HumanLabels | None = None) -> VideoCard:
    """Return the card of one annotated video."""
    index = annotation.index
    judgment, caption = run.judgments.get(index), run.captions.get(index)
    scored = run.scored.get(index)
    matches = scored.matches if scored else ()
    # In human files the system is the run's name or the captions' model.
    systems = ((human or {}).get((index, system)) for system in (run.name, run.model, None))
    labels = next(filter(None, systems), {})

    def element(event: int, place: int, given: VisualElement) -> ElementView:
        known = f"{event + 1}.{place + 1}"
        why = scored.explanations[event][place] if scored and scored.explanations else None
        return ElementView(
            id=known,
            content=given.content,
            type=given.type,
            weight=given.weight,
            relation=scored.relations[event][place] if scored else None,
            votes=tuple(one.relations[event][place] for one in (scored.repeats if scored else ())),
            human=labels.get(known, {}),
            explanation=why or None,
        )

    return VideoCard(
        run=run.name,
        index=index,
        video=annotation.video,
        characteristics=annotation.visual_characteristic,
        domain=annotation.domain,
        status=judgment.status if judgment else "unjudged" if caption else "uncaptioned",
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


def cards_of(run: JudgedRun, human: HumanLabels | None = None) -> list[VideoCard]:
    """Return the cards of all annotated videos, in the annotations' order."""
    return [card_of(run, annotation, human) for annotation in run.annotations]


def load_human_labels(
    path: Path,
    columns: Mapping[str, str] | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> HumanLabels:
    """Read a human file of element labels; elements without a label are left out with a notice.

    `columns` are the file's by capeval's names.

    Raises
    ------
    InputError
        The file is not valid.
    UsageError
        It has ratings of whole captions.
    """

    table = load_human(path, columns=columns, missing="drop")
    if not isinstance(table, LabelTable):
        raise UsageError(f"{path}: has ratings of whole captions; --human needs labels of elements")
    for line in (*table.notices, *table.warnings):
        on_notice(line)
    result: dict[tuple[str, str | None], dict[str, dict[str, HumanLabel]]] = {}
    for key, element, rater, label in zip(
        table.keys, table.elements, table.rater, table.labels, strict=True
    ):
        result.setdefault(key, {}).setdefault(element, {})[table.raters[rater]] = cast(
            HumanLabel, label
        )
    return result
