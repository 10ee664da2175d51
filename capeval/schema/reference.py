"""Reference captions of data that have no visual elements."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from capeval.schema.ids import Id

Sentence = Annotated[str, StringConstraints(strict=True, pattern=r"\S")]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Reference(BaseModel):
    """The reference captions of one video; other fields of the record are kept for metrics.

    Attributes
    ----------
    references : one or more texts, which are alternatives to each other
    events : the events of the references, where the data list them; None where they do not
    group : the part of the data that the video belongs to, over which some metrics average
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    index: Id
    references: Annotated[tuple[Sentence, ...], BeforeValidator(_as_list)] = Field(min_length=1)
    events: tuple[Sentence, ...] | None = None
    group: str | None = None
