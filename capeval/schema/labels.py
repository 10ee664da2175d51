"""Labels of one run's captions, as the run's folder keeps them in `labels.json`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from capeval.schema.judgment import Relations
from capeval.schema.rating import LabelScale

_Count = Annotated[int, Field(ge=1, strict=True)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LabellingJudge(_Part):
    """The identity of a judge whose verdicts serve as labels."""

    judge: str
    prompts: str | None
    endpoint: str | None
    reasoning: str | None

    def __str__(self) -> str:
        parts = (self.judge, self.prompts, self.endpoint, self.reasoning)
        return ",".join(part for part in parts if part)


LabelOrigin = Literal["human"] | LabellingJudge
"""Who gave the labels: human raters, or a judge."""


class LabelledVideo(_Part):
    """The labels of one caption: for each rater, the relation of each element of each event.

    `caption` and `reference` are hashes of the caption and the annotation that were labelled.
    """

    caption: str
    reference: str
    relations: tuple[Relations, ...] = Field(min_length=1)


class RunLabels(_Part):
    """Labels of one run's captions, by human raters or by another judge.

    `source` is the file that they came from, `raters` their number, and `left_out` counts labelled
    captions that are not among `videos`, by reason. Binary labels are kept as entailment (covered)
    and lack (not covered).
    """

    origin: LabelOrigin
    source: str
    scale: LabelScale
    raters: _Count
    videos: dict[str, LabelledVideo]
    left_out: dict[str, _Count]

    @property
    def hash(self) -> str:
        """A short hash of the labels, whatever file they came from."""
        text = self.model_dump_json(include={"origin", "scale", "videos"})
        return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]

    def without(self, dropped: Mapping[str, str]) -> Self:
        """Return the labels without some videos, which are counted by the reasons given."""
        if not dropped:
            return self
        counts = Counter(self.left_out) + Counter(dropped.values())
        kept = {index: video for index, video in self.videos.items() if index not in dropped}
        return self.model_copy(update={"videos": kept, "left_out": dict(counts)})
