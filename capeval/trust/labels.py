"""From human labels, or the verdicts of another judge, to the labels of one run's captions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from capeval.errors import CapevalError, InputError
from capeval.files.annotations import annotations_hash
from capeval.files.jsonl import dumps, write_atomic
from capeval.files.judgments import caption_hash, reference_hash
from capeval.files.ratings import LabelTable, RatingTable, load_human
from capeval.rating.human_scores import as_relation, unknown_element
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.judged_run import JudgedRun, load_judged
from capeval.runs.labels import NO_ANNOTATION, NO_CAPTION
from capeval.runs.resolve import find_metric
from capeval.runs.stored_scores import write_scores
from capeval.schema import (
    Annotation,
    LabelledVideo,
    LabelOrigin,
    LabelScale,
    Relation,
    Relations,
    RunLabels,
)
from capeval.text import counted, listed, shown

PARTIAL = "not fully labelled by any rater"
NOT_JUDGED = "not scored by the judge of the labels"
ANOTHER_CAPTION = "whose verdict is on another caption"


def with_labels(
    judged: JudgedRun,
    labels: str | Path,
    *,
    runs: Path,
    columns: Mapping[str, str] | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> JudgedRun:
    """Return a judged run with labels of its captions.

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
        return replace(judged, labels=_labels_by_judge(path, judged, on_notice))
    table = load_human(path, columns=columns, missing="drop")
    if isinstance(table, RatingTable):
        raise InputError(
            "has ratings of captions; calibrated scores need labels of elements "
            "(columns video_id, element_id, label), as `capeval rate` collects them",
            file=path,
        )
    for line in (*table.notices, *table.warnings):
        on_notice(line)
    return replace(judged, labels=_labels_by_raters(table, judged))


def _labels_by_judge(path: Path, judged: JudgedRun, on_notice: Callable[[str], None]) -> RunLabels:
    """Return another judge's verdicts on a run's captions as labels.

    Raises
    ------
    InputError
        The judge is that of the run, or none of its verdicts is on these captions.
    """
    other = load_judged(path, annotations=judged.annotations, ignore_unknown=True, labels=False)
    if other.identity.as_origin == judged.identity.as_origin:
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
        caption = judged.captions.get(index)
        own = judged.judgments.get(index)
        mine = caption_hash(caption) if caption else own and own.inputs and own.inputs.caption
        if index in other.unscored:
            left_out[index] = NOT_JUDGED
        elif judged.run and caption is None:
            left_out[index] = NO_CAPTION
        elif mine and verdict.inputs and verdict.inputs.caption != mine:
            left_out[index] = ANOTHER_CAPTION
        else:
            relations[index] = (verdict.relations,)
    return _run_labels(judged, other.file, relations, left_out, origin=other.identity.as_origin)


def _labels_by_raters(table: LabelTable, judged: JudgedRun) -> RunLabels:
    """Return the human labels of one run's captions.

    Labels of other systems are ignored. A caption counts if at least one rater labelled every
    element; labels of raters who did not are left out.

    Raises
    ------
    InputError
        There are none of this run, or a label is of an element that the annotation does not have.
    """
    rows = _rows_of(table, judged)
    elements = {index: of.elements for index, of in judged.annotated.items()}
    given: dict[str, dict[int, dict[str, Relation]]] = defaultdict(lambda: defaultdict(dict))
    left_out: dict[str, str] = {}
    for row in rows:
        index, element = table.keys.videos[row], table.elements[row]
        if index not in elements:
            left_out[index] = NO_ANNOTATION
        elif judged.run and index not in judged.captions:
            left_out[index] = NO_CAPTION
        elif element not in elements[index]:
            raise unknown_element(table, row, elements)
        else:
            given[index][table.rater[row]][element] = as_relation(table.labels[row])
    relations: dict[str, tuple[Relations, ...]] = {}
    raters: set[int] = set()
    for index, of_raters in given.items():
        known = elements[index]
        whole = {rater: of for rater, of in sorted(of_raters.items()) if len(of) == len(known)}
        if not whole:
            left_out[index] = PARTIAL
            continue
        raters |= whole.keys()
        of_video = []
        for labels in whole.values():
            ordered = iter([labels[element] for element in known])
            of_video.append(tuple(tuple(islice(ordered, n)) for n in judged.annotated[index].sizes))
        relations[index] = tuple(of_video)
    return _run_labels(
        judged, table.file, relations, left_out, scale=table.scale, raters=len(raters)
    )


