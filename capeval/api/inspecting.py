"""`capeval.inspect`: why one video has its score."""

from __future__ import annotations

from pathlib import Path

from capeval.api.run_options import InspectOptions, check_has_human
from capeval.errors import InputError
from capeval.options import takes
from capeval.reporting.report.cards import VideoCard, card_of, load_human_labels
from capeval.runs.judged_run import load_judged
from capeval.text import nearest, shown


@takes(InspectOptions)
def inspect(o: InspectOptions) -> VideoCard:
    """Return one video of a judged run: its caption, events, verdicts and repairs.

    Raises
    ------
    InputError, UsageError
        The run cannot be loaded, or its annotations lack the video.
    """
    check_has_human(o.columns, o.human)
    run = load_judged(o.run, runs=Path(o.runs), judge=o.judge, annotations=o.annotations)
    if o.index not in run.annotated:
        hint = nearest(o.index, list(run.annotated))
        raise InputError(f"has no video {shown(o.index)}{hint}", file=run.annotations_path)
    labels = None
    if o.human is not None:
        labels = load_human_labels(Path(o.human), o.columns, o.on_notice)
    card = card_of(run, run.annotated[o.index], labels)
    if labels is not None and not any(element.human for element in card.elements):
        o.on_notice(
            f"{o.human}: has no label of {shown(o.index)} in {run.name}; its video_id and "
            "element_id must be those of the annotations, and its system the run or its model"
        )
    return card
