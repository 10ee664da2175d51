"""`capeval.inspect`: why one video has its score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from capeval.api.run_options import InspectOptions, check_has_human
from capeval.api.sync_async import blocking
from capeval.errors import InputError, UsageError
from capeval.judging.prompts import load_prompts
from capeval.options import takes
from capeval.reporting.viewer.cards import VideoCard, card_of, load_human_labels
from capeval.reporting.viewer.raw_replies import RawReplies, raw_replies
from capeval.runs.folder import RunFolder
from capeval.runs.judged_run import JudgedRun, distinct_names, load_judged, load_judged_runs
from capeval.runs.resolve import attempt
from capeval.schema import Annotation
from capeval.text import listed, nearest, shown


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

    Without `run`, these are all judged runs that have the video.

    Raises
    ------
    InputError, UsageError
        A named run cannot be loaded or lacks the video, or no run has it.
    """
    if o.prompts is not None and not o.raw:
        raise UsageError("--prompts requires --raw; add it, or omit --prompts")
    if o.prompts is not None:
        # Wrong ones are refused even if no run was judged with prompts.
        load_prompts(o.prompts)
    check_has_human(o.columns, o.human)
    found = runs_with_video(o)
    labels = None
    if o.human is not None:
        labels = load_human_labels(Path(o.human), o.columns, o.on_notice)
    cards = {name: card_of(run, annotation, labels) for name, (run, annotation) in found.items()}
    unlabelled = [name for name, card in cards.items() if not any(e.human for e in card.elements)]
    if labels is not None and unlabelled:
        o.on_notice(
            f"{o.human}: has no label of {shown(o.index)} in {listed(unlabelled)}; its video_id "
            "and element_id must be those of the annotations, and its system the run or its model"
        )
    return Inspection(
        cards,
        {
            name: await raw_replies(run, o.index, prompts=o.prompts)
            for name, (run, _) in found.items()
        }
        if o.raw
        else {},
    )


inspect = blocking(inspect_async)


def runs_with_video(o: InspectOptions) -> dict[str, tuple[JudgedRun, Annotation]]:
    """Return judged runs under distinct names, each with its annotation of the video.

    If none are named, they are all judged runs that have captioned or judged it; a run that cannot
    be read is left out with a notice.
    """
    index, runs = o.index, Path(o.runs)
    if o.run:
        asked = load_judged_runs(o.run, runs=runs, judge=o.judge, annotations=o.annotations)
        return {name: (run, _annotation(run, index)) for name, run in asked.items()}
    judges = attempt(lambda run: run.judges(o.judge), RunFolder.all(runs), o.on_notice)
    loaded = attempt(
        lambda judge: load_judged(judge.judgments, annotations=o.annotations),
        [judge for of_run in judges for judge in of_run],
        o.on_notice,
    )
    if not loaded:
        by = "" if o.judge is None else f" by {o.judge}"
        nothing = f"has no run that was judged{by}; judge one first, or name one with --run"
        raise InputError(nothing, file=runs)
    annotated = [run for run in loaded if index in run.annotated]
    captioned = [run for run in annotated if index in run.captions or index in run.judgments]
    if not annotated:
        known = dict.fromkeys(each for run in loaded for each in run.annotated)
        raise InputError(
            f"no judged run has the video {shown(index)}{nearest(index, list(known))}", file=runs
        )
    return {
        name: (run, _annotation(run, index))
        for name, run in distinct_names(captioned or annotated).items()
    }


def _annotation(run: JudgedRun, index: str) -> Annotation:
    if index in run.annotated:
        return run.annotated[index]
    hint = nearest(index, list(run.annotated))
    raise InputError(f"has no video {shown(index)}{hint}", file=run.annotations_path)
