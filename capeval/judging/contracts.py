"""Prompt sets, and the reply contract: what is shown to a chat model, and how replies are read.

Items are numbered, and replies use these numbers: the segments of the caption at which events
start, pairs of events, pairs of an element and a label. So events are spans of the caption. Every
id is present once and in range, and every label is from the closed set; anything else is a
`ReplyError`.
"""

from __future__ import annotations

import ast
import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from capeval.config import packaged
from capeval.errors import InputError, ReplyError
from capeval.files.jsonl import read_text, validated
from capeval.files.judgments import match_labels, read_relation
from capeval.judging.protocol import DEFAULT_PROMPTS
from capeval.language import SEGMENTS_VERSION, normalised, segments, words
from capeval.llm.replies import (
    COUNT,
    TEXT,
    Number,
    ReplyForm,
    ReplySchema,
    Words,
    array_of,
    each_once,
    in_form,
    must_exist,
    object_of,
    pair_of,
)
from capeval.schema import RELATIONS, Relation
from capeval.text import counted, describe, filled, listed, nearest, one_line, shown, storable

T = TypeVar("T")
Stage = Literal["split", "match", "classify"]
Labels = list[tuple[Relation, ...]]
Reasons = list[tuple[str, ...]]
Match = tuple[Number, Number | None]

_PLACEHOLDERS: dict[Stage, tuple[str, ...]] = {
    "split": ("caption",),
    "match": ("candidate_events", "reference_events"),
    "classify": ("match_data",),
}
_BENCHMARK = "tuna"
_PROMPT_FILE = Path("evaluation", "tool", "prompt.py")
_IN_CHECKOUT: dict[Stage, str] = {
    "split": "PROMPT_SPLIT_EVENT",
    "match": "PROMPT_MATCH_EVENT",
    "classify": "PROMPT_CLASSIFY_RELATION",
}


class _Templates(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    split: str
    match: str
    classify: str
    explain: str | None = None


class _SetFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    contract: Literal["spans"]
    templates: _Templates


@dataclass(frozen=True)
class PromptSet:
    """Three templates; `hash` is the SHA-256 of the files in use.

    With `explain`, `classify` is the template that also asks for reasons. The benchmark's own
    prompts are `published`, with another reply format.
    """

    name: str
    hash: str
    templates: Mapping[Stage, str]
    explain: bool = False
    published: bool = False

    @property
    def label(self) -> str:
        return f"{self.name}{'+explain' if self.explain else ''}@{self.hash[:6]}"

    def render(self, stage: Stage, data: Mapping[str, str]) -> str:
        return filled(self.templates[stage], data)


def load_prompts(
    name_or_folder: str | Path = DEFAULT_PROMPTS, *, explain: bool = False
) -> PromptSet:
    """Load a packaged set by its name, or any folder with a `set.toml`; raises `InputError`.

    `tuna:CHECKOUT` is the benchmark's own set, in a checkout of its repository. `explain` takes the
    set's template that also asks for reasons.
    """
    folder, name = Path(name_or_folder), str(name_or_folder)
    kind, colon, checkout = name.partition(":")
    if kind == _BENCHMARK and colon and not folder.exists():
        return _of_checkout(Path(checkout), explain=explain)
    if folder.name == name and (packaged("prompts") / name).is_dir():
        # A plain name means a packaged set; a folder of that name is given as ./NAME.
        folder = packaged("prompts") / name
    if not folder.is_dir():
        sets = sorted(file.parent.name for file in packaged("prompts").glob("*/set.toml"))
        message = f"is neither a folder nor a packaged set ({', '.join(sets)}){nearest(name, sets)}"
        raise InputError(message, file=name_or_folder)
    folder = folder.resolve()
    path = folder / "set.toml"
    text = read_text(path)
    try:
        used = validated(_SetFile, tomllib.loads(text), file=path, where="").templates
    except (ValueError, RecursionError) as fault:
        raise InputError(f"broken TOML: {fault}", file=path) from None
    if explain and used.explain is None:
        raise _no_reasons(path)
    files = {**used.model_dump(), **({"classify": used.explain} if explain else {})}
    digest = hashlib.sha256(f"{text}\0segments {SEGMENTS_VERSION}".encode())
    templates: dict[Stage, str] = {}
    for stage in _PLACEHOLDERS:
        file = folder / files[stage]
        template = read_text(file)
        digest.update(b"\0" + template.encode("utf-8"))
        templates[stage] = _checked(template, stage, file)
    return PromptSet(folder.name, digest.hexdigest(), templates, explain)


def _no_reasons(file: Path) -> InputError:
    return InputError(
        "has no template for --explain; choose other --prompts, such as "
        f"{DEFAULT_PROMPTS}, or omit --explain",
        file=file,
    )


def _checked(template: str, stage: Stage, file: Path, where: str = "") -> str:
    for name in _PLACEHOLDERS[stage]:
        if template.count(f"{{{name}}}") != 1:
            message = f"must contain the placeholder {{{name}}} exactly once"
            raise InputError(message, file=file, where=where)
    return template.strip()


def _of_checkout(checkout: Path, *, explain: bool) -> PromptSet:
    """Return the prompts of a checkout of the benchmark's repository; its code is not executed."""
    file = checkout / _PROMPT_FILE
    if explain:
        raise _no_reasons(file)
    try:
        statements = ast.parse(read_text(file)).body
    except (SyntaxError, ValueError, RecursionError) as fault:
        raise InputError(f"is not Python ({describe(fault)})", file=file) from None
    found = {
        target.id: one.value.value
        for one in statements
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant)
        for target in one.targets
        if isinstance(target, ast.Name) and isinstance(one.value.value, str)
    }
    templates: dict[Stage, str] = {}
    for stage, name in _IN_CHECKOUT.items():
        if name not in found:
            raise InputError(f"has no text {name}; is it a checkout of TUNA?", file=file)
        # The templates are for str.format, which doubles braces that are text.
        single = re.sub(r"\{\{|\}\}", lambda pair: pair[0][0], found[name])
        templates[stage] = _checked(single, stage, file, name)
    digest = hashlib.sha256("\0".join(templates.values()).encode("utf-8"))
    return PromptSet(_BENCHMARK, digest.hexdigest(), templates, published=True)


