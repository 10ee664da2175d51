"""The files that the TUNA benchmark publishes, where they lie beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from capeval.files.annotations import load_annotations
from capeval.files.captions import read_captions

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
METADATA = DATA / "tuna_example_metadata.json"
SUBMISSION = DATA / "tuna_example_submission.json"

pytestmark = pytest.mark.skipif(
    not (METADATA.is_file() and SUBMISSION.is_file()),
    reason=f"{METADATA.name} and {SUBMISSION.name} are not in {DATA}",
)


def test_published_metadata_loads() -> None:
    annotations = load_annotations(METADATA)
    (example,) = [each for each in annotations if each.index == "TUNA_0348"]
    assert example.domain == "Film"
    assert example.visual_characteristic == ("High-Dynamic", "Multi-Scene", "Multi-Subject")
    types = {element.type for event in example.events for element in event.visual_elements}
    assert types == {"camera", "scene", "action", "attribute"}


def test_a_published_submission_loads() -> None:
    captions = read_captions(SUBMISSION, ()).captions
    assert captions[0].index == "TUNA_0001"
    assert not any(caption.is_empty for caption in captions)
