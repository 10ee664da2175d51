"""The data model of capeval, as frozen pydantic models."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from numbers import Integral
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationInfo,
    field_validator,
)
from pydantic.dataclasses import dataclass


class Frozen(BaseModel):
    """A frozen model that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# ---- Annotated videos: events in order of time, each with its visual elements (TUNA, 3.1) --------


def id_text(value: Any) -> Any:
    """Return an id as text in the Unicode form NFC; other values are returned unchanged.

    A whole number becomes its digits: pandas stores 12 as 12.0 beside an empty cell.

    >>> id_text(12), id_text(12.0), id_text("e\\u0301") == "\\xe9", id_text(1.5), id_text(True)
    ('12', '12', True, 1.5, True)
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)  # also numpy's
    if is_whole or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


Id = Annotated[str, StringConstraints(strict=True, pattern=r"\S"), BeforeValidator(id_text)]
"""An id in a user's file: text that is not blank, or a whole number."""


ElementType = Literal["camera", "scene", "action", "attribute"]
ELEMENT_TYPES: tuple[ElementType, ...] = get_args(ElementType)

Characteristic = Literal["Low-Dynamic", "High-Dynamic", "Multi-Scene", "Multi-Subject"]
CHARACTERISTICS: tuple[Characteristic, ...] = get_args(Characteristic)

Weight = Literal[1, 2, 3]

Sentence = Annotated[str, StringConstraints(strict=True, pattern=r"\S")]


def _as_list(value: Any) -> Any:
    # Published as "A,B" or "A, B"; a user's own data may have a list or nothing.
    if value is None:
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def element_ids(sizes: Iterable[int]) -> list[str]:
    """Return the ids of a video's elements, given how many each event has.

    >>> element_ids([2, 1])
    ['1.1', '1.2', '2.1']
    """
    return [f"{event}.{n}" for event, size in enumerate(sizes, 1) for n in range(1, size + 1)]


# A set has twenty of them for each video: without slots, they would be four fifths of its memory.
@dataclass(frozen=True, slots=True, kw_only=True)
class VisualElement:
    """One atomic statement about the video, with its type and its weight (3 = main and salient)."""

    content: Sentence
    type: ElementType
    weight: Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event: its sentence(s) and its visual elements; `start` is in seconds, where known."""

    event: Sentence
    start: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    visual_elements: Annotated[tuple[VisualElement, ...], Field(min_length=1)]


class Video(BaseModel):
    """A video to caption; `question` is the prompt for the captioner, if the data have one."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    index: Id
    video: Annotated[str | None, BeforeValidator(id_text)] = None
    question: str | None = None


class Annotation(Video):
    """One annotated video.

    `visual_characteristic` and `domain` may be absent in a user's own data. `drafted_by` are the
    models whose drafts the annotation was made from, or which chose the video.
    """

    visual_characteristic: Annotated[tuple[Characteristic, ...], BeforeValidator(_as_list)] = ()
    domain: str | None = None
    drafted_by: tuple[str, ...] = ()
    events: tuple[Event, ...] = Field(min_length=1)

    def __hash__(self) -> int:
        """Hash the index alone: what depends on a set is cached by its annotations."""
        return hash(self.index)

    @property
    def elements(self) -> dict[str, VisualElement]:
        """The visual elements by id (EVENT.ELEMENT, both from 1), in order."""
        elements = chain.from_iterable(event.visual_elements for event in self.events)
        return dict(zip(element_ids(self.sizes), elements, strict=True))

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(event.visual_elements) for event in self.events)

    @property
    def element_count(self) -> int:
        return sum(self.sizes)


# ---- Judgments: a video is scored, or unscored with a reason -------------------------------------

Relation = Literal["entailment", "lack", "contradiction"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)

ReferenceNumber = Annotated[int, Field(ge=1, strict=True)]
Relations = tuple[tuple[Relation, ...], ...]


def lacking(event: Event) -> tuple[Relation, ...]:
    """Return the relations of an event that the caption does not mention."""
    return tuple("lack" for _ in event.visual_elements)


def endpoint_name(base_url: str) -> str:
    """Return the default name of an endpoint; the name is part of a judge's identity.

    The address is not: a server that moves to another host or port is still the same judge.
    `[endpoints]` in `capeval.toml` gives other names, which verdicts record; they distinguish
    services that serve different models under one name.

    >>> endpoint_name("https://api.openai.com/v1"), endpoint_name("http://node7:8000/v1")
    ('openai', 'other')
    """
    host = base_url.partition("://")[2].partition("/")[0]
    return "openai" if host == "api.openai.com" else "other"


class Usage(Frozen):
    """Tokens and calls, in the endpoint's own count; adds with `+`.

    `cached_tokens` is the part of `input_tokens` that the provider billed as a prompt-cache hit.

    >>> Usage(calls=1, input_tokens=10) + Usage(calls=1, input_tokens=5, output_tokens=2)
    Usage(calls=2, input_tokens=15, cached_tokens=0, output_tokens=2)
    """

    calls: int = Field(default=0, ge=0)
    input_tokens: int = Field(default=0, ge=0)
    cached_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


