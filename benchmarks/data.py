"""Synthetic annotations and captions of the size of TUNA-1K's (17 elements, 200 words)."""

from __future__ import annotations

import json
import random
from pathlib import Path

__all__ = ["make_captions", "make_set"]

_WORDS_OF = {
    "subject": "man woman boy girl dog cat driver cyclist waiter dancer singer player",
    "colour": "red blue green yellow black white grey orange brown purple",
    "thing": "coat car ball hat table door bicycle boat umbrella window lamp bag cup bench",
    "action": "walks runs jumps turns sits stands waves climbs drives smiles throws opens",
    "place": "street kitchen beach forest station garden office bridge market stadium",
}
_CHOICES = {name: words.split() for name, words in _WORDS_OF.items()}
_MOVES = ("pans left", "pans right", "zooms in", "zooms out", "tilts up", "follows the subject")
_TYPES = ("camera", "scene", "action", "attribute")
_EVENTS, _ELEMENTS, _WORDS = 3, 17, 200


def _sentence(rng: random.Random, kind: str) -> str:
    subject, colour, thing, action, place = (rng.choice(words) for words in _CHOICES.values())
    if kind == "camera":
        return f"The camera {rng.choice(_MOVES)} across the {place}."
    if kind == "scene":
        return f"A {place} with a {colour} {thing} is in the background."
    if kind == "action":
        return f"The {subject} {action} towards the {colour} {thing}."
    return f"The {subject} wears a {colour} {thing} number {rng.randrange(1000)}."


def make_set(
    videos: int, seed: int = 0, *, events: int = _EVENTS, elements: int = _ELEMENTS
) -> list[dict[str, object]]:
    """Return annotations in the published layout."""
    rng = random.Random(seed)
    result: list[dict[str, object]] = []
    for number in range(videos):
        of_video: list[list[dict[str, object]]] = [[] for _ in range(events)]
        for n in range(elements):
            kind = rng.choice(_TYPES)
            element = {"content": _sentence(rng, kind), "type": kind, "weight": rng.randint(1, 3)}
            of_video[n % events].append(element)
        result.append(
            {
                "index": f"video_{number:04d}",
                "video": f"video_{number:04d}",
                "visual_characteristic": rng.choice(
                    ["Low-Dynamic", "High-Dynamic, Multi-Scene", "High-Dynamic,Multi-Subject"]
                ),
                "domain": f"domain {number % 12}",
                "events": [
                    {"event": " ".join(str(e["content"]) for e in event), "visual_elements": event}
                    for event in of_video
                ],
            }
        )
    return result


def make_captions(
    annotations: list[dict[str, object]], path: Path, seed: int = 1, *, words: int = _WORDS
) -> None:
    """Write a captions file: parts of each annotation, in order, filled up to some words."""
    rng = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for annotation in annotations:
            events = json.loads(json.dumps(annotation["events"]))
            sentences = [
                element["content"]
                for event in events
                for element in event["visual_elements"]
                if rng.random() < 0.6
            ]
            while sum(len(sentence.split()) for sentence in sentences) < words:
                place = rng.randrange(len(sentences) + 1)
                sentences.insert(place, _sentence(rng, rng.choice(_TYPES)))
            line = {"index": annotation["index"], "caption": " ".join(sentences), "model": "bench"}
            file.write(json.dumps(line) + "\n")
