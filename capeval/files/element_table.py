"""Verdicts as a table with a row for each visual element: CSV or parquet.

The columns are not those of human labels: a judge's verdicts must not be taken for them. A video
without a verdict has no rows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from capeval.errors import InputError, MissingExtra
from capeval.files.csv_formulas import escape, unescape
from capeval.files.tables import read_table
from capeval.schema import RELATIONS, Annotation, Provenance, Relation, Scored
from capeval.text import shown

SUFFIXES = (".csv", ".parquet")
_READ = ("index", "judge", "baseline", "prompts", "element_id", "relation", "candidate")


def element_rows(
    run: str, judged: Iterable[tuple[Annotation, Scored]]
) -> Iterator[dict[str, str | int]]:
    """Yield the verdict on each element; `candidate` are the caption's events matched to its event.

    With repeats, the relation is the majority's and the match is the first repeat's.
    """
    for annotation, verdict in judged:
        elements = iter(annotation.elements.items())
        for number, event in enumerate(annotation.events, start=1):
            pairs = zip(verdict.candidate_events, verdict.matches, strict=True)
            candidate = " ".join(text for text, match in pairs if match == number)
            for relation in verdict.relations[number - 1]:
                element_id, element = next(elements)
                yield {
                    "index": annotation.index,
                    "run": run,
                    "judge": verdict.provenance.judge,
                    "baseline": "yes" if verdict.provenance.is_baseline else "no",
                    "prompts": verdict.provenance.prompts or "",
                    "element_id": element_id,
                    "relation": relation,
                    "type": element.type,
                    "weight": element.weight,
                    "content": element.content,
                    "event": event.event,
                    "candidate": candidate,
                }


def table_bytes(rows: Iterable[dict[str, str | int]], suffix: str) -> bytes:
    """Return rows, at least one, as `.csv`, in which no cell is a formula, or `.parquet`.

    MissingExtra if that needs pyarrow, which is not installed.
    """
    found = list(rows)
    if suffix == ".csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, [*found[0]], lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: escape(str(cell)) for name, cell in row.items()} for row in found)
        return out.getvalue().encode("utf-8")
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("writing parquet needs pyarrow", "data") from None
    sink = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(found), sink)
    return sink.getvalue()


def load_element_table(path: Path, annotations: Sequence[Annotation]) -> list[Scored]:
    """Return the verdicts of a table that `element_rows` describes; raises `InputError`.

    The caption's events that nothing matched are not in the table.
    """
    table = read_table(path)
    names = table.choose(_READ)
    known = {annotation.index: annotation for annotation in annotations}
    rows = [
        (place, {n: str(row[own] or "") for n, own in names.items()})
        for place, row in table.records()
    ]
    result = []
    for index, group in groupby(rows, key=lambda row: unescape(row[1]["index"])):
        found = [*group]
        place, first = found[0]
        annotation = known.get(index)
        if annotation is None:
            raise InputError(
                "is unknown to the annotations", file=path, where=f"{place}: index {shown(index)}"
            )
        given = {row["element_id"]: row["relation"] for _, row in found}
        if given.keys() != annotation.elements.keys() or len(found) != len(given):
            message = "has other elements than the annotation"
            raise InputError(message, file=path, where=f"{place}: index {shown(index)}")
        texts = {
            row["element_id"].partition(".")[0]: unescape(row["candidate"]) for _, row in found
        }
        matched = [number for number in range(1, len(annotation.events) + 1) if texts[str(number)]]
        result.append(
            Scored(
                index=index,
                candidate_events=tuple(texts[str(number)] for number in matched),
                matches=tuple(matched),
                relations=tuple(
                    tuple(_relation(given[f"{event}.{n}"], path, place) for n in range(1, size + 1))
                    for event, size in enumerate(annotation.sizes, start=1)
                ),
                provenance=Provenance(
                    judge=first["judge"],
                    prompts=first["prompts"] or None,
                    baseline=first["baseline"] == "yes" or None,
                ),
            )
        )
    return result


def _relation(text: str, path: Path, place: str) -> Relation:
    for relation in RELATIONS:
        if text == relation:
            return relation
    raise InputError(
        f"must be {', '.join(RELATIONS)}, not {shown(text)}",
        file=path,
        where=place,
        field="relation",
    )
