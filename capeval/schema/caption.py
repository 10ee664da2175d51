"""A caption to judge."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

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
