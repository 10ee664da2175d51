"""A caption to judge, and reference captions of data that have no visual elements."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from capeval.schema.annotation import Sentence
from capeval.schema.ids import Id


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
    events : the events of the references, where the data list them; None where they do not
    group : the part of the data that the video belongs to, over which some metrics average
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    index: Id
    references: Annotated[tuple[Sentence, ...], BeforeValidator(_one_or_more)] = Field(min_length=1)
    events: tuple[Sentence, ...] | None = None
    group: str | None = None
