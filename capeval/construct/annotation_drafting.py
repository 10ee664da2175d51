"""Draft annotations from captions: a chat model finds the events and states their elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from capeval.construct.drafts import DOMAINS, Draft, DraftElement, DraftEvent, Item
from capeval.errors import InputError, ReplyError
from capeval.files.caption_layouts import CaptionsFile, read_captions
from capeval.files.label_matching import normalised
from capeval.files.packaged import prompt_of
from capeval.judging.contracts import Contract, check_starts
from capeval.judging.segments import segments
from capeval.llm.questions import Question
from capeval.llm.replies import Number, ReplyForm, Words, one_of
from capeval.runs.engine import Labels
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import find_captions
from capeval.schema import CHARACTERISTICS, Caption, Characteristic, ElementType, Video
from capeval.schema.annotation import Weight
from capeval.text import shown

LABELS = Labels("drafting", "video", "drafted", "undrafted")

# A segment of about thirty tokens has one or two elements, of thirty tokens with their keys; this
# is four times as much, because some models write JSON on many lines.
_TOKENS_PER_SEGMENT = 240


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
    named: str | Path, videos: Sequence[Video], runs: Path, on_notice: Callable[[str], None]
) -> dict[str, Caption]:
    """Return the captions of a run or a file by index, each with its model.

    A caption that names no model has that of its run or file: its name.
    """
    found = find_captions(named, runs)
    if isinstance(found, RunFolder):
        name, place, read = found.name, found.path, CaptionsFile(found.read_captions())
    else:
        name, place, read = found.stem, found, read_captions(found, videos)
    captions = {c.index: c.model_copy(update={"model": c.model or name}) for c in read.captions}
    if not any(one.index in captions for one in videos):
        raise InputError("has no caption of these videos", file=place)
    for notice in read.notices:
        on_notice(notice)
    return captions


def draft_items(videos: Sequence[Video], captions: Mapping[str, Caption], model: str) -> list[Item]:
    """Return what a chat model is asked: one question for each video with a caption."""
    items = []
    for one in videos:
        if (caption := captions.get(one.index)) and not caption.is_empty:
            text = Contract().show_caption(caption.caption)
            prompt = prompt_of("annotate-v1", "draft", {"caption": text})
            most = 256 + _TOKENS_PER_SEGMENT * len(segments(caption.caption))
            question = Question("draft", prompt, _Drafted, most, (caption.caption,))
            read = partial(_read, video=one, caption=caption, model=model)
            items.append(Item(one.index, question, read))
    return items


def _read(reply: _Drafted, *, video: Video, caption: Caption, model: str) -> Mapping[str, Any]:
    """Return the fields of a draft; raises `ReplyError`."""
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
