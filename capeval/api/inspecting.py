"""`capeval.inspect`: why one video has its score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from capeval.api.run_options import InspectOptions
from capeval.api.sync_async import blocking
from capeval.errors import UsageError
from capeval.judging.prompts import load_prompts
from capeval.options import takes
from capeval.reporting.viewer.cards import VideoCard, card_of, load_human_labels
from capeval.reporting.viewer.raw_replies import RawReplies, raw_replies
from capeval.runs.find_video import runs_with_video


@dataclass(frozen=True)
class Inspection:
    """One video in each run: its card and, if they were requested, the judge's raw replies."""

    cards: Mapping[str, VideoCard]
    replies: Mapping[str, RawReplies]

    def to_json(self) -> dict[str, Any]:
        """Return the cards as JSON values; the raw replies are under `raw`."""
        card, raw = TypeAdapter(VideoCard), TypeAdapter(RawReplies)
        result: dict[str, Any] = {
            name: card.dump_python(one, mode="json") for name, one in self.cards.items()
        }
        for name, one in self.replies.items():
            result[name]["raw"] = raw.dump_python(one, mode="json")
        return result


@takes(InspectOptions)
async def inspect_async(o: InspectOptions) -> Inspection:
    """Show the caption, events, verdicts and repairs of one video in each run.

    Without `judged_runs`, these are all judged runs that have the video.

    Raises
    ------
    InputError, UsageError
        A named run cannot be loaded or lacks the video, or no run has it.
    """
    if o.prompts is not None and not o.raw:
        raise UsageError("--prompts requires --raw; add it, or omit --prompts")
    used = None if o.prompts is None else load_prompts(o.prompts)
    labels = None if o.human is None else load_human_labels(Path(o.human))
    found = runs_with_video(
        o.index,
        o.judged_runs,
        runs=Path(o.runs),
        judge=o.judge,
        annotations=o.annotations,
        on_notice=o.on_notice,
    )
    return Inspection(
        {name: card_of(run, annotation, labels) for name, (run, annotation) in found.items()},
        {name: await raw_replies(run, o.index, prompts=used) for name, (run, _) in found.items()}
        if o.raw
        else {},
    )


inspect = blocking(inspect_async)
