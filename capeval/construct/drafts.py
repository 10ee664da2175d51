"""Drafts of annotations, and `capeval annotate draft`, by which a chat model writes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY
from functools import partial
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from capeval.config import prompt_of
from capeval.construct.asked_items import AskedItems, ConstructChatOptions, ItemToAsk, stored_lines
from capeval.errors import InputError, ReplyError
from capeval.files.annotations import load_video_list
from capeval.files.captions import CaptionsFile, read_captions
from capeval.files.jsonl import validated
from capeval.judging.contracts import Contract, check_starts
from capeval.judging.judges import open_chat
from capeval.language import normalised, segments
from capeval.llm.asker import ChatQuestion
from capeval.llm.replies import Number, ReplyForm, Words, one_of
from capeval.options import INPUTS, FilePath, Notices, command, declares, required
from capeval.runs.engine import Labels, functions
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import find_captions
from capeval.schema import (
    CHARACTERISTICS,
    Caption,
    Characteristic,
    ElementType,
    Id,
    Sentence,
    Video,
    Weight,
)
from capeval.show.result import Result
from capeval.text import Loss, counted, listed, shown

DRAFTS = "drafts.jsonl"
"""The file with the drafts of a folder of videos."""

DOMAINS = (
    *("Film", "Daily Life", "Cooking", "Sports Activity", "Driving", "Animals & Pets"),
    *("Natural Landscape", "Cityscape", "Urban Activity", "Foods", "Plants", "Autos & Vehicles"),
)
"""The domains of TUNA-1K (appendix A.1)."""


Place = tuple[int, int]
"""An event and an element of it, both from 0."""


class _DraftPart(BaseModel):
    model_config = ConfigDict(frozen=True)


class DraftElement(_DraftPart):
    """A visual element by a model or annotator; `other` is the version of a second annotator."""

    content: Sentence
    type: ElementType
    weight: Weight
    source: str
    confirmed_by: tuple[str, ...] = ()
    other: DraftElement | None = None

    @property
    def claim(self) -> tuple[str, ElementType, int]:
        return self.content, self.type, self.weight


class DraftEvent(_DraftPart):
    """An event; `start` is in seconds; `other` is the sentence of a second annotator."""

    event: str
    start: float | None = Field(None, ge=0)
    other: str | None = None
    visual_elements: tuple[DraftElement, ...]


class Draft(_DraftPart):
    """The unfinished annotation of one video.

    `annotator` is None for a model's draft; `reviewers` are those whose pages have the video, and
    `adjudicates` the two whose versions the annotator decided on; `exported` is in ISO 8601, UTC.
    """

    index: Id
    video: str
    visual_characteristic: tuple[Characteristic, ...] = ()
    domain: str | None = None
    drafted_by: tuple[str, ...] = ()
    annotator: str | None = None
    reviewers: tuple[str, ...] = ()
    exported: str = ""
    adjudicates: tuple[str, ...] = ()
    comment: str = ""
    events: tuple[DraftEvent, ...] = ()

    @property
    def elements(self) -> list[DraftElement]:
        return [element for event in self.events for element in event.visual_elements]

    def element(self, place: Place) -> DraftElement:
        event, element = place
        return self.events[event].visual_elements[element]

    @property
    def open(self) -> list[str]:
        unconfirmed = sum(not element.confirmed_by for element in self.elements)
        dynamic = {"Low-Dynamic", "High-Dynamic"} & {*self.visual_characteristic}
        found = {
            "no events": not self.events,
            "an event without a sentence": any(not one.event.strip() for one in self.events),
            "an event without elements": any(not one.visual_elements for one in self.events),
            "two sentences of an event": any(one.other is not None for one in self.events),
            counted(unconfirmed, "unconfirmed element"): unconfirmed > 0,
            "neither Low- nor High-Dynamic, or both": len(dynamic) != 1,
            "no domain": not self.domain,
        }
        return [what for what, is_so in found.items() if is_so]


def read_drafts(folder: Path) -> dict[str, Draft]:
    file = folder / DRAFTS
    lines = {index: line for index, line in stored_lines(file).items() if "reason" not in line}
    return {
        index: validated(Draft, line, file=file, where=f"index {shown(index)}")
        for index, line in lines.items()
    }


# ---- Drafting ------------------------------------------------------------------------------------

# A segment of about thirty tokens has one or two elements of thirty tokens with their keys. Four
# times as many are allowed, because some models write JSON on many lines.
_TOKENS_PER_SEGMENT = 240


@declares
class DraftOptions(ConstructChatOptions):
    """The arguments of `capeval.annotate_draft`.

    Parameters
    ----------
    captions : A run of `capeval generate`, or a captions file.
    """

    folder: FilePath = required("The folder of the videos.", positional=True, metavar="FOLDER")
    _: KW_ONLY
    captions: FilePath = required(panel=INPUTS, metavar="RUN|FILE")


class _Element(ReplyForm):
    content: Words
    type: ElementType
    weight: Weight


class _Event(ReplyForm):
    start: Number
    elements: list[_Element]


class _Drafted(ReplyForm):
    events: list[_Event]
    characteristics: list[Characteristic]
    domain: str


def captions_by_index(
    named: FilePath, videos: Sequence[Video], runs: Path, on_notice: Notices
) -> dict[str, Caption]:
    """Return the captions of a run or a file by index; the model defaults to the source's name."""
    found = find_captions(named, runs)
    if isinstance(found, RunFolder):
        name, place, read = found.name, found.path, CaptionsFile(found.read_captions())
    else:
        name, place, read = found.stem, found, read_captions(found, videos)
    captions = {c.index: c.model_copy(update={"model": c.model or name}) for c in read.captions}
    if not any(one.index in captions for one in videos):
        raise InputError("has no captions of these videos", file=place)
    for notice in read.notices:
        on_notice(notice)
    return captions


