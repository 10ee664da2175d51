"""Verdicts as a table with a row for each visual element: CSV or parquet.

The columns are not those of human labels: a judge's verdicts must not be taken for them. A video
without a verdict has no rows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from capeval.errors import InputError, MissingExtra
from capeval.files.judgments import unknown_video
from capeval.files.tables import escape, read_table
from capeval.schema import RELATIONS, Annotation, Provenance, Relation, Scored
from capeval.text import listed, shown, storable

SUFFIXES = (".csv", ".parquet")
_JUDGED = ("run", "judge", "baseline", "prompts")
_ANNOTATED = ("type", "weight", "content", "event")
_COLUMNS = ("index", *_JUDGED, "element_id", "relation", *_ANNOTATED, "candidate", "unmatched")


def element_rows(
    run: str, judged: Iterable[tuple[Annotation, Scored]]
) -> Iterator[dict[str, str | int]]:
    """Yield the verdict on each element.

    `candidate` are the caption's events that are matched to the element's event, one a line, and
    `unmatched` the caption's events without a match. With repeats, the relation is the majority's
    and the matches are the first repeat's.
    """
    for annotation, verdict in judged:
        made = verdict.provenance
        relations = chain.from_iterable(verdict.relations)
        pairs = zip(_annotated(annotation).items(), relations, strict=True)
        for (element_id, annotated), relation in pairs:
            yield {
                "index": annotation.index,
                "run": run,
                "judge": made.judge,
                "baseline": "yes" if made.is_baseline else "no",
                "prompts": made.prompts or "",
                "element_id": element_id,
                "relation": relation,
                **annotated,
                "candidate": _events(verdict, int(element_id.partition(".")[0])),
                "unmatched": _events(verdict, None),
            }


def _annotated(annotation: Annotation) -> dict[str, dict[str, str | int]]:
    """Return the cells of each element that are the annotation's."""
    return {
        f"{number}.{n}": {
            "type": element.type,
            "weight": element.weight,
            "content": element.content,
            "event": event.event,
        }
        for number, event in enumerate(annotation.events, start=1)
        for n, element in enumerate(event.visual_elements, start=1)
    }


def _events(verdict: Scored, number: int | None) -> str:
    """Return the caption's events that are matched to a reference event, or to none."""
    pairs = zip(verdict.candidate_events, verdict.matches, strict=True)
    return "\n".join(text.replace("\n", " ") or " " for text, match in pairs if match == number)


def table_bytes(rows: Iterable[dict[str, str | int]], suffix: str) -> bytes:
    """Return rows, at least one, as `.csv`, in which no cell is a formula, or `.parquet`.

    MissingExtra if that needs pyarrow, which is not installed.
    """
    is_csv = suffix == ".csv"
    found = [{name: _cell(value, is_csv=is_csv) for name, value in row.items()} for row in rows]
    if is_csv:
        out = io.StringIO()
        # Without quotes, a carriage return in a cell would end its line.
        writer = csv.DictWriter(out, [*found[0]], lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writeheader()
        writer.writerows(found)
        return out.getvalue().encode("utf-8")
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("writing parquet needs pyarrow", "data") from None
    sink = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(found), sink)
    return sink.getvalue()


def _cell(value: str | int, *, is_csv: bool) -> str | int:
    if isinstance(value, int):
        return value
    return escape(storable(value)) if is_csv else storable(value)


def load_element_table(
    path: Path, annotations: Sequence[Annotation], *, ignore_unknown: bool = False
) -> list[Scored]:
    """Return the verdicts of a table of one run that `element_rows` describes.

    InputError if it has several runs, or is about other annotations.
    """
    table = read_table(path)
    names = table.choose(_COLUMNS)
    known = {storable(annotation.index): annotation for annotation in annotations}
    runs: dict[str, None] = {}
    videos: dict[str, dict[str, dict[str, str]]] = {}
    for place, row in table.records():
        cells = {name: table.text(row[own]) for name, own in names.items()}
        index, element_id = cells["index"], cells["element_id"]
        where = f"{place}: index {shown(index)}"
        runs[", ".join(filter(None, (cells[name] for name in _JUDGED)))] = None
        if len(runs) > 1:
            message = f"has several runs or judges ({'; '.join(runs)}): keep the rows of one"
            raise InputError(message, file=path, where=where)
        if index not in known:
            if ignore_unknown:
                continue
            raise unknown_video(index, known, file=path, place=f"{place}: ")
        elements = videos.setdefault(index, {})
        if element_id in elements:
            message = f"the element {shown(element_id)} is duplicated"
            raise InputError(message, file=path, where=where)
        if cells["relation"] not in RELATIONS:
            message = f"must be {', '.join(RELATIONS)}, not {shown(cells['relation'])}"
            raise InputError(message, file=path, where=where, field="relation")
        elements[element_id] = cells
    return [_verdict(known[index], elements, path) for index, elements in videos.items()]


def _verdict(
    annotation: Annotation, elements: Mapping[str, Mapping[str, str]], path: Path
) -> Scored:
    """Return the verdict on a video; raises `InputError` if its annotation is another."""
    given = {i: [cells[name] for name in _ANNOTATED] for i, cells in elements.items()}
    annotated = {
        i: [storable(str(cells[name])) for name in _ANNOTATED]
        for i, cells in _annotated(annotation).items()
    }
    if given != annotated:
        other = [i for i in {**annotated, **given} if given.get(i) != annotated.get(i)]
        raise InputError(
            f"has other elements than the annotation ({listed(other)}): name the --annotations "
            "that were judged, or judge again",
            file=path,
            where=f"index {shown(annotation.index)}",
        )
    events = {number: elements[f"{number}.1"] for number in range(1, len(annotation.sizes) + 1)}
    cells = events[1]
    matched: list[tuple[int | None, str]] = [(n, row["candidate"]) for n, row in events.items()]
    matched.append((None, cells["unmatched"]))
    candidates = [(text, n) for n, cell in matched if cell for text in cell.split("\n")]
    relation: dict[str, Relation] = {one: one for one in RELATIONS}
    return Scored(
        index=annotation.index,
        candidate_events=tuple(text for text, _ in candidates),
        matches=tuple(number for _, number in candidates),
        relations=tuple(
            tuple(relation[elements[f"{event}.{n}"]["relation"]] for n in range(1, size + 1))
            for event, size in enumerate(annotation.sizes, start=1)
        ),
        provenance=Provenance(
            judge=cells["judge"] or "unknown",
            prompts=cells["prompts"] or None,
            baseline=cells["baseline"] == "yes" or None,
        ),
    )
