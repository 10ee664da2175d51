"""Merge what annotators confirmed into one set of annotations; what is open is left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capeval.construct.drafts import Draft
from capeval.schema import CHARACTERISTICS
from capeval.text import listed

_NOT_WRITTEN: Any = {
    **dict.fromkeys(("annotator", "reviewers", "exported", "adjudicates", "comment"), True),
    "events": {"__all__": {"visual_elements": {"__all__": {"other"}}}},
}


@dataclass(frozen=True)
class MergedAnnotations:
    """Annotations in TUNA's layout, why other videos have none, and the annotators' comments."""

    annotations: tuple[Mapping[str, Any], ...]
    open: Mapping[str, str]
    comments: tuple[str, ...]


def merge_drafts(drafts: Iterable[Draft], videos: Collection[str]) -> MergedAnnotations:
    """Merge the annotations of each video, in the order of the indexes.

    All annotators of a video must agree. Where they do not, the adjudicator's version counts.
    `drafts` has one version of each annotator; `videos` are the indexes of the kept videos.
    """
    versions: dict[str, list[Draft]] = {}
    for draft in sorted(drafts, key=lambda one: (one.index, str(one.annotator))):
        versions.setdefault(draft.index, []).append(draft)
    annotations, left = [], dict[str, str]()
    for index, given in versions.items():
        chosen = [one for one in given if one.adjudicates] or given
        if reason := _why_open(chosen) if index in videos else "keep is false":
            left[index] = reason
        else:
            annotations.append(_annotation(chosen))
    left |= {index: "no file has it" for index in videos if index not in versions}
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
    if len(differing) > 1:
        names = sorted(differing.values())
        return f"{' and '.join(names)} differ: capeval annotate review --differences"
    needed = {name for one in versions if not one.adjudicates for name in one.reviewers}
    missing = sorted(needed.difference(one.annotator for one in versions))
    return f"no file of {' and '.join(missing)} has it" if missing else ""


def _claims(draft: Draft) -> tuple[Any, ...]:
    """Return what an annotation states: not who stated it, nor at which frame an event begins."""
    # The order of the elements of an event states nothing.
    events = ((one.event, sorted(e.claim for e in one.visual_elements)) for one in draft.events)
    held = frozenset(draft.visual_characteristic)
    return held, draft.domain, tuple((sentence, *elements) for sentence, elements in events)


def _annotation(versions: Sequence[Draft]) -> dict[str, Any]:
    first, *_ = versions
    value = first.model_dump(exclude=_NOT_WRITTEN, exclude_none=True)
    held = value["visual_characteristic"]
    value["visual_characteristic"] = ",".join(one for one in CHARACTERISTICS if one in held)
    value["drafted_by"] = sorted({name for one in versions for name in one.drafted_by})
    names = {name for one in versions for name in (*one.adjudicates, str(one.annotator))}
    value["annotators"] = sorted(names)
    for number, event in enumerate(value["events"]):
        same = [e for one in versions for e in one.events[number].visual_elements]
        for element in event["visual_elements"]:
            claim = tuple(element[name] for name in ("content", "type", "weight"))
            names = {name for one in same if one.claim == claim for name in one.confirmed_by}
            element["confirmed_by"] = sorted(names)
    return value
