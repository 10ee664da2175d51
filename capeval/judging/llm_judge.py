"""The three stages with a chat model: split, match, classify (TUNA, section 3.2.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from capeval.judging.contracts import CONTRACTS, Part
from capeval.judging.prompts import PromptSet, Stage
from capeval.judging.protocol import PreparedJudge, Tally
from capeval.judging.replies import read_reply
from capeval.judging.split_checks import clean, words
from capeval.llm import Answer, Asker, ChatReply, ChatRequest, ReplyBroken, ReplyRefused
from capeval.schema import Annotation, Provenance, Relation, Verdict, endpoint_name, lacking
from capeval.tracing import about

T = TypeVar("T")

# Characters per token of English prose, an underestimate: it sets limits that must not cut replies.
_CHARACTERS = 3.0


def _tokens(*texts: str) -> int:
    return round(sum(map(len, texts)) / _CHARACTERS)


class LLMJudge(PreparedJudge):
    """Asks any chat model, one call per stage; a reply that breaks the contract is requested again.

    `endpoint` is the name that is configured for `base_url`, if any; see `schema.endpoint_name`.
    """

    def __init__(
        self,
        asker: Asker,
        model: str,
        prompts: PromptSet,
        *,
        base_url: str = "",
        endpoint: str | None = None,
        concurrency: int = 1,
    ) -> None:
        self.asker, self.templates = asker, prompts
        self.name, self.prompts, self.concurrency = model, prompts.label, concurrency
        self.base_url, self.endpoint = base_url or None, endpoint
        self._endpoint = endpoint or endpoint_name(base_url)
        self.identity = (model, f"endpoint {self._endpoint}", prompts.hash)

    def identities(self, made: Provenance) -> tuple[tuple[str, ...], ...]:
        """Return the current identity, and that of older versions, which included the address."""
        if made.base_url and made.endpoint_name != self._endpoint:
            return (self.identity,)
        return (self.identity, (self.name, made.base_url or "", self.templates.hash))

    async def judge(
        self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
    ) -> Verdict:
        """Return the verdict on a caption that is not empty; see `PreparedJudge.judge`."""
        with self.asker.one_caption():
            return await self._judge(annotation, caption, repeat, tally)

    async def _judge(
        self, annotation: Annotation, caption: str, repeat: int, tally: Tally
    ) -> Verdict:
        notes: list[str] = []
        about(index=annotation.index, repeat=repeat)
        stages = _Stages(self, repeat, tally, notes)
        events = await stages.split(clean(caption))
        references = [clean(event.event) for event in annotation.events]
        matches = await stages.match(events, references)
        parts = [
            Part(
                event=number,
                text=" ".join(e for e, m in zip(events, matches, strict=True) if m == number),
                elements=tuple(clean(element.content) for element in event.visual_elements),
            )
            for number, event in enumerate(annotation.events, start=1)
            if number in matches
        ]
        labels = await stages.classify(parts) if parts else []
        judged = {part.event: given for part, given in zip(parts, labels, strict=True)}
        relations = [
            judged.get(number) or lacking(event)
            for number, event in enumerate(annotation.events, start=1)
        ]
        return Verdict(
            candidate_events=tuple(events),
            matches=tuple(matches),
            relations=tuple(relations),
            notes=tuple(notes),
        )


@dataclass
class _Stages:
    """The stages of one repeat for one caption."""

    judge: LLMJudge
    repeat: int
    tally: Tally
    notes: list[str]

    def __post_init__(self) -> None:
        self.contract = CONTRACTS[self.judge.templates.contract]

    async def split(self, caption: str) -> list[str]:
        """Stage 1: the caption's events."""
        return await self._ask(
            "split",
            {"caption": self.contract.show_caption(caption)},
            lambda value, notes: self.contract.read_split(value, caption, notes),
            256 + 2 * _tokens(caption),
            material=(caption,),
        )

    async def match(self, events: Sequence[str], references: Sequence[str]) -> list[int | None]:
        """Stage 2: each event's reference event, in order."""
        matches = await self._ask(
            "match",
            {
                "candidate_events": self.contract.show_events(events),
                "reference_events": self.contract.show_events(references),
            },
            lambda value, notes: self.contract.read_matches(
                value, len(events), len(references), notes
            ),
            256 + 32 * len(events),
            material=(*events, *references),
        )
        repaired = repair_order(matches, [len(words(event)) for event in events])
        for number, (before, after) in enumerate(zip(matches, repaired, strict=True), start=1):
            if before != after:
                self.notes.append(
                    f"match: candidate event {number} to reference event {before} breaks the "
                    "order of time; taken as unmatched"
                )
        return repaired

    async def classify(self, parts: Sequence[Part]) -> list[tuple[Relation, ...]]:
        """Stage 3: the relation of each matched event's elements."""
        shown = self.contract.show_parts(parts)
        return await self._ask(
            "classify",
            {"match_data": shown},
            lambda value, notes: self.contract.read_relations(value, parts, notes),
            # The benchmark's contract echoes everything that it was shown.
            256 + 32 * sum(len(part.elements) for part in parts) + 2 * _tokens(shown),
            material=tuple(part.text for part in parts),
        )

    async def _ask(
        self,
        stage: Stage,
        data: Mapping[str, str],
        read: Callable[[Any, list[str]], T],
        max_tokens: int,
        *,
        material: Sequence[str],
    ) -> T:
        self.tally.stage = stage
        about(stage=stage)
        request = ChatRequest(
            model=self.judge.name,
            messages=({"role": "user", "content": self.judge.templates.render(stage, data)},),
            max_tokens=max_tokens,
            repeat=self.repeat,
            schema=self.contract.schemas.get(stage),
        )

        def check(reply: ChatReply) -> tuple[T, list[str]]:
            return read_reply(reply.text, read, stage, material)

        try:
            answer = await self.judge.asker.ask(request, check)
        except (ReplyBroken, ReplyRefused) as failure:
            self._count(stage, failure)
            raise
        self._count(stage, answer)
        value, notes = answer.value
        self.notes += [f"{stage}: asked again: {why}" for why in answer.complaints] + notes
        return value

    def _count(self, stage: Stage, answer: Answer[Any] | ReplyBroken | ReplyRefused) -> None:
        self.tally.add(stage, answer.usage)
        for reply in answer.replies:
            self.tally.models.add(reply.model)
            self.tally.left_off.update(reply.left_off)
            if reply.fingerprint:
                self.tally.fingerprints.add(reply.fingerprint)


