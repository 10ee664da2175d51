"""Annotations and verdicts in shorthand: one letter for each type, label and characteristic."""

from collections.abc import Sequence
from typing import Any

from capeval.schema import Annotation, Judgment, Relation, Scored, Verdict
from capeval.scoring.judged_run import score_judgments
from capeval.scoring.scores import Scores

_TYPES = {"c": "camera", "s": "scene", "a": "action", "t": "attribute"}
_LABELS: dict[str, Relation] = {"+": "entailment", "0": "lack", "-": "contradiction"}


def annotation(index: str, *events: str, **fields: Any) -> Annotation:
    """`annotation("v", "c3 s1", "a2")` has two events, of two elements and of one."""
    return Annotation.model_validate(
        {
            "index": index,
            "events": [
                {
                    "event": "Something happens.",
                    "visual_elements": [
                        {
                            "content": f"Element {place} of event {number}.",
                            "type": _TYPES[element[0]],
                            "weight": int(element[1:]),
                        }
                        for place, element in enumerate(event.split(), start=1)
                    ],
                }
                for number, event in enumerate(events, start=1)
            ],
        }
        | fields
    )


def relations(labels: str) -> tuple[tuple[Relation, ...], ...]:
    """`relations("+0 -")` are those of two events: `+` entailed, `0` lacking, `-` contradicted."""
    return tuple(tuple(_LABELS[label] for label in event) for event in labels.split())


def verdict(labels: str) -> Verdict:
    """Return these relations; one candidate event matches each event that has any."""
    given = relations(labels)
    matches = tuple(n for n, event in enumerate(given, start=1) if set(event) != {"lack"})
    return Verdict(candidate_events=("A dog.",) * len(matches), matches=matches, relations=given)


def scored(index: str, labels: str, **fields: Any) -> Scored:
    return Scored(index=index, **(dict(verdict(labels)) | fields))


def scores(
    annotations: Sequence[Annotation],
    judgments: Sequence[Judgment],
    *,
    captioned: int | None = None,
) -> Scores:
    captioned = len(judgments) if captioned is None else captioned
    return score_judgments(annotations, judgments, captioned=captioned)
