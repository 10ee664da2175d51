"""A caption to judge, reference captions of data without visual elements, and human ratings."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any, Literal, get_args

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from capeval.schema.annotation import Id, Sentence
from capeval.schema.judgment import Relation

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
    events : the events of the references, where the data list them; None where they do not
    group : the part of the data that the video belongs to, over which some metrics average
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    index: Id
    references: Annotated[tuple[Sentence, ...], BeforeValidator(_one_or_more)] = Field(
        min_length=1, validation_alias=AliasChoices("references", "reference")
    )
    events: tuple[Sentence, ...] | None = None
    group: str | None = None
