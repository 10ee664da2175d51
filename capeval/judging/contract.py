"""What a reply contract is, and the checks that every contract shares.

`ids` (ours) is JSON in which events and elements carry ids. `tuna` is the form of the benchmark's
published prompts: a list of strings, a list of (candidate, reference or None) tuples, and JSON
that echoes the contents. Both are held to the same: every id once and in range, labels of the
closed set. What can be read in one way only is repaired and noted; anything else is a
`ReplyError`, whose message tells the model what to mend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from capeval.errors import ReplyError
from capeval.files.label_matching import normalised, read_relation
from capeval.judging.prompts import Stage
from capeval.judging.split_checks import check_split, clean, repeats_note
from capeval.llm import ReplySchema
from capeval.schema import Relation
from capeval.text import shown


@dataclass(frozen=True)
class Part:
    """One reference event to classify: its number (from 1), what was said of it, its elements."""

    event: int
    text: str
    elements: tuple[str, ...]


class Contract(Protocol):
    """Shows data to the judge and reads its replies; `notes` collects what was repaired."""

    @property
    def schemas(self) -> Mapping[Stage, ReplySchema]:
        """The JSON schema per stage, for endpoints that hold a reply to one."""
        ...

    def show_caption(self, caption: str) -> str:
        """Return the caption as it stands in the split prompt."""
        ...

    def show_events(self, events: Sequence[str]) -> str:
        """Return numbered events as they stand in the match prompt."""
        ...

    def show_parts(self, parts: Sequence[Part]) -> str:
        """Return what was said of each event and its elements, for the classify prompt."""
        ...

    def read_split(self, value: Any, caption: str, notes: list[str]) -> list[str]:
        """Return the candidate events; raises `ReplyError`."""
        ...

    def read_matches(
        self, value: Any, candidates: int, references: int, notes: list[str]
    ) -> list[int | None]:
        """Return the reference number or None of each candidate event; raises `ReplyError`."""
        ...

    def read_relations(
        self, value: Any, parts: Sequence[Part], notes: list[str]
    ) -> list[tuple[Relation, ...]]:
        """Return the relations of each part's elements; raises `ReplyError`."""
        ...


def as_list(value: Any, key: str) -> list[Any]:
    """Return the list that a reply holds, bare or under its key."""
    if isinstance(value, dict) and isinstance(value.get(key), list):
        value = value[key]
    if not isinstance(value, list):
        raise ReplyError(f"the reply must hold a list of {key}, not {shown(value)}")
    return value


def read_events(items: Sequence[Any], caption: str, notes: list[str]) -> list[str]:
    """Return the events of a split: strings, exact repeats dropped, together the caption."""
    events: dict[str, str] = {}
    repeated = 0
    for item in items:
        if not isinstance(item, str):
            raise ReplyError(f"every event must be a string, not {shown(item)}")
        event = clean(item).strip()
        if event and events.setdefault(normalised(event), event) is not event:
            repeated += 1
    if not events:
        raise ReplyError("the reply has no events, but the caption has words")
    check_split(caption, events.values())
    if repeated:
        notes.append(repeats_note(repeated))
    return list(events.values())


def read_label(value: Any, of: str, notes: list[str]) -> Relation:
    """Return a label of the closed set; that it was written otherwise is noted."""
    relation = read_relation(value, of)
    if value != relation:
        notes.append(f"classify: {of}: the label {shown(value)} was read as {relation}")
    return relation


def read_number(value: Any, what: str, top: int) -> int:
    """Return an id from 1 to `top`, given as a number or as its digits."""
    if isinstance(value, str) and value.isascii() and value.strip().isdigit() and len(value) < 9:
        value = int(value)
    if type(value) is not int:
        raise ReplyError(f"{what} must be a number from 1 to {top}, not {shown(value)}")
    if not 1 <= value <= top:
        raise ReplyError(f"there is no {what} {shown(value)}; ids go from 1 to {top}")
    return value


_NO_MATCH = {"none", "null", ""}


def collect_matches(
    pairs: Sequence[tuple[Any, Any]], candidates: int, references: int, notes: list[str]
) -> list[int | None]:
    """Return one match per candidate event; every candidate must be answered exactly once."""
    found: dict[int, int | None] = {}
    order: list[int] = []
    for candidate, reference in pairs:
        number = read_number(candidate, "candidate event", candidates)
        named = not isinstance(reference, str) or reference.strip().lower() not in _NO_MATCH
        match = (
            read_number(reference, "reference event", references)
            if named and reference is not None
            else None
        )
        if type(candidate) is not int or (reference is not None and type(reference) is not int):
            notes.append(f"match: candidate event {number} was answered with text for a number")
        if number in found and found[number] != match:
            raise ReplyError(f"candidate event {number} is answered twice, differently")
        if number in found:
            notes.append(f"match: candidate event {number} was answered twice, alike")
        found[number] = match
        order.append(number)
    missing = [str(number) for number in range(1, candidates + 1) if number not in found]
    if missing:
        raise ReplyError(f"candidate event(s) {', '.join(missing[:20])} are not answered")
    if order != sorted(order):
        notes.append("match: the answers were not in the candidates' order")
    return [found[number] for number in range(1, candidates + 1)]
