"""The interface of metrics: declarations, input and values."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AllowInfNan, BaseModel, ConfigDict, Strict, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from capeval.config import config_file, read_config
from capeval.errors import UsageError
from capeval.files.jsonl import short_hash, validated
from capeval.llm.asker import (
    QUESTION_FAILURES,
    Asked,
    Chat,
    ChatQuestion,
    FormT,
    ask_chat,
)
from capeval.llm.money import CHARACTERS
from capeval.llm.replies import ReplyBroken, ReplyRefused
from capeval.runs.concurrency import work_through
from capeval.schema import Annotation, Caption, Usage
from capeval.text import complaint, one_line
from capeval.version import __version__

Number = Annotated[float, Strict(), AllowInfNan(False)]
"""A finite number; digits as text are refused."""


class Settings(BaseModel):
    """The settings in `[metrics.NAME]` of `capeval.toml`: none, unless a metric derives its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


T = TypeVar("T")


@dataclass(frozen=True)
class Item:
    """One caption with its references.

    `system` is the name of the run or of the candidates file. A TUNA annotation gives one
    reference: the sentences of its events, joined by spaces. `group` is the part of the data that
    some metrics average over; `extra` are other fields of the record in the file of references.
    """

    index: str
    system: str | None
    caption: str
    references: tuple[str, ...]
    events: tuple[str, ...] | None = None
    group: str | None = None
    annotation: Annotation | None = field(default=None, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> str:
        return key_of(self.index, self.system)

    @cached_property
    def is_empty(self) -> bool:
        return Caption(index=self.index, caption=self.caption).is_empty

    @cached_property
    def hash(self) -> str:
        """A short hash of the texts; values are recomputed when it changes."""
        more = [self.extra] if self.extra else []
        return short_hash([self.caption, self.references, self.events, *more])


@checked_dataclass(frozen=True)
class Values:
    """The values of one caption by output, with `details` that explain them, as JSON.

    `undefined` says why an output has no value by its definition; it is not a failure.
    """

    values: Mapping[str, Number]
    undefined: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)


@checked_dataclass(frozen=True)
class NoValues:
    """A caption that could not be scored; the next run retries it."""

    reason: str
    details: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)


Outcome = Values | NoValues
Record = Callable[[Item, Outcome], None]
HasRoom = Callable[[int], bool]


@checked_dataclass(frozen=True)
class MetricOutput:
    """One of the metric's numbers, by its name in metrics.jsonl.

    `unit` is "fraction" (0 to 1, shown as a percentage), "number", or a unit such as "words"; a
    `control` is not a measure of quality but a baseline that metrics must exceed.
    """

    name: str
    unit: str = "fraction"
    control: bool = False


@checked_dataclass(frozen=True)
class Summary:
    """An output over all captions: a mean, or the metric's own definition, from `n` captions.

    `undefined` counts scored captions without the output; `groups` are values by group.
    """

    value: Number | None
    n: int
    undefined: int = 0
    reason: str | None = None
    groups: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """The user's choices: the `device` of local models, and a chat model, for metrics with one."""

    device: str | None = None
    chat: Chat | None = None
    on_notice: Callable[[str], None] = lambda _: None

    @property
    def the_chat(self) -> Chat:
        if self.chat is None:
            raise UsageError("the metric uses a chat model without declaring it (uses_chat)")
        return self.chat


