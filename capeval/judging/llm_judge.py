"""The three stages, asked of a chat model: split, match, classify (TUNA, section 3.2.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from capeval.judging.contract import Contract, Part
from capeval.judging.ids_contract import IdsContract
from capeval.judging.match_order import repair_order
from capeval.judging.prompts import PromptSet, Stage
from capeval.judging.protocol import Tally
from capeval.judging.replies import read_reply
from capeval.judging.split_checks import clean, words
from capeval.judging.tuna_contract import TunaContract
from capeval.llm import Answer, Asker, ChatReply, ChatRequest, ReplyBroken, ReplyRefused
from capeval.schema import Annotation, Relation, Verdict, lacking
from capeval.tracing import about

T = TypeVar("T")

_CONTRACTS: Mapping[str, Contract] = {"ids": IdsContract(), "tuna": TunaContract()}

# Characters per token of English prose, on the low side: what is bounded by it must not be cut.
_CHARACTERS = 3.0


def _tokens(*texts: str) -> int:
    return round(sum(map(len, texts)) / _CHARACTERS)


class LLMJudge:
    """Asks any chat model, one call per stage; what breaks the contract is asked again.

    Parameters
    ----------
    asker : caches, checks and meters the calls
    model : as the endpoint names it
    prompts : the templates and their reply contract
    base_url : of the endpoint; verdicts of two endpoints are not mixed
    """

    def __init__(self, asker: Asker, model: str, prompts: PromptSet, *, base_url: str = "") -> None:
        self._asker, self._model, self._prompts = asker, model, prompts
        self._contract = _CONTRACTS[prompts.contract]
        self._base_url = base_url

    @property
    def name(self) -> str:
        """The model, as it was asked for."""
        return self._model

    @property
    def prompts(self) -> str | None:
        """Name and hash of the prompt set."""
        return self._prompts.label

    @property
    def base_url(self) -> str | None:
        """The endpoint."""
        return self._base_url or None

    @property
    def identity(self) -> tuple[str, ...]:
        """Model, endpoint and prompts."""
        return (self._model, self._base_url, self._prompts.hash)

    async def judge(
        self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
    ) -> Verdict:
        """Return the verdict on a caption that is not empty; see `Judge.judge`."""
        notes: list[str] = []
        about(index=annotation.index, repeat=repeat)
        ask = _Stages(self._asker, self._model, self._prompts, self._contract, repeat, tally, notes)
        events = await ask.split(clean(caption))
        references = [clean(event.event) for event in annotation.events]
        matches = await ask.match(events, references)
        parts = [
            Part(
                event=number,
                text=" ".join(e for e, m in zip(events, matches, strict=True) if m == number),
                elements=tuple(clean(element.content) for element in event.visual_elements),
            )
            for number, event in enumerate(annotation.events, start=1)
            if number in matches
        ]
        judged = dict(
            zip((p.event for p in parts), await ask.classify(parts) if parts else [], strict=True)
        )
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


class _Stages:
    """One pass over one caption."""

    def __init__(
        self,
        asker: Asker,
        model: str,
        prompts: PromptSet,
        contract: Contract,
        repeat: int,
        tally: Tally,
        notes: list[str],
    ) -> None:
        self._asker, self._model, self._prompts, self._contract = asker, model, prompts, contract
        self._repeat, self._tally, self._notes = repeat, tally, notes

    async def split(self, caption: str) -> list[str]:
        """Stage 1: the caption's events."""
        return await self._ask(
            "split",
            {"caption": self._contract.show_caption(caption)},
            lambda value, notes: self._contract.read_split(value, caption, notes),
            256 + 2 * _tokens(caption),
            material=(caption,),
        )

    async def match(self, events: Sequence[str], references: Sequence[str]) -> list[int | None]:
        """Stage 2: each event's reference event, in order."""
        matches = await self._ask(
            "match",
            {
                "candidate_events": self._contract.show_events(events),
                "reference_events": self._contract.show_events(references),
            },
            lambda value, notes: self._contract.read_matches(
                value, len(events), len(references), notes
            ),
            256 + 32 * len(events),
            material=(*events, *references),
        )
        repaired = repair_order(matches, [len(words(event)) for event in events])
        for number, (before, after) in enumerate(zip(matches, repaired, strict=True), start=1):
            if before != after:
                self._notes.append(
                    f"match: candidate event {number} to reference event {before} breaks the "
                    "order of time; taken as unmatched"
                )
        return repaired

    async def classify(self, parts: Sequence[Part]) -> list[tuple[Relation, ...]]:
        """Stage 3: the relation of each matched event's elements."""
        shown = self._contract.show_parts(parts)
        return await self._ask(
            "classify",
            {"match_data": shown},
            lambda value, notes: self._contract.read_relations(value, parts, notes),
            # The benchmark's contract echoes all that it was shown.
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
        self._tally.stage = stage
        about(stage=stage)
        request = ChatRequest(
            model=self._model,
            messages=({"role": "user", "content": self._prompts.render(stage, data)},),
            max_tokens=max_tokens,
            repeat=self._repeat,
            schema=self._contract.schemas.get(stage),
        )

        def check(reply: ChatReply) -> tuple[T, list[str]]:
            return read_reply(reply.text, read, stage, material)

        try:
            answer = await self._asker.ask(request, check)
        except (ReplyBroken, ReplyRefused) as failure:
            self._count(stage, failure)
            raise
        self._count(stage, answer)
        value, notes = answer.value
        self._notes += [f"{stage}: asked again: {why}" for why in answer.complaints] + notes
        return value

    def _count(self, stage: Stage, answer: Answer[Any] | ReplyBroken | ReplyRefused) -> None:
        self._tally.add(stage, answer.usage)
        for reply in answer.replies:
            self._tally.models.add(reply.model)
            self._tally.left_off.update(reply.left_off)
            if reply.fingerprint:
                self._tally.fingerprints.add(reply.fingerprint)
