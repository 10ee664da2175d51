"""Merge what annotators confirmed into one set of annotations; what is open is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capeval.construct.drafts import Draft
from capeval.schema import CHARACTERISTICS
from capeval.text import listed

_NOT_WRITTEN: Any = {
    **dict.fromkeys(("annotator", "adjudicates", "comment"), True),
    "events": {"__all__": {"visual_elements": {"__all__": {"other"}}}},
}


@dataclass(frozen=True)
class MergedAnnotations:
    """Annotations in TUNA's layout, why other videos have none, and the annotators' comments."""

    annotations: tuple[Mapping[str, Any], ...]
    open: Mapping[str, str]
    comments: tuple[str, ...]


def merge_drafts(drafts: Iterable[Draft]) -> MergedAnnotations:
    """Merge the annotations of each video, in the order of the indexes.

    Several annotators must state the same. Where they do not, one who decided between them counts.
    """
    versions: dict[str, list[Draft]] = {}
    for draft in sorted(drafts, key=lambda one: (one.index, str(one.annotator))):
        versions.setdefault(draft.index, []).append(draft)
    annotations, left = [], dict[str, str]()
    for index, given in versions.items():
        chosen = [one for one in given if one.adjudicates] or given
        if reason := _why_open(chosen):
            left[index] = reason
        else:
            annotations.append(_annotation(chosen))
    comments = tuple(
        f"{index}: {one.annotator}: {one.comment}"
        for index, given in versions.items()
        for one in given
        if one.comment.strip()
    )
    return MergedAnnotations(tuple(annotations), left, comments)


def _why_open(versions: Sequence[Draft]) -> str:
    """Return why the versions of a video are not one annotation yet; empty if they are."""
    if unfinished := [f"{one.annotator}: {listed(one.open)}" for one in versions if one.open]:
        return "; ".join(unfinished)
    differing = {_claims(one): str(one.annotator) for one in versions}
    names = sorted({*differing.values()})
    if len(differing) == 1:
        return ""
    if len(names) == 1:
        return f"two versions of {names[0]} differ: leave one of the files out"
    return f"{' and '.join(names)} differ: capeval annotate review --differences"


def _claims(draft: Draft) -> tuple[Any, ...]:
    """Return what an annotation states: not who stated it, nor at which frame an event begins."""
    return (
        frozenset(draft.visual_characteristic),
        draft.domain,
        tuple((one.event, tuple(e.claim for e in one.visual_elements)) for one in draft.events),
    )


def _annotation(versions: Sequence[Draft]) -> dict[str, Any]:
    first, *_ = versions
    value = first.model_dump(exclude=_NOT_WRITTEN, exclude_none=True)
    held = value["visual_characteristic"]
    value["visual_characteristic"] = ",".join(one for one in CHARACTERISTICS if one in held)
    value["drafted_by"] = sorted({name for one in versions for name in one.drafted_by})
    names = {name for one in versions for name in (*one.adjudicates, str(one.annotator))}
    value["annotators"] = sorted(names)
    elements = (element for event in value["events"] for element in event["visual_elements"])
    for element, *same in zip(elements, *(one.elements for one in versions), strict=True):
        element["confirmed_by"] = sorted({name for one in same for name in one.confirmed_by})
    return value
