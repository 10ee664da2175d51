from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openpyxl

from capeval.schema import Annotation


def element(content: str = "A dog runs.", **fields: object) -> dict[str, object]:
    return {"content": content, "type": "action", "weight": 3} | fields


def record(index: str = "v", **fields: Any) -> dict[str, Any]:
    events = [{"event": "A dog runs.", "visual_elements": [element()]}]
    return {"index": index, "events": events} | fields


def annotated(*indexes: str) -> tuple[Annotation, ...]:
    return tuple(Annotation.model_validate(record(index)) for index in indexes)


def annotation_of(*events: tuple[str, ...], index: str = "V1", **fields: Any) -> Annotation:
    """Make an annotation; each event is its sentence and its elements, all actions of weight 1."""
    parts = [
        {
            "event": event,
            "visual_elements": [{"content": c, "type": "action", "weight": 1} for c in contents],
        }
        for event, *contents in events
    ]
    return Annotation.model_validate(record(index, events=parts, **fields))


def save_workbook(path: Path, rows: Sequence[Any], **others: Sequence[Any]) -> Path:
    """Write a workbook with openpyxl; `others` are further sheets by name."""
    workbook = openpyxl.Workbook()
    for number, (name, content) in enumerate({"Ratings": rows, **others}.items()):
        sheet = workbook.active if number == 0 else workbook.create_sheet()
        sheet.title = name
        for row in content:
            sheet.append(row)
    workbook.save(path)
    return path
