"""Judgments: a video is scored, or unscored with a reason."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from capeval.schema.annotation import Annotation, Event

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


class Usage(BaseModel):
    """Tokens and calls, in the endpoint's own count; adds with `+`.

    `cached_tokens` is the part of `input_tokens` that the provider billed as a prompt-cache hit.

    >>> Usage(calls=1, input_tokens=10) + Usage(calls=1, input_tokens=5, output_tokens=2)
    Usage(calls=2, input_tokens=15, cached_tokens=0, output_tokens=2)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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


class _Noun(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _is_none(value: Any) -> bool:
    return value is None


Explanations = tuple[tuple[str, ...], ...] | None


class Verdict(_Noun):
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


class Provenance(_Noun):
    """Who judged, and the snapshots that answered, as the endpoint named them.

    `left_off` are the request parameters that the endpoint does not accept.
    """

    judge: str = Field("unknown", min_length=1)
    prompts: str | None = "unknown"
    base_url: str | None = None
    models: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    left_off: tuple[str, ...] = ()
    baseline: bool | None = Field(None, strict=True, exclude_if=_is_none)
    """The judge's own declaration; None in verdicts of other programs, which have none."""
    endpoint: str | None = Field(None, exclude_if=_is_none)
    """The endpoint's name where one is configured; see `endpoint_name`."""
    reasoning: str | None = Field(None, exclude_if=_is_none)
    """The reasoning effort that the model was asked for; None where nothing was sent."""

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


class _Judged(_Noun):
    index: str
    inputs: Inputs | None = None
    """None where the verdicts were made elsewhere."""
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
    """Return why no judge can have given these verdicts on this annotation, or None."""
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
