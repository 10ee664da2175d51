"""Verdicts as a table with a row for each visual element: CSV or parquet.

`video_id`, `system`, `element_id` and `label` are the columns of human labels, so that commands
that take those read the table. A video without a verdict has no rows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from capeval.errors import MissingExtra
from capeval.files.csv_formulas import escape
from capeval.schema import Annotation, Scored


def element_rows(
    system: str, judged: Iterable[tuple[Annotation, Scored]]
) -> Iterator[dict[str, str | int]]:
    """Yield the verdict on each element; `candidate` are the caption's events matched to its event.

    With repeats, the label is the majority's and the match is the first repeat's.
    """
    for annotation, verdict in judged:
        elements = iter(annotation.elements.items())
        for number, event in enumerate(annotation.events, start=1):
            pairs = zip(verdict.candidate_events, verdict.matches, strict=True)
            candidate = " ".join(text for text, match in pairs if match == number)
            for label in verdict.relations[number - 1]:
                element_id, element = next(elements)
                yield {
                    "video_id": annotation.index,
                    "system": system,
                    "element_id": element_id,
                    "label": label,
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