def _is_none(value: Any) -> bool:
    return value is None


Explanations = tuple[tuple[str, ...], ...] | None


class Verdict(Frozen):
    """One complete repeat of a judge on one caption.

    `matches[i]` is the reference event (from 1) of `candidate_events[i]`, or None;
    `relations[e][k]` is the relation of the caption to element k of reference event e, and
    `explanations[e][k]` the judge's reason in one line, "" if it gave none; None if it was not
    asked. `notes` list repairs and repeated requests.
    """

    candidate_events: tuple[str, ...]
    matches: tuple[ReferenceNumber | None, ...]
    relations: Relations
    explanations: Explanations = Field(None, exclude_if=_is_none)
    notes: tuple[str, ...] = ()


class Provenance(Frozen):
    """The judge, and the snapshots that answered, as the endpoint named them.

    `left_off` are the request parameters that the endpoint does not accept.
    """

    judge: str = Field("unknown", min_length=1)
    prompts: str | None = "unknown"
    base_url: str | None = None
    models: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    left_off: tuple[str, ...] = ()
    baseline: bool | None = Field(None, strict=True, exclude_if=_is_none)
    """Whether the judge declares itself a baseline; None in verdicts of other programs."""
    endpoint: str | None = Field(None, exclude_if=_is_none)
    """The endpoint's name where one is configured; see `endpoint_name`."""
    reasoning: str | None = Field(None, exclude_if=_is_none)
    """The reasoning effort that the model was asked for; None if nothing was sent."""

    @property
    def is_baseline(self) -> bool:
        return bool(self.baseline)

    @property
    def endpoint_name(self) -> str | None:
        if self.endpoint is not None or self.base_url is None:
            return self.endpoint
        return endpoint_name(self.base_url)


# The verdicts of one judge have one object: on its own it would be a fifth of each.
_shared = lru_cache(maxsize=64)(lambda provenance: provenance)


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Inputs:
    """Short hashes of the judge, the caption and the reference events of a judgment.

    A stored judgment whose hashes have changed is out of date. `reference` does not cover
    weights and types, which only matter when verdicts are scored.
    """

    judge: str
    caption: str
    reference: str


class _Judged(Frozen):
    index: str
    inputs: Inputs | None = None
    """None if the verdicts were made elsewhere."""
    usage: dict[str, Usage] = Field(default_factory=dict)
    """Per stage ("split", "match", "classify"), over all repeats, cached or not."""
    provenance: Annotated[Provenance, AfterValidator(_shared)] = Field(default_factory=Provenance)
    status: str
    reason: str | None = None


class Scored(Verdict, _Judged):
    """A judged caption.

    With repeats, `relations` is the majority, `explanations` are of the first repeat that agrees
    with it, and the rest is the first repeat's.
    """

    status: Literal["scored"] = "scored"
    reason: None = None
    repeats: tuple[Verdict, ...] = ()


class Unscored(_Judged):
    """A caption that could not be judged; it enters no mean, and the next run tries again."""

    status: Literal["unscored"] = "unscored"
    reason: str = Field(min_length=1)
    candidate_events: tuple[str, ...] = ()
    matches: tuple[ReferenceNumber | None, ...] = ()
    relations: Relations = ()
    notes: tuple[str, ...] = ()
    repeats: tuple[Verdict, ...] = ()


Judgment = Annotated[Scored | Unscored, Field(discriminator="status")]
JUDGMENT: TypeAdapter[Scored | Unscored] = TypeAdapter(Judgment)


def flaw_of(annotation: Annotation, judgment: Scored) -> str | None:
    """Return the reason why these verdicts cannot be on this annotation, or None."""
    shape = [len(event.visual_elements) for event in annotation.events]
    for verdict in (judgment, *judgment.repeats):
        numbers = [number for number in verdict.matches if number is not None]
        for given in (verdict.relations, verdict.explanations):
            if given is not None and [len(event) for event in given] != shape:
                return "its verdicts do not fit the events and elements annotated"
        if len(verdict.matches) != len(verdict.candidate_events):
            return "it does not have one match per candidate event"
        if max(numbers, default=0) > len(annotation.events):
            return f"it matches reference event {max(numbers)} of {len(annotation.events)}"
        for number, relations in enumerate(verdict.relations, start=1):
            # With repeats, the relations are the majority's but the matches the first repeat's.
            alone = verdict is not judgment or not judgment.repeats
            if alone and number not in numbers and set(relations) != {"lack"}:
                return f"it labels reference event {number}, which nothing matches"
    return None


# ---- Captions, references of data without visual elements, and human ratings ---------------------

Coverage = Literal["covered", "not covered"]
"""Whether a caption states an element correctly, completely and in order (TUNA, B.2.4)."""
COVERAGES: tuple[Coverage, ...] = get_args(Coverage)

HumanLabel = Relation | Coverage
LabelScale = Literal["three-way", "binary"]
RaterMode = Literal["mean", "median", "each"]
"""How ratings of several raters are aggregated; "each" keeps raters apart."""


