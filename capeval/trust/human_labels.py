"""From a human file to the labels of one run's captions, counting what cannot be used."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

from capeval.errors import CapevalError, InputError, RunLocked
from capeval.files.jsonl import dumps, write_atomic
from capeval.files.judgments import caption_hash, reference_hash
from capeval.files.ratings import LabelTable, RatingTable, load_human
from capeval.files.reading import read_bytes
from capeval.rating.human_scores import as_relation, unknown_element
from capeval.runs.folder import JudgeFolder
from capeval.runs.human_labels import NO_ANNOTATION, NO_CAPTION
from capeval.runs.judged_run import JudgedRun, load_judged
from capeval.runs.stored_scores import write_scores
from capeval.schema import LabelledVideo, Relation, RunLabels, Stratum
from capeval.text import counted, listed, shown

PARTIAL = "not fully labelled by any rater"


def with_labels(
    judged: JudgedRun,
    file: Path,
    columns: Mapping[str, str] | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
    sheet: str | None = None,
) -> JudgedRun:
    """Return a judged run with the labels of its captions in a human file.

    `columns` are the file's by capeval's names, `sheet` is that of a workbook. Rows
    without a label are left out with a notice.

    Raises
    ------
    InputError
        The file has no labels of elements, or none of this run's captions.
    """

    table = load_human(file, columns=columns, sheet=sheet, missing="drop")
    if isinstance(table, RatingTable):
        raise InputError(
            "has ratings of captions; calibrated scores need labels of elements "
            "(columns video_id, element_id, label), as `capeval rate` collects them",
            file=file,
        )
    for line in (*table.notices, *table.warnings):
        on_notice(line)
    return replace(judged, labels=run_labels(table, judged))


def run_labels(table: LabelTable, judged: JudgedRun) -> RunLabels:
    """Return the labels of one run's captions.

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
    strata: dict[str, Stratum] = {}
    stratum_of: dict[str, str] = {}
    for row in rows:
        index, element = table.keys.videos[row], table.elements[row]
        if table.strata is not None:
            name, size, sampled = table.strata[row]
            strata[name] = Stratum(videos=size, sampled=sampled)
            stratum_of[index] = name
        if index not in elements:
            left_out[index] = NO_ANNOTATION
        elif judged.run and index not in judged.captions:
            left_out[index] = NO_CAPTION
        elif element not in elements[index]:
            raise unknown_element(table, row, elements)
        else:
            given[index][table.rater[row]][element] = as_relation(table.labels[row])
    videos: dict[str, LabelledVideo] = {}
    raters: set[int] = set()
    for index, of_raters in given.items():
        known = elements[index]
        whole = {rater: of for rater, of in sorted(of_raters.items()) if len(of) == len(known)}
        if not whole:
            left_out[index] = PARTIAL
            continue
        raters |= whole.keys()
        annotation = judged.annotated[index]
        relations = []
        for labels in whole.values():
            ordered = iter([labels[element] for element in known])
            relations.append(tuple(tuple(islice(ordered, size)) for size in annotation.sizes))
        videos[index] = LabelledVideo(
            caption=caption_hash(judged.captions[index]) if judged.run else "",
            reference=reference_hash(annotation),
            stratum=stratum_of.get(index),
            relations=tuple(relations),
        )
    if not videos:
        why = "; ".join(f"{n:,} {reason}" for reason, n in Counter(left_out.values()).items())
        raise InputError(f"has no complete labels of {judged.name}: {why}", file=table.file)
    return RunLabels(
        source=table.file.name,
        sha256=hashlib.sha256(read_bytes(table.file)).hexdigest(),
        scale=table.scale,
        raters=len(raters),
        strata=strata,
        videos={index: videos[index] for index in judged.annotated if index in videos},
        left_out=dict(Counter(left_out.values())),
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
    return [row for row, system in enumerate(systems) if system == name]


def store_labels(judged: JudgedRun) -> list[str]:
    """Keep a judged run's labels in the run, so that every command shows calibrated scores.

    The `scores.json` of each judge of the run is written anew with them. Returns what the caller
    should know.
    """
    run, labels = judged.run, judged.labels
    if run is None or labels is None:
        once = "the verdicts are not in a run, so the human labels are used this once, not stored"
        return [f"{judged.name}: {once}"]
    before = run.human.read_bytes() if run.human.is_file() else None
    text = dumps(labels.model_dump(mode="json"), indent=1) + "\n"
    write_atomic(run.human, text)
    notices = []
    if before != text.encode("utf-8"):
        replaced = ", in place of others" if before is not None else ""
        count = counted(len(labels.videos), "labelled caption")
        notices.append(
            f"{run}/{run.human.name}: {count} stored{replaced}; "
            "every command now also shows calibrated scores of this run (delete the file to undo)"
        )
    try:
        with run.locked():
            for folder in run.judges():
                if folder.scores.is_file():
                    notices += _update(folder, judged)
    except RunLocked:
        notices.append(f"{run}: is being judged; its scores.json is not updated until that ends")
    return notices


def _update(folder: JudgeFolder, judged: JudgedRun) -> list[str]:
    try:
        other = load_judged(folder.path, annotations=judged.annotations, labels=False)
        write_scores(folder, replace(other, labels=judged.labels).scores)
    except CapevalError as fault:
        return [f"{folder.scores}: is not updated: {fault}"]
    return []
