"""From human labels, or the verdicts of another judge, to the labels of one run's captions."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from capeval.errors import InputError
from capeval.files.judgments import caption_hash
from capeval.files.ratings import LabelTable, RatingTable, load_human
from capeval.rating.human_scores import relations_of
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import find_metric
from capeval.schema import LabelScale, Relations
from capeval.scoring.judged_run import JudgedRun, load_judged
from capeval.scoring.scores import ResultModel
from capeval.scoring.verdicts import JudgeIdentity
from capeval.text import listed, shown

LabelOrigin = Literal["human"] | JudgeIdentity
"""Who gave the labels: human raters, or a judge."""


class LabelSource(ResultModel):
    """Where labels come from: who gave them, their file, and how many captions are labelled.

    `left_out` counts labelled captions that are not used, by reason. Binary labels are entailment
    (covered) or lack (not covered).
    """

    origin: LabelOrigin
    file: str
    sha256: str
    scale: LabelScale
    raters: int
    labelled: int
    left_out: dict[str, int]


@dataclass(frozen=True)
class CaptionLabels:
    """The labels of one run's scored captions: for each video, the relations of each rater."""

    source: LabelSource
    videos: Mapping[str, tuple[Relations, ...]]


def read_labels(
    judged: JudgedRun,
    labels: str | Path,
    *,
    runs: Path,
    columns: Mapping[str, str] | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> CaptionLabels:
    """Return labels of a judged run's captions.

    Parameters
    ----------
    labels : a file of human labels; or a judged run, a judge's folder or a `judgments.jsonl`
    columns : the columns of a human file by capeval's names; rows without a label are left out
        with a notice

    Raises
    ------
    InputError
        There are no labels of elements of this run's captions, or they are by its own judge.
    """
    path = find_metric(labels, runs)
    if path.is_dir() or path.name == "judgments.jsonl":
        return _by_judge(path, judged, on_notice)
    table = load_human(path, columns=columns, missing="drop")
    if isinstance(table, RatingTable):
        raise InputError(
            "has ratings of captions; calibrated scores need labels of elements "
            "(columns video_id, element_id, label), as `capeval rate` collects them",
            file=path,
        )
    for line in (*table.notices, *table.warnings):
        on_notice(line)
    return _by_raters(table, judged)


def _by_judge(path: Path, judged: JudgedRun, on_notice: Callable[[str], None]) -> CaptionLabels:
    """Return another judge's verdicts on a run's captions as labels."""
    other = load_judged(path, annotations=judged.annotations, ignore_unknown=True)
    if replace(other.identity, repeats=judged.identity.repeats) == judged.identity:
        raise InputError(
            f"has verdicts of the same judge as {judged.name} ({other.identity}); name those of "
            "another judge",
            file=other.file,
        )
    for line in other.notices:
        on_notice(line)
    relations: dict[str, tuple[Relations, ...]] = {}
    left_out: dict[str, str] = {}
    for index, verdict in other.judgments.items():
        caption, own = judged.captions.get(index), judged.judgments.get(index)
        mine = caption_hash(caption) if caption else own and own.inputs and own.inputs.caption
        if index in other.unscored:
            left_out[index] = "not scored by the judge of the labels"
        elif mine and verdict.inputs and verdict.inputs.caption != mine:
            left_out[index] = "whose verdict is on another caption"
        else:
            relations[index] = (other.scored[index].relations,)
    return _of_captions(judged, other.file, relations, left_out, origin=other.identity)


def _by_raters(table: LabelTable, judged: JudgedRun) -> CaptionLabels:
    """Return the human labels of one run's captions; labels of other systems are ignored.

    A caption counts if at least one rater labelled every element; labels of raters who did not are
    left out.
    """
    ours = _rows_of(table, judged)
    strangers = {table.keys.videos[row] for row in ours} - judged.annotated.keys()
    left_out = dict.fromkeys(strangers, "of a video without an annotation")
    rows = [row for row in ours if table.keys.videos[row] not in strangers]
    relations: dict[str, tuple[Relations, ...]] = {}
    raters: set[int] = set()
    given = relations_of(table.take(rows), judged.annotated)
    for (key, rater), of_rater in sorted(given.items(), key=lambda one: one[0][1]):
        if of_rater is not None:
            raters.add(rater)
            relations[key[0]] = (*relations.get(key[0], ()), of_rater)
    partial = {key[0] for key, _ in given} - relations.keys()
    left_out |= dict.fromkeys(partial, "not fully labelled by any rater")
    return _of_captions(
        judged, table.file, relations, left_out, scale=table.scale, raters=len(raters)
    )


def _of_captions(
    judged: JudgedRun,
    file: Path,
    relations: Mapping[str, tuple[Relations, ...]],
    left_out: dict[str, str],
    *,
    origin: LabelOrigin = "human",
    scale: LabelScale = "three-way",
    raters: int = 1,
) -> CaptionLabels:
    """Return the labels of captions that the run's judge has scored; the others are left out."""
    for index in relations.keys() - judged.scored.keys():
        is_missing = judged.run and index not in judged.captions
        left_out[index] = (
            "of a video without a caption" if is_missing else "not scored by the judge"
        )
    videos = {index: relations[index] for index in judged.scored if index in relations}
    counts = Counter(left_out[index] for index in sorted(left_out))
    if not videos:
        why = "; ".join(f"{n:,} {reason}" for reason, n in counts.items())
        raise InputError(f"has no complete labels of {judged.name}: {why}", file=file)
    source = LabelSource(
        origin=origin,
        file=str(file),
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        scale=scale,
        raters=raters,
        labelled=len(videos),
        left_out=dict(counts),
    )
    return CaptionLabels(source, videos)


def _rows_of(table: LabelTable, judged: JudgedRun) -> list[int]:
    """Return the rows of a run: those under its name, else those under its model's."""
    systems = table.keys.systems
    if systems is None:
        return list(range(len(table.places)))
    name = next((one for one in (judged.name, judged.model) if one in set(systems)), None)
    problem = ""
    if name is None:
        there = listed(map(shown, dict.fromkeys(systems)))
        problem = f"has no labels of {judged.name}; its systems are {there}"
    elif name != judged.name and (others := _others_of(name, judged)):
        problem = (
            f"has labels of {shown(name)}, the model of {judged.name}, which is also that of "
            f"{listed(others)}; put the names of the runs into the column"
        )
    if problem:
        raise InputError(problem, file=table.file, field="system")
    return [row for row, system in enumerate(systems) if system == name]


def _others_of(model: str, judged: JudgedRun) -> list[str]:
    """Return the other runs with captions by a model."""
    own = judged.run
    return [
        run.name
        for run in (RunFolder.all(own.path.parent) if own else ())
        if run != own and any(caption.model == model for caption in run.read_captions())
    ]
