"""What a metric is: what it declares, what it gets and what it returns."""

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
    CHARACTERS,
    QUESTION_FAILURES,
    Asked,
    Chat,
    ChatQuestion,
    FormT,
    ask_chat,
)
from capeval.llm.types import ReplyBroken, ReplyRefused
from capeval.runs.concurrency import work_through
from capeval.schema import Annotation, Caption, Usage
from capeval.text import complaint, one_line
from capeval.version import __version__

Number = Annotated[float, Strict(), AllowInfNan(False)]
"""A value: neither infinite nor a text of digits."""


class Settings(BaseModel):
    """What `[metrics.NAME]` of `capeval.toml` may set: nothing, unless a metric derives its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


T = TypeVar("T")


@dataclass(frozen=True)
class Item:
    """One caption with its references.

    Attributes
    ----------
    index : the video
    system : who wrote the caption: the run's name, or the candidates file's; None if it is unknown
    caption : the text, as it was written; it may be empty
    references : one or more texts. Of a TUNA annotation there is one: the sentences of its events,
        in order, joined by spaces
    events : the reference's events, where the data list them; of a TUNA annotation its events
    group : the part of the data that the video belongs to, over which some metrics average
    annotation : the TUNA annotation, if there is one
    extra : other fields of the record in the file of references, such as questions
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
        """Whether the caption is empty, by the rule of `Caption.is_empty`."""
        return Caption(index=self.index, caption=self.caption).is_empty

    @cached_property
    def hash(self) -> str:
        """A short hash of the texts; values are computed anew when it changes."""
        more = [self.extra] if self.extra else []
        return short_hash([self.caption, self.references, self.events, *more])


@checked_dataclass(frozen=True)
class Values:
    """The values of one caption, by the names of the metric's outputs.

    Attributes
    ----------
    undefined : why an output has no value by its definition; that is not a failure, and is not
        tried again
    details : what explains the values, as JSON; kept beside them
    """

    values: Mapping[str, Number]
    undefined: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)


@checked_dataclass(frozen=True)
class NoValues:
    """A caption that could not be scored; the next run tries it again."""

    reason: str
    details: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)


Outcome = Values | NoValues
Record = Callable[[Item, Outcome], None]
HasRoom = Callable[[int], bool]


@checked_dataclass(frozen=True)
class MetricOutput:
    """One of the metric's numbers.

    Attributes
    ----------
    name : as in metrics.jsonl, such as "autodq-f1"
    unit : "fraction" (0 to 1, shown as a percentage); or "number", or what it counts, such as
        "words" (shown as it is)
    control : whether it is no measure of quality, and only shows what a metric must exceed
    """

    name: str
    unit: str = "fraction"
    control: bool = False


@checked_dataclass(frozen=True)
class Summary:
    """An output over all captions: a mean, or what the metric defines in its place.

    Attributes
    ----------
    value : None where there is none, and `reason` says why
    n : how many captions it is computed from
    undefined : how many scored captions have no such value by its definition
    groups : the same by group, where the metric averages over groups
    """

    value: Number | None
    n: int
    undefined: int = 0
    reason: str | None = None
    groups: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """What a metric is made with.

    Attributes
    ----------
    device : where the user wants local models to run; None for the best
    chat : for a metric that `uses_chat`, None for any other
    """

    device: str | None = None
    chat: Chat | None = None
    on_notice: Callable[[str], None] = lambda _: None

    @property
    def the_chat(self) -> Chat:
        """The chat model; an error where the metric did not declare that it uses one."""
        if self.chat is None:
            raise UsageError("the metric uses a chat model without declaring it (uses_chat)")
        return self.chat


