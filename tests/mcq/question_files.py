import json
from pathlib import Path
from typing import Any

OPTIONS = ["left", "right", "up", "not at all"]


def own(**fields: Any) -> dict[str, Any]:
    return {
        "id": "q1",
        "video": "clip_1.mp4",
        "question": "Where does the ball roll?",
        "options": OPTIONS,
        "answer": "B",
    } | fields


def tuna(**fields: Any) -> dict[str, Any]:
    return {
        "index": 7,
        "video_index": "TUNA_0001",
        "video": "clip_1",
        "visual_characteristic": "High-Dynamic, Multi-Scene",
        "skill": "Action",
        "task": "Action Order",
        "question": "Where does the ball roll?",
        "answer": "right",
        "candidates": OPTIONS,
    } | fields


def tomato(**fields: Any) -> dict[str, Any]:
    return {
        "question": "How often does the ball bounce?",
        "options": ["1", "2", "3"],
        "answer": 2,
        "key": "0001-01",
        "video_source_url": "",
        "motion_type": "count",
        "variation": {"counterfactual": 0, "composite": 1, "zoom": 0, "first_person": 0},
        "demonstration_type": "object",
        "note": "",
    } | fields


def harness(**fields: Any) -> dict[str, Any]:
    return {
        "id": 3,
        "video_path": "videos/object/0001-01.mp4",
        "reason_type": "visual cues",
        "demonstration_type": "object",
        "question": "Which bell rings first?",
        "options": ["the red one", "the blue one"],
        "answer": 0,
    } | fields


def video_mme(**fields: Any) -> dict[str, Any]:
    return {
        "video_id": "001",
        "duration": "short",
        "domain": "Knowledge",
        "sub_category": "Geography",
        "videoID": "a-b_C",
        "question_id": "001-1",
        "task_type": "Counting Problem",
        "question": "How many boats are there?",
        "options": ["A. 1.", "B. 2.", "C. 3.", "D. None."],
        "answer": "C",
    } | fields


def write(path: Path, value: Any) -> Path:
    """Write text, JSON lines of a tuple, or one JSON value."""
    if isinstance(value, tuple):
        value = "".join(json.dumps(one) + "\n" for one in value)
    elif not isinstance(value, str):
        value = json.dumps(value)
    path.write_text(value, encoding="utf-8")
    return path


def tsv(*records: dict[str, Any]) -> str:
    """Return records as a TSV in which every cell is quoted."""
    rows = [list(records[0]), *(list(record.values()) for record in records)]
    cells = [['"' + str(cell).replace('"', '""') + '"' for cell in row] for row in rows]
    return "".join("\t".join(row) + "\n" for row in cells)
