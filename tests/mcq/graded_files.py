"""Responses for tests of grading."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["line", "write"]


def line(number: int, reply: str | None, answer: str = "C", **more: Any) -> dict[str, Any]:
    """Return a line of responses.jsonl."""
    made = {
        "id": str(number),
        "benchmark": "own",
        "video": f"video {number}",
        "question": "Which decoration has the largest number?",
        "options": ["Apples.", "Candles.", "Berries.", "Ribbons."],
        "answer": answer,
        "reply": reply,
        "reason": None if reply is not None else "the endpoint failed",
        "frames": {"indices": [0, 8, 16]},
        "likelihood": None,
    }
    return made | more


def write(file: Path, lines: Iterable[dict[str, Any]]) -> Path:
    """Write responses; return the file."""
    file.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return file
