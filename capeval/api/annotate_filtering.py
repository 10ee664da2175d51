"""`capeval.annotate_filter`: which videos of a folder are fit to be annotated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from capeval.api.sync_async import blocking
from capeval.construct.options import FilterOptions
from capeval.construct.video_filter import FilterWork, VideoRow
from capeval.options import takes
from capeval.runs.engine import execute


@takes(FilterOptions)
async def annotate_filter_async(o: FilterOptions) -> Sequence[VideoRow]:
    """Measure the videos of a folder, and write a row for each into its `videos.jsonl`.

    No video is deleted. A row has `keep`, and `reasons` where that is false: unreadable,
    low-resolution, too-long, black, frozen, near-static, near-duplicate. A rerun decodes what is
    new or changed, and leaves a `keep` that was edited.

    Raises
    ------
    InputError
        The folder has no videos, or a line of its videos.jsonl is not valid.
    MissingExtra
        PyAV is not installed.
    """
    work = FilterWork(Path(o.folder), o.min_side, o.max_seconds)
    await execute(work, o.progress)
    return work.rows


annotate_filter = blocking(annotate_filter_async)