@dataclass(frozen=True)
class EventToClassify:
    """One reference event to classify: its number (from 1), the caption's words, its elements."""

    event: int
    text: str
    elements: tuple[str, ...]


_LABEL = {"type": "string", "enum": list(RELATIONS)}
_PAIR = pair_of({"type": ["integer", "null"]})


class _Starts(ReplyForm):
    starts: list[Number]
    repeats: list[Number]


class _Matches(ReplyForm):
    matches: list[Match]


class _Relations(ReplyForm):
    relations: list[tuple[Number, str]]


class _Reasoned(ReplyForm):
    id: Number
    reason: Words
    relation: str


class _ReasonedRelations(ReplyForm):
    relations: list[_Reasoned]


class Contract:
    """Segments, events and elements are numbered from 1, and shown one per line.

    With `explain`, each label has a line of reasoning before it. `schemas` are the JSON schemas
    that an endpoint may enforce. Repairs of replies are added to `notes`.
    """

    prints_python = False
    """Whether a reply may be a list as Python prints it, instead of JSON."""

    def __init__(self, *, explain: bool = False) -> None:
        self._explain = explain
        item = (
            object_of(id=COUNT, reason=TEXT, relation=_LABEL)
            if explain
            else pair_of({"anyOf": [COUNT, _LABEL]})
        )
        split = object_of(starts=array_of(COUNT), repeats=array_of(COUNT))
        self.schemas: Mapping[Stage, ReplySchema] = {
            "split": ReplySchema("starts", split),
            "match": ReplySchema("matches", object_of(matches=array_of(_PAIR))),
            "classify": ReplySchema("relations", object_of(relations=array_of(item))),
        }

    def max_tokens(self, stage: Stage, items: int) -> int:
        """Return the maximum reply tokens for `items` segments, events or elements."""
        reasons = 80 * items if self._explain and stage == "classify" else 0
        # Four times the estimate: some models write JSON on many lines.
        return 128 + {"split": 8, "match": 16, "classify": 28}[stage] * items + reasons

    def reply_tokens(self, stage: Stage, items: int) -> int:
        """Return the expected tokens of a reply about `items` items; see docs/prompts.md."""
        reasons = 22 * items if self._explain and stage == "classify" else 0
        return 8 + {"split": 2, "match": 4, "classify": 7}[stage] * items + reasons

    def show_caption(self, caption: str) -> str:
        return _numbered(segments(caption))

    def show_events(self, events: Sequence[str]) -> str:
        return _numbered(events)

    def show_parts(self, parts: Sequence[EventToClassify]) -> str:
        blocks = []
        number = 1
        for part in parts:
            blocks.append(f"Passage: {_line(part.text)}\n{_numbered(part.elements, number)}")
            number += len(part.elements)
        return "\n\n".join(blocks)

    def read_split(self, value: Any, caption: str, notes: list[str]) -> list[str]:
        """Return the candidate events: spans of the caption, without exact repeats."""
        found = segments(caption)
        given = in_form(_Starts, value)
        check_starts(given.starts, len(found), given.repeats)
        numbered = reversed([*enumerate(map(normalised, found), start=1)])
        first = set({text: number for number, text in numbered}.values())
        marked, events = set(given.repeats), []
        for start, end in pairwise([*given.starts, len(found) + 1]):
            numbers = set(range(start, end))
            new = numbers & first
            if new and numbers <= marked:
                notes.append(
                    f"split: segment {min(new)} repeats no earlier one; its event was kept"
                )
            if new or not numbers <= marked:
                events.append("".join(found[start - 1 : end - 1]).strip())
        if dropped := len(given.starts) - len(events):
            notes.append(_repeats_note(dropped))
        return events

    def read_matches(self, value: Any, candidates: int, references: int) -> list[int | None]:
        return matched(in_form(_Matches, value).matches, candidates, references)

    def read_relations(
        self, value: Any, parts: Sequence[EventToClassify], notes: list[str]
    ) -> tuple[Labels, Reasons]:
        if self._explain:
            given = in_form(_ReasonedRelations, value).relations
            answers = [(one.id, (one.relation, one.reason)) for one in given]
        else:
            answers = [(n, (label, "")) for n, label in in_form(_Relations, value).relations]
        names = [f"{part.event}.{n}" for part in parts for n in range(1, len(part.elements) + 1)]
        labels, reasons = [], []
        for number, (label, reason) in enumerate(each_once(answers, len(names), "element"), 1):
            relation = read_relation(label, f"element {number}")
            if label != relation:
                name = f"element {names[number - 1]}"
                notes.append(f"classify: {name}: the label {shown(label)} was read as {relation}")
            labels.append(relation)
            reasons.append(one_line(reason, _LONGEST_REASON))
        return _by_part(labels, parts), _by_part(reasons, parts)


