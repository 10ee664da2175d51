"""The files of values: `metrics.jsonl`, and one file of details for each metric.

A line of `metrics.details/NAME.jsonl` has everything about one caption and one metric. It is
appended as soon as the caption is scored. `metrics.jsonl` is written from these files at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from capeval.errors import InputError
from capeval.files.jsonl import whole_lines, write_jsonl
from capeval.files.judgments import short_hash
from capeval.files.reading import validated
from capeval.metrics.protocol import Item, Metric, Outcome, Unscored, key_of
from capeval.schema import Usage
from capeval.text import storable


class Line(BaseModel):
    """One line of a file of details.

    Attributes
    ----------
    values : by the name of the output; empty if the caption is unscored
    undefined : why an output has no value by its definition
    reason : why the caption is unscored
    inputs : hashes of the texts, and of the metric's settings
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    index: str
    system: str | None = None
    metric: str
    values: dict[str, float] = Field(default_factory=dict)
    undefined: dict[str, str] = Field(default_factory=dict)
    outputs: tuple[str, ...]
    reason: str | None = None
    signature: str
    inputs: dict[str, str]
    details: dict[str, Any] = Field(default_factory=dict)
    usage: Usage = Field(default_factory=Usage)

    @property
    def key(self) -> str:
        """The caption's identifier."""
        return key_of(self.index, self.system)

    def as_json(self) -> dict[str, Any]:
        """Return the line as it is written."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def rows(self) -> list[dict[str, Any]]:
        """Return the lines of `metrics.jsonl`, one for each output."""
        return [
            {
                "index": self.index,
                "system": self.system,
                "metric": output,
                "value": self.values.get(output),
                "reason": self.reason or self.undefined.get(output),
                "signature": self.signature,
            }
            for output in self.outputs
        ]


def line_of(metric: Metric, item: Item, outcome: Outcome) -> Line:
    """Return the line that stores an outcome."""
    fields = dict(vars(outcome))
    if isinstance(outcome, Unscored):
        fields["reason"] = storable(outcome.reason)
    return Line(
        index=item.index,
        system=item.system,
        metric=metric.name,
        outputs=tuple(output.name for output in metric.outputs),
        signature=metric.signature,
        inputs={"item": item.hash, "metric": metric.identity},
        **fields,
    )


def read_lines(file: Path) -> list[Line]:
    """Return the lines of a file of details; raises `InputError`."""
    return [
        validated(Line, value, file=file, where=f"line {number}")
        for number, value in enumerate(whole_lines(file), start=1)
    ]


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a `metrics.jsonl`, none if there is no file; raises `InputError`."""
    rows = whole_lines(file)
    for number, row in enumerate(rows, start=1):
        if not (
            isinstance(row, dict)
            and "value" in row
            and isinstance(row.get("index"), str)
            and isinstance(row.get("metric"), str)
        ):
            raise InputError(
                "is not a metrics.jsonl: each line must have index, metric and value; choose "
                "another --out",
                file=file,
                where=f"line {number}",
            )
    return rows


def write_values(out: Path, details: Path, items: Sequence[Item], outputs: Collection[str]) -> None:
    """Write `metrics.jsonl` from all files of details, in the order of the captions.

    Values of other captions, or of earlier texts, are left out; so are rows of `outputs` that no
    file has. Rows of metrics without a file of details came from elsewhere, and stay.
    """
    order = {item.key: (place, item) for place, item in enumerate(items)}
    rows: list[tuple[int, dict[str, Any]]] = []
    own = {*outputs}
    for file in sorted(details.glob("*.jsonl")):
        latest = {line.key: line for line in read_lines(file)}
        own |= {output for line in latest.values() for output in line.outputs}
        for key, line in latest.items():
            place, item = order.get(key, (0, None))
            if item is not None and item.hash == line.inputs.get("item"):
                text = short_hash(item.caption)
                rows += [(place, {**row, "caption_hash": text}) for row in line.rows()]
    rows.sort(key=lambda row: row[0])
    foreign = [row for row in read_rows(out) if row["metric"] not in own]
    write_jsonl(out, [*(row for _, row in rows), *foreign])