def _run_labels(
    judged: JudgedRun,
    file: Path,
    relations: Mapping[str, tuple[Relations, ...]],
    left_out: Mapping[str, str],
    *,
    origin: LabelOrigin = "human",
    scale: LabelScale = "three-way",
    raters: int = 1,
) -> RunLabels:
    counts = Counter(left_out.values())
    if not relations:
        why = "; ".join(f"{n:,} {reason}" for reason, n in counts.items())
        raise InputError(f"has no complete labels of {judged.name}: {why}", file=file)
    return RunLabels(
        origin=origin,
        source=str(file),
        scale=scale,
        raters=raters,
        videos={
            index: LabelledVideo(
                caption=caption_hash(judged.captions[index]) if judged.run else "",
                reference=reference_hash(annotation),
                relations=relations[index],
            )
            for index, annotation in judged.annotated.items()
            if index in relations
        },
        left_out=dict(counts),
    )


def _rows_of(table: LabelTable, judged: JudgedRun) -> list[int]:
    """Return the rows of a run: those under its name, else those under its model's."""
    systems = table.keys.systems
    if systems is None:
        return list(range(len(table.places)))
    there = set(systems)
    name = next((one for one in (judged.name, judged.model) if one in there), None)
    if name is None:
        raise InputError(
            f"has no labels of {judged.name}; its systems are "
            f"{listed(map(shown, dict.fromkeys(systems)))}",
            file=table.file,
            field="system",
        )
    if name != judged.name and (others := _others_called(name, judged)):
        raise InputError(
            f"has labels of {shown(name)}, the model of {judged.name}, which is also that of "
            f"{listed(others)}; put the names of the runs into the column",
            file=table.file,
            field="system",
        )
    return [row for row, system in enumerate(systems) if system == name]


def _others_called(name: str, judged: JudgedRun) -> list[str]:
    """Return the other runs that have this name, or captions by a model of this name."""
    own = judged.run
    runs = [] if own is None else RunFolder.all(own.path.parent)
    return [
        run.name
        for run in runs
        if own is not None
        and run.path != own.path
        and (run.name == name or any(one.model == name for one in run.read_captions()))
    ]


def store_labels(judged: JudgedRun) -> list[str]:
    """Keep a judged run's labels in the run, so that every command shows calibrated scores.

    The `scores.json` of each judge of the run is written anew with them. Returns what the caller
    should know.
    """
    run, labels = judged.run, judged.labels
    if run is None or labels is None:
        once = "the verdicts are not in a run, so the labels are used this once, not stored"
        return [f"{judged.name}: {once}"]
    notices = []
    with run.locked():
        before = run.labels.read_bytes() if run.labels.is_file() else None
        text = dumps(labels.model_dump(mode="json"), indent=1) + "\n"
        write_atomic(run.labels, text)
        if before != text.encode("utf-8"):
            replaced = ", in place of others" if before is not None else ""
            count = counted(len(labels.videos), "labelled caption")
            notices.append(
                f"{run}/{run.labels.name}: {count} stored{replaced}; every command now also shows "
                "calibrated scores of this run (delete the file to undo)"
            )
        # Other annotations, named for this command, change no stored score.
        known = judged.manifest.get("annotations", {}).get("sha256")
        same = known in (None, annotations_hash(judged.annotations))
        own = judged.annotations if same else None
        for folder in run.judges():
            if folder.scores.is_file():
                notices += _update(folder, own)
    return notices


def _update(folder: JudgeFolder, annotations: Sequence[Annotation] | None) -> list[str]:
    try:
        write_scores(folder, load_judged(folder.path, annotations=annotations).scores)
    except CapevalError as fault:
        return [f"{folder.scores}: is not updated: {fault}"]
    return []
