"""A caption to be judged."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints


class Caption(BaseModel):
    """What a captioner wrote about one video; other fields of its line are kept as they are."""

    model_config = ConfigDict(frozen=True, extra="allow")

    index: Annotated[str, StringConstraints(strict=True, pattern=r"\S")]
    caption: Annotated[str, StringConstraints(strict=True)]
    model: str | None = None

    @property
    def is_empty(self) -> bool:
        """True when nothing can be seen: only blanks, control and format characters."""
        return all(
            character.isspace() or unicodedata.category(character) in ("Cc", "Cf")
            for character in self.caption
        )