_Gain = tuple[int, int]  # matches kept, words kept


def repair_order(matches: Sequence[int | None], sizes: Sequence[int]) -> list[int | None]:
    """Return the matches, with None for those that break the chronological order.

    The longest non-decreasing subsequence is kept; among several, the one with the most words,
    then the one whose events come earliest.
    `matches` are reference numbers (from 1) or None, `sizes` the words, per candidate event.

    >>> repair_order([1, 3, 2, None, 3], [5, 9, 4, 1, 6])
    [1, 3, None, None, 3]
    """
    places = [place for place, match in enumerate(matches) if match is not None]
    numbers = [match for match in matches if match is not None]
    top = max(numbers, default=0)
    # following[v]: the best gain of a later subsequence whose values are all >= v.
    following: list[_Gain] = [(0, 0)] * (top + 2)
    gains: list[_Gain] = [(0, 0)] * len(places)
    for at in range(len(places) - 1, -1, -1):
        number = numbers[at]
        count, words = following[number]
        gains[at] = gain = (count + 1, words + sizes[places[at]])
        for value in range(number, -1, -1):
            if following[value] >= gain:
                break
            following[value] = gain

    repaired: list[int | None] = [None] * len(matches)
    wanted, least = following[0], 0
    for at, place in enumerate(places):
        if numbers[at] >= least and gains[at] == wanted and wanted[0] > 0:
            repaired[place] = least = numbers[at]
            wanted = (wanted[0] - 1, wanted[1] - sizes[place])
    return repaired