def check_starts(starts: Sequence[int], count: int, others: Sequence[int] = ()) -> None:
    """Raise `ReplyError` unless events start at the first segment and later ones, in order.

    `others` are further numbers that must be those of the `count` segments.
    """
    for number in (*starts, *others):
        must_exist(number, count, "segment")
    if starts[:1] != [1]:
        raise ReplyError("starts must begin with 1: the first event starts at segment 1")
    for before, after in pairwise(starts):
        if after <= before:
            raise ReplyError(f"starts must be in ascending order, but {after} follows {before}")


def matched(pairs: Sequence[Match], candidates: int, references: int) -> list[int | None]:
    """Return the reference of each candidate event; all numbers must exist, each candidate once."""
    for _, reference in pairs:
        if reference is not None:
            must_exist(reference, references, "reference event")
    return each_once(pairs, candidates, "candidate event")


def _repeats_note(repeated: int) -> str:
    were = "was a duplicate and was" if repeated == 1 else "were duplicates and were"
    return f"split: {counted(repeated, 'caption event')} {were} dropped"


# A line of reasoning is shown beside its element; a longer one is cut.
_LONGEST_REASON = 300
_UNPRINTED = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def _line(text: str) -> str:
    # On one line and without < and >, nothing can begin a line or close the tags of a template.
    flat = _UNPRINTED.sub(" ", text).strip()
    return flat.replace("<", "&lt;").replace(">", "&gt;")


