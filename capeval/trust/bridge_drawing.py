"""Captions of which only random videos are to be judged, and the record of the draw."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from capeval.errors import UsageError
from capeval.runs.drawn_videos import DrawnVideos, draw, read_drawn
from capeval.runs.folder import JudgeFolder
from capeval.runs.sources import Source


@dataclass(frozen=True)
class DrawnSource(Source):
    """Captions whose judge's folder records the videos that were drawn.

    The record is written with the run's manifest: before the first verdict, so that a killed
    process leaves no verdicts that look like those of an interrupted run.
    """

    record: tuple[JudgeFolder, DrawnVideos] | None = field(default=None)

    def store(self) -> None:
        """Write the run's manifest and captions, and the record of the draw."""
        super().store()
        if self.record is not None:
            folder, drawn = self.record
            drawn.write(folder)


def with_record(source: Source, folder: JudgeFolder, drawn: DrawnVideos | None) -> DrawnSource:
    """Return captions that record a draw, or none if there is none to record."""
    values = {one.name: getattr(source, one.name) for one in fields(Source)}
    return DrawnSource(**values, record=None if drawn is None else (folder, drawn))


def draw_for(source: Source, folder: JudgeFolder, n: int, seed: int) -> DrawnVideos:
    """Return the videos to judge: those drawn before, and more if n is larger.

    Raises
    ------
    UsageError
        Other videos were drawn before: from other captions, or by another `--seed`.
    InputError
        The record of the earlier draw is damaged.
    """
    drawn = draw([caption.index for caption in source.captions], n, seed)
    before = read_drawn(folder)
    if before is None:
        return drawn
    if before.seed != seed:
        raise UsageError(
            f"{folder.path}: its videos were drawn with seed {before.seed}; "
            f"add --seed {before.seed}"
        )
    larger = drawn if drawn.n > before.n else before
    if not {*before.indexes} <= {*larger.indexes} & {one.index for one in source.captions}:
        raise UsageError(
            f"{folder.path}: its captions have changed since videos were drawn; delete "
            "anchors.json there to draw again"
        )
    return larger