class Metric(ABC):
    """A metric; its class is registered under its `name` and called with a `Context`.

    `__init__` raises `MissingExtra` or `UsageError` if the metric cannot run. It loads nothing
    heavy: `score` does, and is called only if there are captions to score.
    """

    name: ClassVar[str]
    """The name that users type, and that of the file of details."""
    outputs: tuple[MetricOutput, ...]
    form: ClassVar[type[Settings]] = Settings
    """The settings that `[metrics.NAME]` of `capeval.toml` may have."""
    chosen: Settings
    """The settings in use."""
    uses_chat: ClassVar[bool] = False
    uses_references: ClassVar[bool] = True
    """Whether it needs references."""
    settings: Mapping[str, str]
    """Everything that determines values, in the order of the signature: the version of the
    definition, options, model, prompts, judge, deviations from the published metric. If one of them
    changes, all captions are scored again."""

    def __init__(self, context: Context) -> None:
        self.context = context
        file, where = config_file(), f"metrics.{self.name}"
        table = read_config(file, "metrics").get(self.name, {})
        self.chosen = validated(self.form, table, file=file, where=where)
        self.has_room: HasRoom = lambda _: True
        """Whether the cost cap allows one more caption, given the number under way."""

    def for_captions(self, items: Sequence[Item]) -> Metric:
        """Return the metric for all captions of a run or of the candidates; by default itself.

        A metric whose values depend on several captions returns one whose settings identify them.
        """
        del items
        return self

    @abstractmethod
    async def score(self, items: Sequence[Item], record: Record) -> None:
        """Score captions, and call `record` once for each, as soon as its values are known.

        Empty captions are among them: the metric defines their values. A failure of one caption is
        recorded as `NoValues`; `EndpointRefused`, `EndpointDown` and `BudgetReached` end the run.
        """

    def expected(self, items: Sequence[Item]) -> Usage:
        """Return an upper estimate of the calls and tokens that captions take."""
        del items
        return Usage()

    def summarise(self, scored: Sequence[tuple[Item, Values]]) -> Mapping[str, Summary]:
        """Return each output over all scored captions; by default the mean of its values."""
        return {output.name: mean_of(output.name, scored) for output in self.outputs}

    def close(self) -> None:
        """Release resources, without waiting for a call in progress."""
        return

    @property
    def identity(self) -> str:
        return short_hash([self.name, *map(list, self.settings.items())])

    @property
    def signature(self) -> str:
        """All settings on one line, in the style of sacreBLEU."""
        parts = {"capeval": self.name, **self.settings, "v": __version__}
        # A separator in a name, which an endpoint chose, would forge another part.
        return "|".join(
            ":".join(one_line(part).replace("|", "/") for part in pair) for pair in parts.items()
        )


class CaptionMetric(Metric):
    """A metric that scores one caption at a time, `concurrency` of them concurrently."""

    concurrency: int = 1

    @abstractmethod
    async def score_caption(self, item: Item) -> Outcome:
        """Return the values of one caption.

        `ReplyError`, `RequestRefused` and `RetriesExhausted` leave the caption unscored.
        """

    async def score(self, items: Sequence[Item], record: Record) -> None:
        await work_through(
            items,
            self._outcome,
            concurrency=self.concurrency,
            record=record,
            has_room=self.has_room,
        )

    async def _outcome(self, item: Item) -> Outcome:
        try:
            return await self.score_caption(item)
        except ValidationError as fault:
            field, message = complaint(fault)
            name = field.rpartition(".")[2]
            return NoValues(f"the metric returned no usable value for {name}: {message}")
        except QUESTION_FAILURES as failure:
            return NoValues(str(failure))


class ChatMetric(CaptionMetric):
    """A metric that asks a chat model about each caption."""

    uses_chat = True
    usual: Usage
    """An upper estimate for one caption, without the tokens of its texts."""
    times_sent: int = 1
    """The number of prompts with the caption and its references."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.chat = context.the_chat
        self.concurrency = self.chat.concurrency
        self._failed: dict[str, ReplyBroken | ReplyRefused] = {}

    @abstractmethod
    async def ask_about(self, item: Item, asked: Asked) -> Outcome:
        """Return the values of one caption; every question is asked with `ask`, given `asked`."""

    async def score_caption(self, item: Item) -> Outcome:
        asked = Asked()
        try:
            found = await self.ask_about(item, asked)
        except QUESTION_FAILURES as failure:
            found = NoValues(str(failure))
        return replace(found, details={**found.details, **asked.details}, usage=asked.total)

    def expected(self, items: Sequence[Item]) -> Usage:
        found = Usage()
        for item in items:
            texts = [item.caption, *(item.references if self.uses_references else ())]
            sent = self.times_sent * sum(map(len, texts)) // CHARACTERS
            found += self.usual + Usage(input_tokens=sent)
        return found

    async def ask(
        self, question: ChatQuestion[FormT], asked: Asked, read: Callable[[FormT], T]
    ) -> T:
        """Return the reply as `read` returns it; raises `ReplyBroken` after three tries.

        A question that failed is not asked again in this run.
        """
        if question.prompt in self._failed:
            raise self._failed[question.prompt]
        try:
            return await ask_chat(self.chat, question, asked, read)
        except (ReplyBroken, ReplyRefused) as failure:
            self._failed[question.prompt] = failure
            raise


def key_of(index: str, system: str | None) -> str:
    """Return the identifier of a caption: the index, with the system if there is one."""
    return index if system is None else json.dumps([system, index])


def mean_of(output: str, scored: Sequence[tuple[Item, Values]]) -> Summary:
    """Return the mean of an output over the captions for which it is defined."""
    values = [one.values[output] for _, one in scored if output in one.values]
    undefined = sum(output in one.undefined for _, one in scored)
    if not values:
        return Summary(None, 0, undefined, "no caption has a value")
    return Summary(sum(values) / len(values), len(values), undefined)
