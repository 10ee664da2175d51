"""What `capeval mcq temporal` finds, as it prints it with --json. Numbers are fractions."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from capeval.mcq.temporal import Role


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MeasureResult(_Part):
    """One measure of some questions.

    Attributes
    ----------
    value : a relative change, or a share; None for the reason in `reason`
    low, high : the 95% interval over videos; None for the reason in `interval_reason`
    upper, lower : how many of `questions` the two runs answer correctly
    questions : how many are scored in both runs
    videos : how many videos these are about
    """

    value: float | None
    reason: str | None
    low: float | None
    high: float | None
    interval_reason: str | None
    upper: int
    lower: int
    questions: int
    videos: int


class RoleAccuracy(_Part):
    """How one run does on some questions, over all that are scored in it."""

    accuracy: float | None
    questions: int


class TemporalBucket(_Part):
    """Accuracies by role, and measures by name, of some questions."""

    accuracies: dict[Role, RoleAccuracy]
    measures: dict[str, MeasureResult]


class RoleRun(_Part):
    """A run in its role; `label` is what it shows of a video."""

    name: str
    path: str
    label: str
    signature: str


class ModelTemporal(_Part):
    """The diagnostics of one model: of all questions, and by the values of a tag.

    `unpaired` counts the questions that not all of the runs asked.
    """

    model: str
    runs: dict[Role, RoleRun]
    overall: TemporalBucket
    by: dict[str, TemporalBucket]
    unpaired: int


class AverageMeasure(_Part):
    """The mean of the models' values."""

    value: float | None
    reason: str | None


class TemporalAverage(_Part):
    """Means over models of each measure, of all questions and by the values of the tag."""

    overall: dict[str, AverageMeasure]
    by: dict[str, dict[str, AverageMeasure]]


class TemporalResult(_Part):
    """The contents of `capeval mcq temporal --json`.

    Attributes
    ----------
    way : the tag that questions are grouped by; None without groups
    average : None for a single model
    """

    benchmark: str
    way: str | None
    models: tuple[ModelTemporal, ...]
    average: TemporalAverage | None
    resamples: int
    seed: int
    notes: tuple[str, ...]
