"""The layout of `grades.json`, and how later steps read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from capeval.files.reading import parse_json, read_text
from capeval.files.validation import validated
from capeval.mcq.find_run import GRADES
from capeval.runs.tested_model import tested_model_warnings
from capeval.schema.question import Tag
from capeval.text import counted, cut


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Accuracy(_Part):
    """A share of right answers with its 95% interval over videos; None if there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


class Group(_Part):
    """The result of a group of questions.

    Attributes
    ----------
    accuracy : over all replies that count; one that yields no answer is wrong
    n, correct : replies that count, and right answers among them
    answered : replies that yield an answer
    accuracy_answered : right answers among those
    by_chance : answers that were chosen at random
    videos : how many different videos there are
    baselines : accuracy of chance and of the frequent choice
    """

    accuracy: Accuracy
    n: int
    correct: int
    answered: int
    accuracy_answered: float | None
    by_chance: int
    videos: int
    baselines: dict[str, float | None]


class Counts(_Part):
    """How many replies there are of each kind.

    Attributes
    ----------
    questions : different questions that should have been asked, where they are known
    responses : lines of the responses file
    missing : questions without a line
    failed : responses that cannot be graded, such as failed calls; they are not counted
    scored : the others
    empty : completed calls without a text; wrong
    answered, no_answer : replies that yield an answer, and those that do not
    by_chance : answers that were chosen at random
    counted : replies that the accuracy is over; a convention may leave out some that are scored
    unlike_exact : replies that the strategy and `exact` read differently
    """

    questions: int
    responses: int
    missing: int
    failed: int
    scored: int
    empty: int
    answered: int
    no_answer: int
    by_chance: int
    counted: int
    unlike_exact: int


@dataclass(slots=True)
class GradedItem:
    """One response and how it was graded; `correct` is None where it is not counted.

    `frames` and `tags` are those of the response: the temporal diagnostics compare runs by them.
    """

    id: str
    benchmark: str
    video: str
    answer: str
    choice: str | None
    correct: bool | None
    rule: str
    by_chance: bool
    exact: str | None
    reply: str | None
    reason: str | None
    frames: Mapping[str, Any]
    tags: Mapping[str, Tag]


class Grades(_Part):
    """The accuracy of one model's responses: `grades.json`.

    Attributes
    ----------
    signature : one line that identifies what was graded and how
    settings : the strategy, the convention and what they were set to
    by : the same for each group of questions, by tag and value
    changes : by flag, accuracy where it is true divided by accuracy where it is false, minus 1
    decided_by : how many replies each rule decided
    baselines : of the whole set; the same are in each group
    strategies : with `--select all` the grades by every strategy, without groups and items
    captioning : F1 of the same model's captions by element type, where it was named
    items : every response
    """

    signature: str
    settings: dict[str, Any]
    counts: Counts
    overall: Group
    by: dict[str, dict[str, Group]]
    changes: dict[str, Accuracy] = Field(default_factory=dict)
    decided_by: dict[str, int]
    baselines: dict[str, Any]
    strategies: list[Grades] = Field(default_factory=list)
    captioning: dict[str, Any] | None = None
    items: list[GradedItem]

    def __repr__(self) -> str:
        # The items of a benchmark would fill megabytes.
        return f"Grades({self.signature!r})"


class GradedRun(Grades):
    """The grades of one run as later steps read them; `path` is their file."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the run's folder, or of the file."""
        return self.path.parent.name if self.path.name == GRADES else self.path.stem

    @property
    def model(self) -> str | None:
        """The model's name, if the grades have it."""
        return self.settings.get("model")

    @property
    def warnings(self) -> list[str]:
        """That the model drafted or filtered the questions, if so."""
        tags = (one.tags for one in self.items)
        return tested_model_warnings(self.name, "questions", tags, [self.model])

    @property
    def read_by(self) -> str:
        """How the replies became answers: the strategy, and the benchmark's convention."""
        strategy, convention = self.settings.get("strategy"), self.settings.get("as")
        return f"{strategy}, as {convention}" if convention else str(strategy)

    @property
    def benchmark(self) -> str:
        """The benchmark's name; several are joined."""
        return "+".join(dict.fromkeys(one.benchmark for one in self.items))


def read_graded_run(path: Path) -> GradedRun:
    """Read one grades.json; InputError if it is not one."""
    found = validated(Grades, parse_json(read_text(path), file=path), file=path, where="")
    return GradedRun.model_construct(path=path, **dict(found))


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
