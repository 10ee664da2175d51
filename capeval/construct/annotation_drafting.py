"""`capeval annotate draft`: a chat model finds the events of captions and states their elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager as Opening
from dataclasses import KW_ONLY
from functools import partial
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Any

from capeval.construct.asked_items import (
    AskedItems,
    ConstructChatOptions,
    ItemToAsk,
    Questionnaire,
    open_asking,
)
from capeval.construct.drafts import DOMAINS, DRAFTS, Draft, DraftElement, DraftEvent, read_drafts
from capeval.errors import InputError, ReplyError
from capeval.files.annotations import load_video_list
from capeval.files.caption_layouts import CaptionsFile, read_captions
from capeval.files.label_matching import normalised
from capeval.files.packaged import prompt_of
from capeval.judging.contracts import Contract, check_starts
from capeval.judging.segments import segments
from capeval.llm.questions import ChatQuestion
from capeval.llm.replies import Number, ReplyForm, Words, one_of
from capeval.options import INPUTS, FilePath, Notices, command, declares, required, takes
from capeval.runs.concurrency import blocking
from capeval.runs.engine import Labels, finished
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import find_captions
from capeval.schema import CHARACTERISTICS, Caption, Characteristic, ElementType, Video
from capeval.schema.annotation import Weight
from capeval.show.output import Output
from capeval.show.result import Lines
from capeval.text import Loss, counted, listed, shown

# A segment of about thirty tokens has one or two elements, of thirty tokens with their keys; this
# is four times as much, because some models write JSON on many lines.
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


@command("annotate draft", "yes", "dry_run", options=DraftOptions)
def open_draft(
    o: DraftOptions, output: Output | None = None
) -> Opening[AskedItems[dict[str, Draft]]]:
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
    asked = Questionnaire(
        file,
        Labels("drafting", "video", "drafted", "undrafted"),
        lambda model: _items(videos, captions, model),
        lambda _, __: read_drafts(folder),
        _summary,
        [str(file), f"Next: capeval annotate review {quote(str(folder))} --annotators NAMES"],
    )
    return open_asking(o, asked, output)


def _summary(drafts: Mapping[str, Draft]) -> Lines:
    events = counted(sum(len(one.events) for one in drafts.values()), "event")
    elements = counted(sum(len(one.elements) for one in drafts.values()), "element")
    return Lines([f"{counted(len(drafts), 'video')} drafted: {events}, {elements}."])


@takes(DraftOptions)
async def annotate_draft_async(o: DraftOptions) -> dict[str, Draft]:
    """Draft annotations of a folder's videos from captions: drafts.jsonl, returned by index.

    Raises
    ------
    InputError, UsageError
        The inputs or options are not right.
    EndpointRefused, EndpointDown, BudgetReached
        The chat model cannot be asked any more; what was drafted is kept.
    """
    (drafts,) = await finished(open_draft(o), o.progress)
    return drafts


annotate_draft = blocking(annotate_draft_async)