class Metric(ABC):
    """A metric; a class is registered under its `name` and called with a `Context`.

    `__init__` raises `MissingExtra` or `UsageError` where the metric cannot run. It loads nothing
    heavy: `score` does, and is called only if there are captions to score.
    """

    name: ClassVar[str]
    """As the user types it; also the name of the file with its details."""
    outputs: tuple[MetricOutput, ...]
    form: ClassVar[type[Settings]] = Settings
    """What `[metrics.NAME]` of `capeval.toml` may set; a metric without settings has none."""
    chosen: Settings
    """What it does set, in that form."""
    uses_chat: ClassVar[bool] = False
    uses_references: ClassVar[bool] = True
    """Whether it needs references; candidates without any can be measured if no metric does."""
    settings: Mapping[str, str]
    """Everything that determines values, in the order of the signature: the version of the
    definition, options, model, prompts, judge, deviations from the published metric. If any of it
    changes, all captions are scored anew."""

    def __init__(self, context: Context) -> None:
        self.context = context
        file, where = config_file(), f"metrics.{self.name}"
        table = read_config(file, "metrics").get(self.name, {})
        self.chosen = validated(self.form, table, file=file, where=where)
        self.has_room: HasRoom = lambda _: True
        """Whether the cost cap leaves room for another caption beside so many that are begun."""

    def for_captions(self, items: Sequence[Item]) -> Metric:
        """Return the metric for all captions of a run, or of the candidates; by default itself.

        For a metric whose values depend on more than one caption, and whose settings say on what.
        It is called before anything else, and the metric that it returns scores these captions.
        """
        del items
        return self

    @abstractmethod
    async def score(self, items: Sequence[Item], record: Record) -> None:
        """Score captions, and call `record` once for each, as soon as its values are known.

        It is called for each run that has captions to score, and loads what is heavy. Empty
        captions are among them: the metric's definition says what they get. A failure of one
        caption is recorded as `NoValues`.

        Raises
        ------
        EndpointRefused, EndpointDown, BudgetReached
            No caption can be scored any more.
        """

    def expected(self, items: Sequence[Item]) -> Usage:
        """Return about how many calls and tokens captions take, rather too many than too few."""
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
        """A short hash of the settings."""
        return short_hash([self.name, *map(list, self.settings.items())])

    @property
    def signature(self) -> str:
        """The settings on one line, as in sacreBLEU."""
        parts = {"capeval": self.name, **self.settings, "v": __version__}
        # Names come from endpoints: a separator in one would forge another part.
        return "|".join(
            ":".join(one_line(part).replace("|", "/") for part in pair) for pair in parts.items()
        )


class CaptionMetric(Metric):
    """A metric that scores one caption at a time, `concurrency` of them concurrently."""

    concurrency: int = 1

    @abstractmethod
    async def score_caption(self, item: Item) -> Outcome:
        """Return the values of one caption.

        `ReplyError`, `RequestRefused` and `RetriesExhausted`, which asking raises, leave the
        caption unscored.
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
    """A metric that scores each caption by asking a chat model about it."""

    uses_chat = True
    usual: Usage
    """About the most that one caption takes, without the tokens of its texts; for estimates."""
    times_sent: int = 1
    """How often the caption, and its references, are part of a prompt."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.chat = context.the_chat
        self.concurrency = self.chat.concurrency
        self._failed: dict[str, ReplyBroken | ReplyRefused] = {}

    @abstractmethod
    async def ask_about(self, item: Item, asked: Asked) -> Outcome:
        """Return the values of one caption; every question goes through `ask`, with `asked`."""

    async def score_caption(self, item: Item) -> Outcome:
        asked = Asked()
        try:
            found = await self.ask_about(item, asked)
        except QUESTION_FAILURES as failure:
            found = NoValues(str(failure))
        return replace(found, details={**found.details, **asked.details}, usage=asked.total)

    def expected(self, items: Sequence[Item]) -> Usage:
        """Return about the most that captions take, as if no reply were in the cache."""
        found = Usage()
        for item in items:
            texts = [item.caption, *(item.references if self.uses_references else ())]
            sent = self.times_sent * sum(map(len, texts)) // CHARACTERS
            found += self.usual + Usage(input_tokens=sent)
        return found

    async def ask(
        self, question: ChatQuestion[FormT], asked: Asked, read: Callable[[FormT], T]
    ) -> T:
        """Return what `read` makes of the reply in its form; it is asked for up to three times.

        A question that failed is not asked again in this run.

        Raises
        ------
        ReplyBroken
            The last reply was not in the form either, or `read` refused it with `ReplyError`.
        """
        if question.prompt in self._failed:
            raise self._failed[question.prompt]
        try:
            return await ask_chat(self.chat, question, asked, read)
        except (ReplyBroken, ReplyRefused) as failure:
            self._failed[question.prompt] = failure
            raise


def key_of(index: str, system: str | None) -> str:
    """Return a caption's identifier: the index, with the system if there is one."""
    return index if system is None else json.dumps([system, index])


def mean_of(output: str, scored: Sequence[tuple[Item, Values]]) -> Summary:
    """Return the mean of an output over the captions for which it is defined."""
    values = [one.values[output] for _, one in scored if output in one.values]
    undefined = sum(output in one.undefined for _, one in scored)
    if not values:
        return Summary(None, 0, undefined, "no caption has a value")
    return Summary(sum(values) / len(values), len(values), undefined)
