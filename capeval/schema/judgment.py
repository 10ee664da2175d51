"""What a judge found: a video is scored, or unscored with a reason; never both, never neither."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from capeval.schema.annotation import Event
from capeval.schema.usage import Usage

Relation = Literal["entailment", "lack", "contradiction"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)

ReferenceNumber = Annotated[int, Field(ge=1, strict=True)]
Relations = tuple[tuple[Relation, ...], ...]


def lacking(event: Event) -> tuple[Relation, ...]:
    """Return the relations of an event of which nothing is said."""
    return tuple("lack" for _ in event.visual_elements)


class _Noun(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Verdict(_Noun):
    """One complete pass of a judge over one caption.

    `matches[i]` is the reference event (from 1) of `candidate_events[i]`, or None;
    `relations[e][k]` is the relation of the caption to element k of reference event e.
    `notes` say what was repaired or asked again.
    """

    candidate_events: tuple[str, ...]
    matches: tuple[ReferenceNumber | None, ...]
    relations: Relations
    notes: tuple[str, ...] = ()


class Provenance(_Noun):
    """Who judged: the judge as it was asked for, its prompts and endpoint; who answered, snapshots
    and fingerprints as the endpoint named them; and the request parameters that it does not take.
    """

    judge: str = "unknown"
    prompts: str | None = "unknown"
    base_url: str | None = None
    models: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    left_off: tuple[str, ...] = ()


class Inputs(_Noun):
    """Short hashes of what was judged: by which judge, which caption, against which reference.

    A stored judgment whose hashes differ from today's is out of date. Weights and types are not
    part of `reference`: they enter when verdicts are scored.
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
    provenance: Provenance = Field(default_factory=Provenance)


class Scored(_Judged):
    """A judged caption; with repeats, `relations` are the majority's and the rest the first's."""

    status: Literal["scored"] = "scored"
    reason: None = None
    candidate_events: tuple[str, ...]
    matches: tuple[ReferenceNumber | None, ...]
    relations: Relations
    notes: tuple[str, ...] = ()
    repeats: tuple[Verdict, ...] = ()


class Unscored(_Judged):
    """A caption that could not be judged; it enters no mean and is retried by the next run."""

    status: Literal["unscored"] = "unscored"
    reason: str = Field(min_length=1)
    candidate_events: tuple[str, ...] = ()
    matches: tuple[ReferenceNumber | None, ...] = ()
    relations: Relations = ()
    notes: tuple[str, ...] = ()
    repeats: tuple[Verdict, ...] = ()


Judgment = Annotated[Scored | Unscored, Field(discriminator="status")]
JUDGMENT: TypeAdapter[Scored | Unscored] = TypeAdapter(Judgment)
