"""A graded run as later steps read it: `grades.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from capeval.files.reading import parse_json, read_text
from capeval.files.validation import validated
from capeval.mcq.find_run import GRADES
from capeval.mcq.grades import GradedItem, Grades, Group
from capeval.text import counted, cut


@dataclass(frozen=True)
class GroupAccuracy:
    """The accuracy of a group of questions with its 95% interval, and that of its baselines."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    baselines: Mapping[str, float | None]

    @classmethod
    def of(cls, group: Group) -> GroupAccuracy:
        """Return the accuracy of a group of grades.json."""
        one = group.accuracy
        return cls(one.value, one.low, one.high, group.n, group.baselines)


@dataclass(frozen=True)
class GradedRun:
    """One run's answers, read by one strategy.

    Attributes
    ----------
    path : of its grades.json
    signature : one line that identifies what was graded and how
    settings : the strategy, the convention and what they were set to
    by : accuracies of groups of questions, by tag and value
    answers : one for each question that was asked
    """

    path: Path
    signature: str
    settings: Mapping[str, Any]
    overall: GroupAccuracy
    by: Mapping[str, Mapping[str, GroupAccuracy]]
    answers: Sequence[GradedItem]

    @property
    def name(self) -> str:
        """The name of the run's folder, or of the file."""
        return self.path.parent.name if self.path.name == GRADES else self.path.stem

    @property
    def model(self) -> str | None:
        """The model's name, if the grades have it."""
        return self.settings.get("model")

    @property
    def read_by(self) -> str:
        """How the replies became answers: the strategy, and the benchmark's convention."""
        strategy, convention = self.settings.get("strategy"), self.settings.get("as")
        return f"{strategy}, as {convention}" if convention else str(strategy)

    @property
    def benchmark(self) -> str:
        """The benchmark's name; several are joined."""
        return "+".join(dict.fromkeys(one.benchmark for one in self.answers))


def read_graded_run(path: Path) -> GradedRun:
    """Read one grades.json; InputError if it is not one."""
    found = validated(Grades, parse_json(read_text(path), file=path), file=path, where="")
    by = {
        tag: {name: GroupAccuracy.of(group) for name, group in groups.items()}
        for tag, groups in found.by.items()
    }
    overall = GroupAccuracy.of(found.overall)
    return GradedRun(path, found.signature, found.settings, overall, by, found.items)


class Shown(NamedTuple):
    """What a model saw of a video: multi, single, picked, shuffled or blind, and its label."""

    role: str
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