def _numbered(texts: Sequence[str], first: int = 1) -> str:
    return "\n".join(f"{number}: {_line(text)}" for number, text in enumerate(texts, first))


def _by_part(values: Sequence[T], parts: Sequence[EventToClassify]) -> list[tuple[T, ...]]:
    rest = iter(values)
    return [tuple(islice(rest, len(part.elements))) for part in parts]


# A judge may resolve a pronoun in an event, and drop a phrase such as "In the video,".
_MOST_ADDED, _MOST_LOST = 0.2, 0.05


class _Element(ReplyForm):
    content: str
    relationship: str


class _Event(ReplyForm):
    candidate_event: str = ""
    visual_elements: list[_Element]


class PublishedContract(Contract):
    """Events and parts as Python prints them; elements are named by their repeated content."""

    prints_python = True

    def __init__(self) -> None:
        super().__init__()
        self.schemas: Mapping[Stage, ReplySchema] = {}  # an endpoint's schema is of an object

    def max_tokens(self, stage: Stage, items: int) -> int:
        return 512 + {"split": 80, "match": 16, "classify": 96}[stage] * items

    def reply_tokens(self, stage: Stage, items: int) -> int:
        # A caption's event has 40 tokens, an element with its label 36.
        return 8 + {"split": 40, "match": 6, "classify": 36}[stage] * items

    def show_caption(self, caption: str) -> str:
        return caption

    def show_events(self, events: Sequence[str]) -> str:
        return repr([{"id": n, "event": event} for n, event in enumerate(events, start=1)])

    def show_parts(self, parts: Sequence[EventToClassify]) -> str:
        return repr([{"candidate_event": p.text, "visual_elements": [*p.elements]} for p in parts])

    def read_split(self, value: Any, caption: str, notes: list[str]) -> list[str]:
        """Return the events without exact repeats; they must be the caption's words in its order.

        Words are counted, which takes no time even for a caption in a loop; events that are copied
        exactly must follow one another.
        """
        written = [event for one in in_form(list[str], value) if (event := storable(one).strip())]
        events = [*{normalised(event): event for event in reversed(written)}.values()][::-1]
        if not events:
            raise ReplyError("the reply has no events, but the caption has words")
        left = Counter(words(caption))
        for event in events:
            added = Counter(words(event)) - left
            left -= Counter(words(event))
            if added.total() > max(1, _MOST_ADDED * len(words(event))):
                what = f"{shown(event)} has words that are not in the caption"
                raise ReplyError(f"{what} ({listed(added, 10)}); copy the caption's words")
        distinct = {normalised(part): words(part) for part in segments(caption)}
        unique = Counter(word for part in distinct.values() for word in part)
        lost = unique - Counter(word for event in events for word in words(event))
        if lost.total() > _MOST_LOST * unique.total() + 1:
            raise ReplyError(f"the events leave out {listed(lost, 10)}")
        whole, at = normalised(caption), 0
        for event in map(normalised, events):
            if event in whole and (at := whole.find(event, at)) < 0:
                raise ReplyError(f"the caption has {shown(event)} earlier; keep its order")
        if len(written) > len(events):
            notes.append(_repeats_note(len(written) - len(events)))
        return events

    def read_matches(self, value: Any, candidates: int, references: int) -> list[int | None]:
        return matched(in_form(list[Match], value), candidates, references)

    def read_relations(
        self, value: Any, parts: Sequence[EventToClassify], notes: list[str]
    ) -> tuple[Labels, Reasons]:
        # A model that was given one event often answers with the object alone.
        events = in_form(list[_Event], [value] if isinstance(value, dict) else value)
        if len(events) != len(parts):
            raise ReplyError(f"the reply has {len(events)} event(s); {len(parts)} were given")
        found: Labels = []
        for part, event in zip(parts, events, strict=True):
            name = f"event {part.event}"
            labels: list[tuple[str, Relation]] = [
                (one.content, read_relation(one.relationship, f"{name}, {shown(one.content)}"))
                for one in event.visual_elements
            ]
            found.append(match_labels(part.elements, labels, name, notes))
        return found, [("",) * len(part.elements) for part in parts]


def contract_of(prompts: PromptSet) -> Contract:
    return PublishedContract() if prompts.published else Contract(explain=prompts.explain)
