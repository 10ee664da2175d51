"""What a run showed of each video, read from the frames of its responses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from capeval.errors import InputError
from capeval.mcq.graded_run import GradedRun
from capeval.mcq.temporal import Role
from capeval.text import counted, cut, listed


class Shown(NamedTuple):
    """A run's part in the comparisons, and how tables head its accuracy."""

    role: Role
    label: str


def shown_by(frames: Mapping[str, Any]) -> Shown | None:
    """Return what the frames of a response say; None if they say nothing.

    >>> shown_by({"policy": "16", "indices": [0, 9, 18]})
    Shown(role='multi', label='16 frames')
    >>> shown_by({"policy": "16", "order": "shuffled", "indices": [9, 0, 18]})
    Shown(role='shuffled', label='16 shuffled')
    >>> shown_by({"single": "random", "indices": [9]})
    Shown(role='single', label='random frame')
    >>> shown_by({"single": "column:best_frame", "indices": [9]})
    Shown(role='picked', label='picked frame')
    """
    policy, single = frames.get("policy"), frames.get("single")
    indices = frames.get("indices")
    if frames.get("blind") or policy in ("none", "blind"):
        return Shown("blind", "no frame")
    if isinstance(single, str | int) and not isinstance(single, bool):
        if str(single).startswith("column:"):
            return Shown("picked", "picked frame")
        return Shown("single", f"frame {single}" if str(single).isdecimal() else f"{single} frame")
    count = len(indices) if isinstance(indices, list) else None
    if count == 1 and policy in (None, "1", 1):
        return Shown("single", "middle frame" if policy else "1 frame")
    if policy is None and count is None:
        return None
    number = str(policy)
    many = counted(int(number), "frame") if number.isdecimal() else str(policy or "frames")
    if frames.get("order") == "shuffled":
        return Shown("shuffled", f"{many.removesuffix(' frames')} shuffled")
    return Shown("multi", cut(many, 20))


def run_shows(run: GradedRun) -> Shown | None:
    """Return what a run showed; None if its grades do not say.

    Raises
    ------
    InputError
        Its questions were asked in several ways.
    """
    found = Counter(shown_by(item.frames) for item in run.answers)
    del found[None]
    if len(found) > 1:
        labels = listed([one.label for one in found if one])
        raise InputError(
            f"its questions were asked with {labels}; grade one of them at a time", file=run.path
        )
    return next(iter(found), None)
