"""The bundled sample holds what its README promises."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import av
import pytest

from capeval.files.annotations import load_annotations
from capeval.files.captions import load_captions
from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES, RELATIONS

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "annotations" / "sample"
ANNOTATIONS = load_annotations(SAMPLE / "annotations.json")
SYSTEMS = ("confused", "terse", "thorough")


def elements() -> list[tuple[str, str]]:
    return [
        (annotation.index, f"{e}.{k}")
        for annotation in ANNOTATIONS
        for e, event in enumerate(annotation.events, start=1)
        for k in range(1, len(event.visual_elements) + 1)
    ]


def test_annotations_cover_every_type_weight_and_characteristic() -> None:
    found = [e for a in ANNOTATIONS for event in a.events for e in event.visual_elements]
    assert len(ANNOTATIONS) >= 8
    assert {element.type for element in found} == set(ELEMENT_TYPES)
    assert {element.weight for element in found} == {1, 2, 3}
    shown = Counter(kind for a in ANNOTATIONS for kind in a.visual_characteristic)
    assert set(shown) == set(CHARACTERISTICS)
    assert all(
        ("Low-Dynamic" in a.visual_characteristic) != ("High-Dynamic" in a.visual_characteristic)
        for a in ANNOTATIONS
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_video_has_a_caption_of_every_captioner(system: str) -> None:
    captions = load_captions(SAMPLE / "captions" / f"{system}.jsonl")
    assert {c.index for c in captions} == {a.index for a in ANNOTATIONS}
    assert {c.model for c in captions} == {f"sample-{system}"}


def test_every_element_of_every_caption_has_one_label() -> None:
    with (SAMPLE / "human.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["video_id", "system", "element_id", "rater", "label"]
    assert {row["label"] for row in rows} <= set(RELATIONS)
    labelled = Counter((row["system"], row["video_id"], row["element_id"]) for row in rows)
    assert set(labelled.values()) == {1}
    assert set(labelled) == {
        (f"sample-{system}", *element) for system in SYSTEMS for element in elements()
    }


@pytest.mark.parametrize("annotation", ANNOTATIONS, ids=lambda a: a.index)
def test_every_clip_is_small_and_plays(annotation: object) -> None:
    name = getattr(annotation, "video", None)
    path = SAMPLE / "videos" / f"{name}.mp4"
    assert path.stat().st_size < 150_000
    with av.open(path) as clip:
        frames = sum(1 for _ in clip.decode(video=0))
    assert frames > 24
