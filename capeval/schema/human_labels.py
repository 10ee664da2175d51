"""Human labels of one run's captions, as the run's folder keeps them in `human.json`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from capeval.schema.judgment import Relations
from capeval.schema.rating import LabelScale

_Count = Annotated[int, Field(ge=1, strict=True)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Stratum(_Part):
    """A group of videos that were sampled alike: `sampled` of `videos` at random."""

    videos: _Count
    sampled: _Count

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.sampled > self.videos:
            raise ValueError(f"{self.sampled} sampled of {self.videos} videos")
        return self


class LabelledVideo(_Part):
    """The labels of one caption: for each rater, the relation of each element of each event.

    `caption` and `reference` are hashes of the caption and the annotation that were labelled;
    `stratum` is None where it is not known how the video was sampled.
    """

    caption: str
    reference: str
    stratum: str | None
    relations: tuple[Relations, ...] = Field(min_length=1)


class RunLabels(_Part):
    """Human labels of one run's captions.

    `source` and `sha256` are of the file that they came from, `raters` its number of raters, and
    `left_out` counts labelled captions that are not among `videos`, by reason. Binary labels
    are kept as entailment (covered) and lack (not covered). Without `strata`, nothing says that the
    videos were sampled at random.
    """

    source: str
    sha256: str
    scale: LabelScale
    raters: _Count
    strata: dict[str, Stratum]
    videos: dict[str, LabelledVideo]
    left_out: dict[str, _Count]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        named = {video.stratum for video in self.videos.values()}
        if named - {None, *self.strata} or (self.strata and None in named):
            raise ValueError("a labelled video is in none of the strata")
        labelled = Counter(video.stratum for video in self.videos.values())
        for name, stratum in self.strata.items():
            if labelled[name] > stratum.sampled:
                count = labelled[name]
                raise ValueError(
                    f"{count} labelled videos of a stratum of {stratum.sampled} sampled"
                )
        return self

    @property
    def hash(self) -> str:
        """A short hash of the labels, wherever they came from."""
        text = self.model_dump_json(include={"scale", "strata", "videos"})
        return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]

    def without(self, dropped: Mapping[str, str]) -> Self:
        """Return the labels without some videos, which are counted by the reasons given."""
        if not dropped:
            return self
        counts = Counter(self.left_out) + Counter(dropped.values())
        kept = {index: video for index, video in self.videos.items() if index not in dropped}
        return self.model_copy(update={"videos": kept, "left_out": dict(counts)})
