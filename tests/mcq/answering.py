"""Questions with generated clips, and an endpoint that reads the clips' frame numbers."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.mcq.question_files import tomato, write
from tests.server import completion
from tests.video.clips import make_clip, numbers

FRAMES = 24
OPTIONS = ["left", "right", "up"]
TYPES = ("count", "direction", "rotation", "shape&trend", "velocity&frequency", "visual_cues")


def tomato_folder(folder: Path, each: int = 2) -> Path:
    data = folder / "data"
    data.mkdir(parents=True)
    for place, name in enumerate(TYPES):
        questions = {
            str(n): tomato(
                question=f"Where does thing {n} of {name} move?",
                options=[*OPTIONS, f"to {name}"],
                answer=n % 3,
                key=f"clip-{(place + n) % 4}",
                demonstration_type="human",
                motion_type=name,
                variation={"composite": n % 2},
            )
            for n in range(each)
        }
        (data / f"{name}.json").write_text(json.dumps(questions), encoding="utf-8")
    for n in range(4):
        path = folder / "videos" / "human" / f"clip-{n}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        make_clip(path, FRAMES)
    return data


def own_folder(folder: Path, *questions: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"id": f"q{n}", "video": "ball", "question": "Where?", "options": OPTIONS, "answer": "A"}
        | question
        for n, question in enumerate(questions or ({},))
    ]
    file = write(folder / "questions.jsonl", tuple(rows))
    for video in {str(row["video"]) for row in rows}:
        make_clip(folder / f"{video}.mp4", FRAMES)
    return file


def seen(request: dict[str, Any]) -> list[int]:
    content = request["messages"][-1]["content"]
    if isinstance(content, str):
        return []
    images = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    frames = [
        np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB"))
        for url in images
    ]
    return numbers(np.stack(frames)) if frames else []


def text_of(request: dict[str, Any]) -> str:
    content = request["messages"][-1]["content"]
    return content if isinstance(content, str) else str(content[-1]["text"])


def asked(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the requests that ask a question: not the preflight's."""
    return [one for one in requests if isinstance(one["messages"][-1]["content"], list)]


def replies(request: dict[str, Any]) -> Any:
    """Answer with the frames that were seen, and always A."""
    if isinstance(request["messages"][-1]["content"], str):
        return '{"ok": true}'
    return completion(f"A. I saw {seen(request)}", prompt_tokens=100, completion_tokens=5)