def _items(videos: Sequence[Video], captions: Mapping[str, Caption], model: str) -> list[ItemToAsk]:
    items = []
    for one in videos:
        if (caption := captions.get(one.index)) and not caption.is_empty:
            text = Contract().show_caption(caption.caption)
            prompt = prompt_of("annotate-v1", "draft", {"caption": text})
            most = 256 + _TOKENS_PER_SEGMENT * len(segments(caption.caption))
            question = ChatQuestion("draft", prompt, _Drafted, most, (caption.caption,))
            read = partial(_read, video=one, caption=caption, model=model)
            items.append(ItemToAsk(one.index, question, read))
    return items


def _read(reply: _Drafted, *, video: Video, caption: Caption, model: str) -> Mapping[str, Any]:
    found = segments(caption.caption)
    starts = [event.start for event in reply.events]
    check_starts(starts, len(found))
    for number, event in enumerate(reply.events, start=1):
        if not event.elements:
            raise ReplyError(f"event {number} has no elements")
        seen: set[str] = set()
        for one in event.elements:
            if (key := normalised(one.content)) in seen:
                raise ReplyError(f"event {number} has the element {shown(one.content)} twice")
            seen.add(key)
    if len({"Low-Dynamic", "High-Dynamic"} & {*reply.characteristics}) != 1:
        raise ReplyError("characteristics must have exactly one of Low-Dynamic and High-Dynamic")
    one_of(reply.domain, DOMAINS, "domain")
    spans = pairwise([*starts, len(found) + 1])
    draft = Draft(
        index=video.index,
        video=video.video or video.index,
        visual_characteristic=tuple(c for c in CHARACTERISTICS if c in reply.characteristics),
        domain=reply.domain,
        drafted_by=tuple(dict.fromkeys((caption.model or "", model))),
        events=tuple(
            DraftEvent(
                event="".join(found[start - 1 : end - 1]).strip(),
                visual_elements=tuple(
                    DraftElement(**one.model_dump(), source=model) for one in event.elements
                ),
            )
            for event, (start, end) in zip(reply.events, spans, strict=True)
        ),
    )
    return draft.model_dump(mode="json", exclude={"index"}, exclude_defaults=True)


class Drafts(dict[str, Draft], Result):
    """The drafts of a folder of videos, by index."""

    def headline(self) -> str:
        events = counted(sum(len(one.events) for one in self.values()), "event")
        elements = counted(sum(len(one.elements) for one in self.values()), "element")
        return f"{counted(len(self), 'video')} drafted: {events}, {elements}."


@command("annotate draft", "yes", "dry_run", options=DraftOptions)
@asynccontextmanager
async def open_draft(
    o: DraftOptions, *, dry_run: bool = False
) -> AsyncIterator[AskedItems[Drafts]]:
    """Draft annotations from captions, for annotators to correct: drafts.jsonl.

    A chat model divides each caption into events and states their visual elements. Run the same
    command again to resume.
    """
    folder = Path(o.folder)
    file, videos = folder / DRAFTS, load_video_list(folder)
    captions = captions_by_index(o.captions, videos, Path(o.runs), o.on_notice)
    given = {index for index, one in captions.items() if not one.is_empty}
    if lacking := [one.index for one in videos if one.index not in given]:
        what = f"{counted(len(lacking), 'video')} without a caption or with an empty one"
        o.on_notice(Loss(f"{what}, not drafted: {listed(lacking)}"))
    following = f"Next: capeval annotate review {quote(str(folder))} --annotators NAMES"
    async with open_chat(o, offline=dry_run) as chat:
        yield AskedItems(
            *(o, chat, _items(videos, captions, chat.model), file),
            Labels("drafting", "video", "drafted", "undrafted"),
            make=lambda _: Drafts(read_drafts(folder)),
            files=[str(file), following],
        )


annotate_draft_async, annotate_draft = functions("annotate_draft", open_draft, DraftOptions, Drafts)
