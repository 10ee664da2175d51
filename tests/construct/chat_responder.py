"""Plays the chat model that drafts annotations and questions and checks them, always alike."""

import json
import re
from pathlib import Path
from typing import Any

from tests.server import completion
from tests.world import Said, capeval, write_lines

KEY = {"OPENAI_API_KEY": "sk-test-1"}

TYPES = ("camera", "scene", "action", "attribute")
TASKS = ("camera motion", "action sequence", "object location")

EVENTS = {
    "A runner {} walks to a red car under trees.": (
        ("A runner walks.", "action", 3),
        ("The car is red.", "attribute", 2),
        ("There are trees.", "scene", 1),
    ),
    "A dog {} barks at the runner beside a tall gate.": (
        ("A dog barks.", "action", 3),
        ("The dog is small and black.", "attribute", 1),
    ),
    "The camera {} pans to the left over a lake.": (
        ("The camera pans left.", "camera", 2),
        ("There is a lake.", "scene", 2),
    ),
}


def annotation(number: int) -> dict[str, Any]:
    names = ("content", "type", "weight")
    return {
        "index": f"V{number:03}",
        "video": f"{number}.mp4",
        "visual_characteristic": "High-Dynamic",
        "events": [
            {
                "event": event.format(number),
                "visual_elements": [dict(zip(names, one, strict=True)) for one in elements],
            }
            for event, elements in EVENTS.items()
        ],
    }


async def asking(folder: Path, url: str, *arguments: str) -> Said:
    return await capeval(folder, *arguments, "--base-url", url, "--yes", **KEY)


def fill(folder: Path, captions: dict[str, str], **more: Any) -> None:
    """Write the captions of a folder of clips, and those of a clip that is not kept."""
    clips = folder / "clips"
    clips.mkdir(parents=True)
    rows = [{"index": index, "video": f"{index}.mp4", "keep": True} for index in captions]
    rows.append({"index": "black", "video": "black.mp4", "keep": False})
    lines = [{"index": index, "caption": text, **more} for index, text in captions.items()]
    lines.append({"index": "black", "caption": "Nothing is seen."})
    write_lines(clips / "videos.jsonl", rows)
    write_lines(folder / "captions.jsonl", lines)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    prompt = prompt_of(request)
    text = json.dumps(reply_to(prompt))
    return completion(text, prompt_tokens=len(prompt) // 4, completion_tokens=len(text) // 4)


def prompt_of(request: dict[str, Any]) -> str:
    prompt: str = request["messages"][0]["content"]
    return prompt


def reply_to(prompt: str) -> dict[str, Any]:
    """Return the reply to a prompt of any of the three forms."""
    if prompt.startswith("Draft the annotation"):
        return draft(numbered(prompt))
    if prompt.startswith("Write multiple-choice questions"):
        points = json.loads(inside(prompt, "points"))
        return {"questions": questions(json.loads(inside(prompt, "annotation")), points)}
    if prompt.startswith("Check the options"):
        known = words(inside(prompt, "annotation"))
        options = json.loads(inside(prompt, "question"))["options"]
        return {
            "options": [
                {"id": int(n), "relation": "entailment" if words(text) <= known else "lack"}
                for n, text in options.items()
            ]
        }
    return {"ok": True}


def inside(prompt: str, tag: str) -> str:
    """Return what is between the only two tags of a name that have lines to themselves."""
    (found,) = re.findall(rf"^<{tag}>\n(.*?)\n</{tag}>$", prompt, re.DOTALL | re.MULTILINE)
    return str(found)


def numbered(prompt: str) -> list[str]:
    return [line.partition(": ")[2] for line in inside(prompt, "caption").split("\n")]


def words(text: str) -> set[str]:
    return {*re.findall(r"[a-z]+", text.lower())}


def draft(segments: list[str]) -> dict[str, Any]:
    """Make an event of each segment, with an element and one about its type."""
    events = [
        {
            "start": n,
            "elements": [
                {"content": f"{text} It is so.", "type": TYPES[n % 4], "weight": n % 3 + 1},
                {"content": f"There is a part {n}.", "type": "scene", "weight": 1},
            ],
        }
        for n, text in enumerate(segments, start=1)
    ]
    kinds = ["Multi-Scene", "Low-Dynamic"] if len(segments) > 1 else ["High-Dynamic"]
    return {"events": events, "characteristics": kinds, "domain": "Daily Life"}


def questions(annotation: dict[str, Any], points: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask about the first three elements; the points are wrong options of the first of them."""
    found: list[dict[str, Any]] = []
    for task, (element, content) in zip(TASKS, annotation["elements"].items(), strict=False):
        wrong = [{"text": f"A {way} thing {element}", "point": 0} for way in ("red", "blue", "odd")]
        for number, point in points.items() if not found else ():
            wrong[int(number) - 1] = {"text": point["seen"], "point": int(number)}
        found.append(
            {
                "task_type": task,
                "question": f"What is shown as {element}?",
                "right": content,
                "wrong": wrong,
                "elements": [element],
            }
        )
    return found
