"""A graded run as later steps read it: `grades.json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    model_validator,
)

from capeval.errors import InputError
from capeval.files.reading import parse_json, read_text
from capeval.files.validation import validated
from capeval.mcq.find_run import GRADES
from capeval.schema.question import Tag
from capeval.text import counted, cut, shown


class GradedAnswer(BaseModel):
    """What became of the answer to a question.

    Attributes
    ----------
    correct : None if it is unscored
    frames : what the model was shown, as in responses.jsonl
    tags : the benchmark's own fields
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    video: str
    correct: StrictBool | None
    answer: str | None = None
    benchmark: str = ""
    frames: Mapping[str, Any] = Field(default_factory=dict)
    tags: Mapping[str, Tag] = Field(default_factory=dict)


Share = Annotated[float, Field(strict=True, ge=0, le=1)]


class GroupAccuracy(BaseModel):
    """The accuracy of a group of questions with its 95% interval, as grades.json has it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    value: Share | None
    # Intervals of the normal distribution can end outside 0 and 1.
    low: StrictFloat | None = None
    high: StrictFloat | None = None
    n: int = Field(strict=True, ge=0)
    baselines: Mapping[str, Share | None] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, group: Any) -> Any:
        if isinstance(group, dict) and isinstance(group.get("accuracy"), dict):
            return group | group["accuracy"]
        return group


class GradedRun(BaseModel):
    """One run's answers, read by one strategy.

    Attributes
    ----------
    path : of its grades.json
    signature : one line that says how the accuracy was made
    settings : the strategy, the convention and what they were set to
    by : accuracies of groups of questions, by way and group
    answers : one for each question that was asked
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    path: Path = Path()
    signature: str
    settings: Mapping[str, Any] = Field(default_factory=dict)
    overall: GroupAccuracy
    by: Mapping[str, Mapping[str, GroupAccuracy]] = Field(default_factory=dict)
    answers: tuple[GradedAnswer, ...] = Field(alias="items", min_length=1)

    @property
    def name(self) -> str:
        """The name of the run's folder, or of the file."""
        return self.path.parent.name if self.path.name == GRADES else self.path.stem

    @property
    def model(self) -> str | None:
        """The model's name, if the grades have it."""
        found = self.settings.get("model")
        return found if isinstance(found, str) else None

    @property
    def read_by(self) -> str:
        """How the replies became answers: the strategy, and the benchmark's convention."""
        strategy, convention = self.settings.get("strategy"), self.settings.get("as")
        if strategy is None:
            return self.signature
        return f"{strategy}, as {convention}" if convention else str(strategy)

    @property
    def benchmark(self) -> str:
        """The benchmark's name; several are joined."""
        return "+".join(dict.fromkeys(one.benchmark for one in self.answers if one.benchmark))


def read_graded_run(path: Path) -> GradedRun:
    """Read one grades.json.

    Raises
    ------
    InputError
        It is not one, or a question is duplicated.
    """
    run = validated(GradedRun, parse_json(read_text(path), file=path), file=path, where="")
    seen: set[tuple[str, str]] = set()
    for one in run.answers:
        if (one.benchmark, one.id) in seen:
            raise InputError(f"{shown(one.id)} is duplicated", file=path, field="items")
        seen.add((one.benchmark, one.id))
    return run.model_copy(update={"path": path})


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
