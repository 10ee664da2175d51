"""The labels that a run keeps, and which of them are still of its captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from capeval.errors import InputError
from capeval.files.judgments import caption_hash, reference_hash
from capeval.runs.folder import RunFolder, read_object
from capeval.runs.verdicts import judged_by
from capeval.schema import Annotation, Caption, Judgment, LabelledVideo, RunLabels
from capeval.text import complaint

OTHER_CAPTION = "whose caption has changed since"
OTHER_ANNOTATION = "whose annotation has changed since"
NO_CAPTION = "of a video without a caption"
NO_ANNOTATION = "of a video without an annotation"


def read_labels(run: RunFolder) -> RunLabels | None:
    """Return the labels that a run keeps, None if it has none.

    Raises
    ------
    InputError
        The file was not written by capeval, or is damaged.
    """
    value = read_object(run.labels)
    if not value:
        return None
    try:
        return RunLabels.model_validate(value)
    except ValidationError as faults:
        field, message = complaint(faults)
        raise InputError(
            f"{message}; store the labels again with `capeval score RUN --labels FILE`, or delete "
            "this file",
            file=run.labels,
            field=field[:200],
        ) from None


def labels_of(
    run: RunFolder,
    annotations: Sequence[Annotation],
    judgments: Sequence[Judgment],
    captions: Mapping[str, Caption] | None = None,
) -> RunLabels | None:
    """Return the labels that a run keeps and that are still of its captions.

    None if they are by the judge of the judgments, whom they do not correct. `captions` are the
    run's own by index, if the caller has them already.
    """
    labels = read_labels(run)
    if labels is None or labels.origin == judged_by(judgments)[0].as_origin:
        return None
    if captions is None:
        captions = {caption.index: caption for caption in run.read_captions()}
    return in_force(labels, captions, annotations)


def in_force(
    labels: RunLabels, captions: Mapping[str, Caption], annotations: Sequence[Annotation]
) -> RunLabels:
    """Return the labels that are of the present captions and annotations; the rest is counted."""
    known = {annotation.index: annotation for annotation in annotations}
    dropped: dict[str, str] = {}
    for index, video in labels.videos.items():
        if index not in known:
            dropped[index] = NO_ANNOTATION
        elif index not in captions:
            dropped[index] = NO_CAPTION
        elif caption_hash(captions[index]) != video.caption:
            dropped[index] = OTHER_CAPTION
        elif not _fits(known[index], video):
            dropped[index] = OTHER_ANNOTATION
    return labels.without(dropped)


def _fits(annotation: Annotation, video: LabelledVideo) -> bool:
    return reference_hash(annotation) == video.reference and all(
        tuple(map(len, relations)) == annotation.sizes for relations in video.relations
    )
