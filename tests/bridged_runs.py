"""Generated runs by two imitated judges, like those of TUNA, for tests, benchmarks and the docs.

`python -m tests.bridged_runs FOLDER` writes the example of `docs/bridging.md`: six systems, which
`old-judge` has judged on 100 random videos of 300 and `new-judge` on all, and a seventh, which only
`new-judge` has judged.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capeval.files.jsonl import dumps
from capeval.files.judgments import caption_hash, reference_hash, write_judgments
from capeval.runs.drawn_videos import draw
from capeval.runs.folder import JudgeFolder
from capeval.runs.verdicts import summarise
from capeval.schema import RELATIONS, Annotation, Caption, Inputs, Provenance, Scored

__all__ = ["NEW", "OLD", "World", "write_world"]

OLD = Provenance(judge="old-judge", prompts="old-prompts@111111", models=("old-1",))
NEW = Provenance(judge="new-judge", prompts="new-prompts@222222", models=("new-1",))
TYPES = ("camera", "scene", "action", "attribute")
_EASE = (-0.5, 0.1, 0.3, -0.2)
_SHARES = (0.16, 0.22, 0.36, 0.26)
# What a judge says of an element that is truly entailed, lacking or contradicted, in order.
_OLD = ((0.93, 0.05, 0.02), (0.04, 0.92, 0.04), (0.03, 0.12, 0.85))
_NEW = ((0.88, 0.09, 0.03), (0.08, 0.88, 0.04), (0.06, 0.16, 0.78))
_TRUTH = ("entailment", "lack", "contradiction")


class World:
    """Annotated videos of about 17 elements, and the labels of two judges on every system.

    `labels[judge]` are (systems, videos, elements) places in entailment, lack, contradiction.
    """

    def __init__(self, quality: Sequence[float], videos: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        sizes = rng.poisson(13, videos) + 4
        shape = (videos, int(sizes.max()))
        types = rng.choice(4, p=_SHARES, size=shape)
        weights = rng.choice([1, 2, 3], p=[0.3, 0.4, 0.3], size=shape)
        self.annotations = [
            _annotation(f"V{at:04d}", types[at, :size], weights[at, :size])
            for at, size in enumerate(sizes)
        ]
        k = len(quality)
        logit = np.asarray(quality)[:, None, None] + rng.normal(0, 0.6, videos)[None, :, None]
        logit = logit + rng.normal(0, 0.3, (k, videos))[:, :, None] + np.array(_EASE)[types]
        entailed = 1 / (1 + np.exp(-logit))
        truth = _drawn(rng, np.stack([entailed, 0.78 * (1 - entailed), 0.22 * (1 - entailed)], -1))
        self.sizes = sizes
        self.labels = {
            "old": self._judged(rng, truth, np.array(_OLD)),
            "new": self._judged(rng, truth, np.array(_NEW)),
        }

    def _judged(
        self, rng: np.random.Generator, truth: NDArray[np.int64], confusion: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        # Each judge is lenient on some videos and strict on others.
        chances = confusion[truth]
        lenient = np.exp(rng.normal(0, 0.4, truth.shape[1]))
        chances = chances * np.stack([lenient, lenient**0, lenient**0], -1)[None, :, None]
        return _drawn(rng, chances / chances.sum(axis=-1, keepdims=True))

    def judgments(
        self, judge: str, system: int, *, only: Sequence[str] | None = None
    ) -> list[Scored]:
        """Return the verdicts of one judge on one system, as they are stored."""
        chosen = None if only is None else {*only}
        provenance = OLD if judge == "old" else NEW
        found = []
        for at, annotation in enumerate(self.annotations):
            if chosen is not None and annotation.index not in chosen:
                continue
            labels = [_TRUTH[n] for n in self.labels[judge][system, at, : self.sizes[at]]]
            caption = Caption(index=annotation.index, caption=f"Caption {annotation.index}.")
            relations, first = [], 0
            for event in annotation.events:
                last = first + len(event.visual_elements)
                relations.append(tuple(labels[first:last]))
                first = last
            events = len(annotation.events)
            found.append(
                Scored(
                    index=annotation.index,
                    candidate_events=tuple(f"Event {n}." for n in range(events)),
                    matches=tuple(range(1, events + 1)),
                    relations=tuple(relations),
                    inputs=Inputs(
                        judge=provenance.judge[:3],
                        caption=caption_hash(caption),
                        reference=reference_hash(annotation),
                    ),
                    provenance=provenance,
                )
            )
        assert {label for one in found for e in one.relations for label in e} <= {*RELATIONS}
        return found


def _drawn(rng: np.random.Generator, chances: NDArray[np.float64]) -> NDArray[np.int64]:
    """Draw a place of the last axis with these chances."""
    ends = chances.cumsum(axis=-1)[..., :-1]
    places: NDArray[np.int64] = (rng.random(chances.shape[:-1])[..., None] > ends).sum(axis=-1)
    return places


def _annotation(index: str, types: NDArray[np.int64], weights: NDArray[np.int64]) -> Annotation:
    elements = [
        {"content": f"Element {n} of {index}.", "type": TYPES[of], "weight": int(weight)}
        for n, (of, weight) in enumerate(zip(types, weights, strict=True), start=1)
    ]
    parts = [elements[at : at + 5] for at in range(0, len(elements), 5)]
    return Annotation.model_validate(
        {
            "index": index,
            "visual_characteristic": "High-Dynamic" if int(index[1:]) % 2 else "Low-Dynamic",
            "events": [
                {"event": f"Event {n} of {index}.", "visual_elements": part}
                for n, part in enumerate(parts, start=1)
            ],
        }
    )


def write_world(
    world: World,
    runs: Path,
    names: Sequence[str],
    *,
    old: Sequence[str],
    anchors: int | None = None,
    seed: int = 0,
) -> None:
    """Write runs as `capeval judge` and `capeval bridge collect` leave them.

    Parameters
    ----------
    names : of the systems
    old : the systems that the old judge has judged
    anchors : on so many random videos; on all if None
    """
    annotations = runs.parent / "annotations.json"
    annotations.parent.mkdir(parents=True, exist_ok=True)
    annotations.write_text(json.dumps([one.model_dump() for one in world.annotations]))
    indexes = [one.index for one in world.annotations]
    for system, name in enumerate(names):
        run = runs / name
        run.mkdir(parents=True)
        captions = [{"index": index, "caption": f"Caption {index}."} for index in indexes]
        (run / "captions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in captions))
        manifest = {"annotations": {"path": str(annotations.absolute())}}
        (run / "manifest.json").write_text(json.dumps(manifest))
        drawn = None if anchors is None else draw(indexes, anchors, seed)
        _write(world, run / "new-judge@new-prompts", "new", system, None)
        if name in old:
            folder = run / "old-judge@old-prompts"
            _write(world, folder, "old", system, None if drawn is None else drawn.indexes)
            if drawn is not None:
                drawn.write(JudgeFolder(folder))


def _write(world: World, folder: Path, judge: str, system: int, only: Sequence[str] | None) -> None:
    folder.mkdir()
    verdicts = world.judgments(judge, system, only=only)
    write_judgments(folder / "judgments.jsonl", verdicts)
    captioned = len(world.annotations)
    scores = summarise(world.annotations, verdicts, captioned=captioned, seed=0, draws=200)
    (folder / "scores.json").write_text(dumps(scores.model_dump(mode="json"), indent=1) + "\n")


def main(folder: Path) -> None:
    """Write the example of the docs."""
    names = [f"system-{letter}" for letter in "abcdefg"]
    world = World([-1.2, -0.7, -0.2, 0.2, 0.6, 1.0, 0.4], 300, seed=4)
    write_world(world, folder / "runs", names, old=names[:6], anchors=100)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
