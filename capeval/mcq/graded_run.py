"""A graded run as later steps read it: `grades.json`, and what its responses say of the frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool, StrictFloat

from capeval.errors import InputError
from capeval.files.reading import json_lines, parse_json, read_text
from capeval.files.validation import validated
from capeval.mcq.find_run import GRADES, RESPONSES
from capeval.schema.question import Tag
from capeval.text import shown


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
    rotation: int = 0
    frames: Mapping[str, JsonValue] = Field(default_factory=dict)
    tags: Mapping[str, Tag] = Field(default_factory=dict)


Share = Annotated[float, Field(strict=True, ge=0, le=1)]


class _Accuracy(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    value: Share | None
    # Intervals of the normal distribution can end outside 0 and 1.
    low: StrictFloat | None = None
    high: StrictFloat | None = None


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    accuracy: _Accuracy
    n: int = Field(strict=True, ge=0)
    baselines: Mapping[str, Share | None] = Field(default_factory=dict)


class _Grades(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    signature: str
    settings: Mapping[str, JsonValue] = Field(default_factory=dict)
    overall: _Group
    by: Mapping[str, Mapping[str, _Group]] = Field(default_factory=dict)
    items: tuple[GradedAnswer, ...] = Field(min_length=1)


@dataclass(frozen=True)
class GroupAccuracy:
    """The accuracy of a group of questions with its 95% interval, as grades.json has it."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    baselines: Mapping[str, float | None]


@dataclass(frozen=True)
class GradedRun:
    """One run's answers, read by one strategy.

    Attributes
    ----------
    name : of the run's folder, or of the file
    signature : one line that says how the accuracy was made
    settings : the strategy, the convention and what they were set to
    by : accuracies of groups of questions, by way and group
    answers : one for each question that was asked with its options as they are
    """

    name: str
    path: Path
    signature: str
    settings: Mapping[str, Any]
    overall: GroupAccuracy
    by: Mapping[str, Mapping[str, GroupAccuracy]]
    answers: tuple[GradedAnswer, ...]

    @property
    def model(self) -> str | None:
        """The model's name, if the grades have it."""
        found = self.settings.get("model")
        return found if isinstance(found, str) else None

    @property
    def benchmark(self) -> str:
        """The benchmark's name; several are joined."""
        return "+".join(dict.fromkeys(one.benchmark for one in self.answers if one.benchmark))


def read_graded_run(path: Path) -> GradedRun:
    """Read one grades.json, with frames and tags of the responses.jsonl next to it.

    Raises
    ------
    InputError
        It is not one, or a question is duplicated.
    """
    grades = validated(_Grades, parse_json(read_text(path), file=path), file=path, where="")
    answers = [one for one in grades.items if not one.rotation]
    beside = path.with_name(RESPONSES)
    if beside.is_file() and not any(one.frames or one.tags for one in answers):
        answers = _with_responses(answers, beside)
    seen: set[tuple[str, str]] = set()
    for one in answers:
        if (one.benchmark, one.id) in seen:
            raise InputError(f"{shown(one.id)} is duplicated", file=path, field="items")
        seen.add((one.benchmark, one.id))
    return GradedRun(
        name=path.parent.name if path.name == GRADES else path.stem,
        path=path,
        signature=grades.signature,
        settings=grades.settings,
        overall=_accuracy(grades.overall),
        by={
            way: {name: _accuracy(group) for name, group in groups.items()}
            for way, groups in grades.by.items()
        },
        answers=tuple(answers),
    )


def _with_responses(answers: Iterable[GradedAnswer], file: Path) -> list[GradedAnswer]:
    """Return answers with the frames and tags of the last line of each question."""
    known = {*GradedAnswer.model_fields, "question", "options", "reply", "reason", "likelihood"}
    found: dict[tuple[Any, Any], dict[str, Any]] = {}
    for _, line in json_lines(read_text(file), file=file):
        if isinstance(line, dict) and not line.get("rotation"):
            found[line.get("benchmark", ""), line.get("id")] = line
    whole = []
    for one in answers:
        line = found.get((one.benchmark, one.id), {})
        tags = {name: value for name, value in line.items() if name not in known}
        parts = one.model_dump() | {"frames": line.get("frames") or {}, "tags": tags}
        whole.append(validated(GradedAnswer, parts, file=file, where=f"id {shown(one.id)}"))
    return whole


def _accuracy(group: _Group) -> GroupAccuracy:
    found = group.accuracy
    return GroupAccuracy(found.value, found.low, found.high, group.n, group.baselines)