class Caption(BaseModel):
    """A captioner's description of one video; other fields of its line are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")

    index: Id
    caption: Annotated[str, StringConstraints(strict=True)]
    model: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the caption has only blanks, control and format characters."""
        return all(
            character.isspace() or unicodedata.category(character) in ("Cc", "Cf")
            for character in self.caption
        )


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Reference(BaseModel):
    """The reference captions of one video; other fields of the record are kept for metrics.

    Attributes
    ----------
    references : one or more texts, which are alternatives to each other
    events : the events of the references, where the data list them; None if they do not
    group : the part of the data that the video belongs to, over which some metrics average
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    index: Id
    references: Annotated[tuple[Sentence, ...], BeforeValidator(_one_or_more)] = Field(
        min_length=1, validation_alias=AliasChoices("references", "reference")
    )
    events: tuple[Sentence, ...] | None = None
    group: str | None = None


# ---- Multiple-choice questions about videos, and a model's responses to them ---------------------

OPTION_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of options in files and prompts, by their number."""

VISIBLE = r"[^\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]"
"""A visible character; controls and characters without width would show an empty option."""

Text = Annotated[str, StringConstraints(strict=True, pattern=VISIBLE)]
Name = Annotated[Text, BeforeValidator(id_text)]


def _tag_value(value: Any) -> Any:
    # A table's empty field of numbers is not a number.
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if is_list or (isinstance(value, str | int | float) and value not in (math.inf, -math.inf)):
        return value
    raise ValueError("must be text, a number, true, false, null or a list of texts")


Tag = Annotated[str | int | float | bool | list[str] | None, BeforeValidator(_tag_value)]
"""The value of a benchmark's own field, such as a task type."""


def _fit_a_response(tags: Mapping[str, Tag]) -> Mapping[str, Tag]:
    taken = sorted(tags.keys() & Response.model_fields.keys())
    if taken:
        raise ValueError(f'no tag can be called "{taken[0]}", which responses.jsonl uses itself')
    return tags


class Question(Frozen):
    """A question with 2 to 26 options, of which one is right; its id is unique in its benchmark.

    `video` may have folders and a suffix. Tags are the benchmark's own fields; responses.jsonl
    stores them beside capeval's, so none may have the name of a field of `Response`.
    """

    id: Name
    benchmark: Text = "own"
    video: Name
    question: Text
    options: tuple[Text, ...] = Field(min_length=2, max_length=len(OPTION_LETTERS))
    answer: Annotated[str, StringConstraints(strict=True)]
    tags: Annotated[Mapping[str, Tag], AfterValidator(_fit_a_response)] = Field(
        default_factory=dict
    )

    @field_validator("answer")
    @classmethod
    def _is_an_option(cls, letter: str, info: ValidationInfo) -> str:
        valid = OPTION_LETTERS[: len(info.data.get("options", OPTION_LETTERS))]
        if len(letter) != 1 or letter not in valid:
            raise ValueError(f"must be a letter from A to {valid[-1]}")
        return letter

    @property
    def right(self) -> int:
        """The number of the right option, from 0."""
        return OPTION_LETTERS.index(self.answer)


Nats = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
# No model reads this many tokens; larger numbers could not be divided by.
TokenCount = Annotated[int, Field(strict=True, ge=0, le=10**9)]


class Likelihoods(Frozen):
    """Summed negative log-likelihoods of each option in nats, and its number of tokens.

    `symbol` scores the option's symbol, `symbol_text` the symbol with the text, `text` the text
    alone; `tokens` has the same names.
    """

    symbol: tuple[Nats, ...]
    symbol_text: tuple[Nats, ...]
    text: tuple[Nats, ...]
    tokens: Mapping[str, tuple[TokenCount, ...]]


class Response(BaseModel):
    """A model's reply to a question: a line of responses.jsonl, with the question's tags beside it.

    `reply` is None if the call failed, for the `reason`, and empty if it succeeded without a text.
    `frames` were shown (`indices`, `policy`, `order`, ...); `call` is what produced the reply.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Tag] = Field(init=False)

    id: Name
    benchmark: Text
    video: Annotated[str, BeforeValidator(id_text)]
    question: str
    options: tuple[str, ...]
    answer: str
    reply: str | None
    reason: str | None = None
    # Not `JsonValue`, whose validation takes a third of the time of grading.
    frames: Mapping[str, Any] = Field(default_factory=dict)
    likelihood: Likelihoods | None = None
    call: Mapping[str, Any] = Field(default_factory=dict, exclude_if=lambda call: not call)

    @property
    def tags(self) -> Mapping[str, Tag]:
        return self.__pydantic_extra__

    @classmethod
    def to(cls, question: Question, reply: str | None, **more: Any) -> Response:
        asked = question.model_dump(exclude={"tags"}) | dict(question.tags)
        return cls(**asked, reply=reply, **more)


def option_lines(options: Sequence[str]) -> list[str]:
    """Return the options as prompts list them.

    >>> option_lines(["left", "right"])
    ['A. left', 'B. right']
    """
    return [f"{symbol}. {text}" for symbol, text in zip(OPTION_LETTERS, options, strict=False)]
