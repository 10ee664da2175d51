"""The three stages with a chat model: split, match, classify (TUNA, section 3.2.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from capeval.judging.contracts import (
    EventToClassify,
    Labels,
    PromptSet,
    Reasons,
    Stage,
    contract_of,
)
from capeval.judging.protocol import PreparedJudge, Tally
from capeval.llm.asker import Chat
from capeval.llm.replies import ChatReply, ChatRequest, FormError, read_reply
from capeval.llm.tracing import about
from capeval.schema import Annotation, Verdict, endpoint_name, lacking
from capeval.text import Loss, segments, storable, words

T = TypeVar("T")

# Enough to know a model by; after so few, a run has hardly cost anything.
FIRST_REPLIES = 20


class LLMJudge(PreparedJudge):
    """Asks any chat model, one call per stage; a reply that breaks the contract is requested again.

    With another effort or other weights, a model is another judge.
    """

    def __init__(
        self, chat: Chat, prompts: PromptSet, on_notice: Callable[[str], None] = lambda _: None
    ) -> None:
        self.asker, self.templates, self._on_notice = chat.asker, prompts, on_notice
        self.name, self.prompts, self.concurrency = chat.model, prompts.label, chat.concurrency
        self.base_url, self.endpoint = chat.asker.base_url, chat.endpoint
        self.reasoning, self.description = chat.reasoning, chat.weights
        named = f"endpoint {chat.endpoint or endpoint_name(chat.asker.base_url)}"
        effort = (f"reasoning {chat.reasoning}",) if chat.reasoning else ()
        behind = (f"weights {chat.weights}",) if chat.weights else ()
        self.identity = (chat.model, named, prompts.hash, *effort, *behind)
        self._replies = self._unreadable = 0

    async def judge(
        self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
    ) -> Verdict:
        return await _Stages(self, repeat, tally).verdict(annotation, caption)

    def count(self, reply: ChatReply, *, is_readable: bool) -> None:
        if reply.cached or self._replies == FIRST_REPLIES:
            return
        self._replies += 1
        self._unreadable += not is_readable
        if self._replies == FIRST_REPLIES and self._unreadable > FIRST_REPLIES // 2:
            self._on_notice(
                Loss(
                    f"{self._unreadable} of the first {FIRST_REPLIES} replies of {self.name} are "
                    "requested again because they are not JSON alone: let the server enforce "
                    "response_format and separate the reasoning; see docs/judging.md"
                )
            )


class _Stages:
    """The stages of one repeat for one caption."""

    def __init__(self, judge: LLMJudge, repeat: int, tally: Tally) -> None:
        self.judge, self.repeat, self.tally = judge, repeat, tally
        self.contract = contract_of(judge.templates)
        tally.notes = []

    async def verdict(self, annotation: Annotation, caption: str) -> Verdict:
        about(index=annotation.index, repeat=self.repeat)
        events = await self.split(storable(caption))
        matches = await self.match(events, [storable(event.event) for event in annotation.events])
        numbered = list(enumerate(annotation.events, start=1))
        parts = [
            EventToClassify(
                event=number,
                text=" ".join(e for e, m in zip(events, matches, strict=True) if m == number),
                elements=tuple(storable(element.content) for element in event.visual_elements),
            )
            for number, event in numbered
            if number in matches
        ]
        labels, reasons = await self.classify(parts) if parts else ([], [])
        judged = {part.event: given for part, given in zip(parts, labels, strict=True)}
        explained = {part.event: given for part, given in zip(parts, reasons, strict=True)}
        explanations = tuple(
            explained.get(number) or ("",) * len(event.visual_elements)
            for number, event in numbered
        )
        return Verdict(
            candidate_events=tuple(events),
            matches=tuple(matches),
            relations=tuple(judged.get(number) or lacking(event) for number, event in numbered),
            explanations=explanations if self.judge.templates.explain else None,
            notes=tuple(self.tally.notes),
        )

    async def split(self, caption: str) -> list[str]:
        found = segments(caption)
        if len(found) == 1:
            return [caption.strip()]  # one segment is one event, so that nothing need be asked
        return await self._ask(
            "split",
            {"caption": self.contract.show_caption(caption)},
            lambda value, notes: self.contract.read_split(value, caption, notes),
            items=len(found),
            material=(caption,),
        )

    async def match(self, events: Sequence[str], references: Sequence[str]) -> list[int | None]:
        matches = await self._ask(
            "match",
            {
                "candidate_events": self.contract.show_events(events),
                "reference_events": self.contract.show_events(references),
            },
            lambda value, _: self.contract.read_matches(value, len(events), len(references)),
            items=len(events),
            material=(*events, *references),
        )
        repaired = repair_order(matches, [len(words(event)) for event in events])
        for number, (before, after) in enumerate(zip(matches, repaired, strict=True), start=1):
            if before != after:
                self.tally.notes.append(
                    f"match: candidate event {number} to reference event {before} breaks the "
                    "order of time; taken as unmatched"
                )
        return repaired

    async def classify(self, parts: Sequence[EventToClassify]) -> tuple[Labels, Reasons]:
        return await self._ask(
            "classify",
            {"match_data": self.contract.show_parts(parts)},
            lambda value, notes: self.contract.read_relations(value, parts, notes),
            items=sum(len(part.elements) for part in parts),
            material=tuple(part.text for part in parts),
        )

    async def _ask(
        self,
        stage: Stage,
        data: Mapping[str, str],
        read: Callable[[Any, list[str]], T],
        *,
        items: int,
        material: Sequence[str],
    ) -> T:
        self.tally.stage = stage
        about(stage=stage)
        judge, contract = self.judge, self.contract
        request = ChatRequest(
            model=judge.name,
            messages=({"role": "user", "content": judge.templates.render(stage, data)},),
            max_tokens=contract.max_tokens(stage, items),
            repeat=self.repeat,
            schema=contract.schemas.get(stage),
            reasoning=judge.reasoning,
        )

        def check(reply: ChatReply) -> tuple[T, list[str]]:
            is_readable = True
            try:
                return read_reply(
                    *(reply.text, read, material),
                    printed=contract.prints_python,
                    enforced=request.is_enforced_in(reply),
                )
            except FormError:
                is_readable = False
                raise
            finally:
                judge.count(reply, is_readable=is_readable)

        value, notes = await self.tally.ask(judge.asker, request, check, stage)
        self.tally.notes += notes
        return value


def repair_order(matches: Sequence[int | None], sizes: Sequence[int]) -> list[int | None]:
    """Return the matches, with None for each that breaks the chronological order.

    The longest non-decreasing subsequence is kept; among several, the one with the most words,
    then the one whose events come earliest.
    `matches` are reference numbers (from 1) or None, `sizes` the words, per candidate event.

    >>> repair_order([1, 3, 2, None, 3], [5, 9, 4, 1, 6])
    [1, 3, None, None, 3]
    """
    end = len(matches)
    # By the reference that a subsequence begins with, the best of the places seen: its length, its
    # words, and its first place, negative because the earliest is preferred.
    best: dict[int, tuple[int, int, int]] = {}
    following: dict[int, int] = {}
    for place, number in reversed([*enumerate(matches)]):
        if number is None:
            continue
        later = [each for first, each in best.items() if first >= number]
        length, words, rest = max(later, default=(0, 0, -end))
        following[place] = -rest
        found = (length + 1, words + sizes[place], -place)
        best[number] = max(found, best.get(number, found))
    repaired: list[int | None] = [None] * end
    place = -max(best.values(), default=(0, 0, -end))[2]
    while place < end:
        repaired[place] = matches[place]
        place = following[place]
    return repaired
