"""The layout of `grades.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from capeval.schema.question import Tag


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


class StrategyGrades(_Part):
    """The result of one strategy among those that are compared."""

    select: str
    published: bool
    accuracy: Accuracy
    accuracy_answered: float | None
    n: int
    answered: int
    by_chance: int
    failed: int
    unlike_exact: int
    decided_by: dict[str, int]


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
    strategies : every strategy, with `--select all`
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
    strategies: list[StrategyGrades] = Field(default_factory=list)
    captioning: dict[str, Any] | None = None
    items: list[GradedItem]

    def __repr__(self) -> str:
        # The items of a benchmark would fill megabytes.
        return f"Grades({self.signature!r})"
