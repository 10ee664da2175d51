"""`capeval.inspect`: why one video has its score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from capeval.api import FilePath, Notices, ignore
from capeval.api.sync_async import blocking
from capeval.errors import UsageError
from capeval.judging.prompts import load_prompts
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


async def inspect_async(
    index: str,
    judged_runs: Sequence[FilePath] = (),
    *,
    judge: str | None = None,
    raw: bool = False,
    prompts: str | None = None,
    human: FilePath | None = None,
    annotations: str | None = None,
    runs: FilePath = "runs",
    on_notice: Notices = ignore,
) -> Inspection:
    """Show the caption, events, verdicts and repairs of one video in each run.

    Parameters
    ----------
    index : the video's index
    judged_runs : by default every judged run under `runs` that has the video
    judge, annotations, runs, on_notice : see `capeval.api`
    raw : add the model's own replies, from the cache
    prompts : with `raw`, the prompt set or folder that the video was judged with, if it is neither
        packaged nor in the working directory
    human : a file of human labels, shown next to the verdicts

    Raises
    ------
    InputError, UsageError
        A named run cannot be loaded or lacks the video, or no run has it.
    """
    if prompts is not None and not raw:
        raise UsageError("--prompts requires --raw; add it, or omit --prompts")
    used = None if prompts is None else load_prompts(prompts)
    labels = None if human is None else load_human_labels(Path(human))
    found = runs_with_video(
        index,
        judged_runs,
        runs=Path(runs),
        judge=judge,
        annotations=annotations,
        on_notice=on_notice,
    )
    return Inspection(
        {name: card_of(run, annotation, labels) for name, (run, annotation) in found.items()},
        {name: await raw_replies(run, index, prompts=used) for name, (run, _) in found.items()}
        if raw
        else {},
    )


inspect = blocking(inspect_async)
