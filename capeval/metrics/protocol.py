"""What a metric is: what it declares, what it gets and what it returns."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import AllowInfNan, BaseModel, ConfigDict, Strict, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from capeval.config import config_file, read_config
from capeval.errors import ReplyError, RequestRefused, RetriesExhausted, UsageError
from capeval.files.judgments import short_hash
from capeval.files.reading import validated
from capeval.llm.questions import Chat
from capeval.llm.types import ChatOptions
from capeval.options import (
    INPUTS,
    JUDGE,
    LIMITS,
    OUTPUT,
    ModelOptions,
    columns_option,
    declares,
    option,
    python_only,
)
from capeval.runs.concurrency import work_through
from capeval.schema import Annotation, Caption, Usage
from capeval.text import complaint, one_line
from capeval.version import __version__

if TYPE_CHECKING:
    from capeval.runs.engine import Progress


@declares
class MetricsOptions(ChatOptions, ModelOptions):
    """What is measured, with which metrics, and within which limits: see `help(capeval.measure)`.

    Parameters
    ----------
    captions : Runs, or captions files of annotated videos, which become runs. By default every
        run, or the sample.
    metric : Metrics. By default the controls, unigram-f1 and length.
    annotations : Annotations: a file, 'tuna' or 'sample'. By default the run's own.
    candidates : Captions of videos without annotations.
    references : Reference captions, for --candidates.
    columns : The columns of captions: index=clip,caption=text.
    system : Who wrote the candidates. By default the file's stem, or the model that its lines name.
    out : By default metrics.jsonl in the run; with --candidates, in the working folder.
    judge : The chat model of metrics such as clair. By default gpt-4o-2024-08-06, or the server's
        only model.
    device : Where local models run: cuda, cuda:1, mps or cpu. By default the best.
    progress : Receives the status after every caption.
    """

    captions: Sequence[str | Path] = option((), positional=True, metavar="RUN")
    _: KW_ONLY
    metric: Sequence[str] = option((), panel=INPUTS, metavar="NAME", commas=True)
    annotations: str | Path | None = option(None, panel=INPUTS, metavar="FILE")
    candidates: Sequence[str | Path] | Mapping[str, str] = option(
        (),
        note="Or a dict of captions by index.",
        kind=list[str] | None,
        panel=INPUTS,
        metavar="FILE",
    )
    references: str | Path | Mapping[str, str | Sequence[str]] | None = option(
        None,
        note="Or a dict of texts, or lists of texts, by index.",
        kind=str | None,
        panel=INPUTS,
        metavar="FILE",
    )
    system: str | None = option(None, panel=INPUTS, metavar="NAME")
    columns: Mapping[str, str] | None = columns_option(panel=INPUTS)
    ignore_unknown: bool = option(False, "Skip captions of other videos.", panel=INPUTS)
    out: str | Path | None = option(None, panel=OUTPUT, metavar="FILE")
    only: Collection[str] = python_only(())
    timeout: float = option(120.0, panel=LIMITS, metavar="S", min=0.1, max=86_400)
    device: str | None = option(None, panel=JUDGE, metavar="NAME")
    progress: Progress | None = python_only(None, method="update", shown=False)


Number = Annotated[float, Strict(), AllowInfNan(False)]
"""A value: neither infinite nor a text of digits."""


class Settings(BaseModel):
    """What `[metrics.NAME]` of `capeval.toml` may set: nothing, unless a metric derives its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


SettingsT = TypeVar("SettingsT", bound=Settings)


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
        """The caption's identifier; see `key_of`."""
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
class Scored:
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
class Unscored:
    """A caption that could not be scored; the next run tries it again."""

    reason: str
    details: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)


Outcome = Scored | Unscored
Record = Callable[[Item, Outcome], None]
HasRoom = Callable[[int], bool]


@checked_dataclass(frozen=True)
class Output:
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
    chat : for a metric that `uses_chat`, None for any other
    """

    options: MetricsOptions
    chat: Chat | None = None
    on_notice: Callable[[str], None] = lambda _: None

    def settings(self, metric: str, kind: type[SettingsT]) -> SettingsT:
        """Return what the user's configuration says about a metric; raises `InputError`."""
        table = read_config(config_file(), "metrics").get(metric, {})
        return validated(kind, table, file=config_file(), where=f"metrics.{metric}")

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
    outputs: tuple[Output, ...]
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
        self.chosen = context.settings(self.name, self.form)
        self.has_room: HasRoom = lambda _: True
        """Whether the cost cap leaves room for another caption beside so many that are begun."""

    def for_captions(self, items: Sequence[Item]) -> Metric:
        """Return the metric for all captions of a run, or of the candidates; by default itself.

        For a metric whose values depend on more than one caption, and whose settings say on what.
        It is called before anything else, and the metric that it returns scores these captions.
        """
        del items
        return self

    def check(self, items: Sequence[Item]) -> None:
        """Check captions before any is scored; raises `InputError` if one cannot be."""
        del items

    @abstractmethod
    async def score(self, items: Sequence[Item], record: Record) -> None:
        """Score captions, and call `record` once for each, as soon as its values are known.

        It is called for each run that has captions to score, and loads what is heavy. Empty
        captions are among them: the metric's definition says what they get. A failure of one
        caption is recorded as `Unscored`.

        Raises
        ------
        EndpointRefused, EndpointDown, BudgetReached
            No caption can be scored any more.
        """

    def expected(self, items: Sequence[Item]) -> Usage:
        """Return about how many calls and tokens captions take, rather too many than too few."""
        del items
        return Usage()

    def summarise(self, scored: Sequence[tuple[Item, Scored]]) -> Mapping[str, Summary]:
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
        """Score all captions with `score_caption`."""
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
            return Unscored(f"the metric returned no usable value for {name}: {message}")
        except (ReplyError, RequestRefused, RetriesExhausted) as failure:
            return Unscored(str(failure))


def key_of(index: str, system: str | None) -> str:
    """Return a caption's identifier: the index, with the system if there is one."""
    return index if system is None else json.dumps([system, index])


def mean_of(output: str, scored: Sequence[tuple[Item, Scored]]) -> Summary:
    """Return the mean of an output over the captions for which it is defined."""
    values = [one.values[output] for _, one in scored if output in one.values]
    undefined = sum(output in one.undefined for _, one in scored)
    if not values:
        return Summary(None, 0, undefined, "no caption has a value")
    return Summary(sum(values) / len(values), len(values), undefined)


def means_by_group(output: str, scored: Sequence[tuple[Item, Scored]]) -> dict[str | None, float]:
    """Return the mean of an output in each group in which it is defined, None for no group."""
    groups: dict[str | None, list[tuple[Item, Scored]]] = {}
    for item, one in scored:
        groups.setdefault(item.group, []).append((item, one))
    means = {group: mean_of(output, of).value for group, of in groups.items()}
    return {group: mean for group, mean in means.items() if mean is not None}
