"""Merge what annotators confirmed into one set of annotations; what is open is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capeval.construct.drafts import Draft, DraftElement, DraftEvent
from capeval.schema import CHARACTERISTICS
from capeval.text import listed


@dataclass(frozen=True)
class Merging:
    """Annotations in TUNA's layout, why other videos have none, and what annotators remarked."""

    annotations: tuple[Mapping[str, Any], ...]
    open: Mapping[str, str]
    comments: tuple[str, ...]


def merge_drafts(drafts: Iterable[Draft]) -> Merging:
    """Merge the annotations of each video, in the order of the indexes.

    Versions of several annotators must state the same, or be decided on: an adjudicated version
    replaces those that it decides between.
    """
    versions: dict[str, list[Draft]] = {}
    for draft in drafts:
        versions.setdefault(draft.index, []).append(draft)
    annotations, left, comments = [], dict[str, str](), []
    for index, given in sorted(versions.items()):
        ordered = sorted(given, key=lambda one: str(one.annotator))
        comments += [f"{index}: {one.annotator}: {one.comment}" for one in ordered if one.comment]
        chosen = [one for one in ordered if one.adjudicates] or ordered
        if reason := _why_open(chosen):
            left[index] = reason
        else:
            annotations.append(_annotation(chosen))
    return Merging(tuple(annotations), left, tuple(comments))


def _why_open(versions: Sequence[Draft]) -> str:
    """Return what is still to be done before versions of a video are one annotation, if so."""
    unfinished = [f"{one.annotator}: {listed(one.open)}" for one in versions if one.open]
    if unfinished:
        return "; ".join(unfinished)
    differing = {_claims(one): str(one.annotator) for one in versions}
    if len(differing) == 1:
        return ""
    names = sorted({*differing.values()})
    if len(names) == 1:
        return f"two versions of {names[0]} differ; leave one of the files out"
    return f"{' and '.join(names)} differ: capeval annotate review --differences"


def _claims(draft: Draft) -> tuple[Any, ...]:
    """Return what an annotation states: not who stated it, nor at which frame an event begins."""
    return (
        frozenset(draft.visual_characteristic),
        draft.domain,
        tuple((one.event, tuple(e.claim for e in one.visual_elements)) for one in draft.events),
    )


def _annotation(versions: Sequence[Draft]) -> dict[str, Any]:
    first = versions[0]
    names = [name for one in versions for name in (*one.adjudicates, str(one.annotator))]
    held = {*first.visual_characteristic}
    return {
        "index": first.index,
        "video": first.video,
        "visual_characteristic": ",".join(one for one in CHARACTERISTICS if one in held),
        "domain": first.domain,
        "drafted_by": sorted({name for one in versions for name in one.drafted_by}),
        "annotators": sorted({*names}),
        "events": [_event(of) for of in zip(*(one.events for one in versions), strict=True)],
    }


def _event(versions: Sequence[DraftEvent]) -> dict[str, Any]:
    elements = zip(*(one.visual_elements for one in versions), strict=True)
    start = next((one.start for one in versions if one.start is not None), None)
    return {
        "event": versions[0].event,
        **({} if start is None else {"start": start}),
        "visual_elements": [_element(of) for of in elements],
    }


def _element(versions: Sequence[DraftElement]) -> dict[str, Any]:
    first = versions[0]
    return {
        "content": first.content,
        "type": first.type,
        "weight": first.weight,
        "source": first.source,
        "confirmed_by": sorted({name for one in versions for name in one.confirmed_by}),
    }
