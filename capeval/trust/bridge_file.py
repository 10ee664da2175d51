"""`bridge.json`: what is needed to carry scores from one judge to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from capeval.errors import InputError
from capeval.files.jsonl import dumps, write_atomic
from capeval.files.judgments import short_hash
from capeval.files.reading import parse_json, read_text
from capeval.runs.folder import safe_name
from capeval.runs.verdicts import JudgeIdentity
from capeval.scoring import GROUPS
from capeval.scoring.result import Bridged, BridgeRefusal, ByType, ResultModel
from capeval.stats.bridge_line import FittedLine, Line, Refusal
from capeval.text import complaint, shown

SHORT = 6
"""Characters of a hash in a signature, as of the data."""

_LARGEST = 1e18
"""No figure of fractions is larger, and the square of this is still a number."""

_Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
_Figure = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)]
_Spread = Annotated[float, Field(ge=0, le=_LARGEST)]
# A mean of fractions may be off by the rounding of its sum.
_Score = Annotated[float, Field(ge=-1e-9, le=1 + 1e-9)]


class BridgeSide(ResultModel):
    """One of the two judges; `models` are the snapshots that answered."""

    folder: str
    judge: str
    prompts: str | None
    endpoint: str | None
    reasoning: str | None
    repeats: int = Field(ge=1)
    baseline: bool
    models: tuple[str, ...]

    @classmethod
    def of(cls, folder: str, identity: JudgeIdentity, models: tuple[str, ...]) -> Self:
        """Return a judge as the bridge records it."""
        return cls(
            folder=folder,
            judge=identity.judge,
            prompts=identity.prompts,
            endpoint=identity.endpoint,
            reasoning=identity.reasoning,
            repeats=identity.repeats,
            baseline=identity.baseline,
            models=models,
        )

    @property
    def label(self) -> str:
        """The judge as a signature has it: what answered, else what was asked for."""
        return "+".join(self.models) or self.judge

    @property
    def identity(self) -> tuple[object, ...]:
        """What two sides must share to be the same judge."""
        settings = (self.endpoint, self.reasoning, self.repeats, self.baseline)
        return self.judge, self.prompts, *settings


class BridgeAnchor(ResultModel):
    """One anchor system: its run, the SHA-256 of both files of verdicts, and its videos.

    `both` of the `N` videos that the new judge scored are scored by the old one too. `seed` is that
    of the draw, None where the videos were not drawn at random.
    """

    run: str
    old: str
    new: str
    both: int = Field(ge=0)
    N: int = Field(ge=0)
    seed: int | None


class BridgeMisfit(ResultModel):
    """How far an anchor is off the line of the others; see `LeftOutSystem`."""

    run: str
    shift: float | None
    error: float | None
    p: float | None
    adjusted: float | None


class LineFigures(ResultModel):
    """The fitted line; see `capeval.stats.bridge_line.Line`."""

    intercept: _Figure
    slope: _Figure
    s_res: _Spread
    ms_res: _Spread
    ms_video: _Spread
    center: _Score
    # Of scores that differ by no more than rounding errors, no line is made.
    sxx: float = Field(gt=1e-19, le=_LARGEST)
    low: _Score
    high: _Score

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.low <= self.center <= self.high:
            raise ValueError("center must be from low to high")
        return self


class BridgeLine(ResultModel):
    """The line of one measure and type; `means` are old and new scores, in the anchors' order."""

    line: LineFigures | None
    k: _Count
    n: _Count
    refusals: tuple[BridgeRefusal, ...]
    left_out: tuple[BridgeMisfit, ...]
    means: tuple[tuple[float, float], ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.line is not None and (self.k < 3 or self.n < 2):
            raise ValueError("no line can be fitted to so few systems or videos")
        if self.line is None and not self.refusals:
            raise ValueError("there is neither a line nor a refusal")
        if not all(isinstance(one.figures.get("system", ""), str) for one in self.refusals):
            raise ValueError("a refusal must name its system")
        return self

    def fitted(self) -> FittedLine:
        """Return the line for predictions."""
        line = None
        if self.line is not None:
            line = Line(**dict(self.line), systems=self.k, videos=self.n)
        refusals = tuple(Refusal(one.rule, one.figures) for one in self.refusals)
        return FittedLine(line, self.k, self.n, refusals)


class BridgeMeasures(ResultModel):
    """The lines of one type of elements."""

    precision: BridgeLine
    recall: BridgeLine
    f1: BridgeLine


class Bridge(ResultModel):
    """The content of `bridge.json`.

    `data` is the SHA-256 of the annotations; `shared` videos are scored by both judges in every
    anchor, `not_shared` in some only. `left_out` are runs that could not be anchors, with reasons.
    """

    format: Literal[1] = 1
    old: BridgeSide
    new: BridgeSide
    data: str
    annotated: int = Field(ge=1)
    anchors: tuple[BridgeAnchor, ...]
    shared: int = Field(ge=0)
    not_shared: int = Field(ge=0)
    left_out: dict[str, str]
    lines: ByType[BridgeMeasures]
    hash: str = ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for of in (getattr(self.lines, group) for group in GROUPS):
            for line in (of.precision, of.recall, of.f1):
                if line.k != len(self.anchors) or line.n > self.annotated:
                    raise ValueError("a line is of other anchors or videos than the bridge")
        return self

    @property
    def digest(self) -> str:
        """The hash of everything else."""
        return short_hash(self.model_dump(mode="json", exclude={"hash"}))

    def signed(self) -> Bridge:
        """Return the same with its hash."""
        return self.model_copy(update={"hash": self.digest})


def bridged_digest(bridged: Bridged) -> str:
    """Return the hash of everything else in bridged scores, by which an edit is found."""
    return short_hash(bridged.model_dump(mode="json", exclude={"hash"}))


def bridge_path(runs: Path, old: str, new: str) -> Path:
    """Return where the bridge between two judges' folders is stored: next to the runs."""
    # Of "." and "..", the parent is not the folder around them.
    around = (runs if runs.name not in ("", "..") else runs.resolve()).parent
    return around / "bridges" / safe_name(f"{old}<-{new}") / "bridge.json"


def write_bridge(file: Path, bridge: Bridge) -> None:
    """Write `bridge.json`, complete or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, dumps(bridge.model_dump(mode="json"), indent=1) + "\n")


def load_bridge(file: Path) -> Bridge:
    """Return the bridge in a file.

    Raises
    ------
    InputError
        It is missing, no strict JSON, no bridge, or was edited.
    """
    text = read_text(file)
    value = parse_json(text, file=file)
    if not isinstance(value, dict) or "lines" not in value:
        raise InputError(f"is no bridge.json: {shown(value)}", file=file)
    try:
        bridge = Bridge.model_validate_json(text, strict=True)
    except ValidationError as faults:
        field, message = complaint(faults)
        raise InputError(message, file=file, field=field[:200]) from None
    if bridge.hash != bridge.digest:
        raise InputError(
            "does not match the rest of the file, which was edited; make it again with "
            "`capeval bridge`",
            file=file,
            field="hash",
        )
    return bridge
