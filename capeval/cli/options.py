"""Options that several commands share, and values that typer has no type for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from capeval.errors import UsageError
from capeval.options import LIMITS, OUTPUT


def optional(
    metavar: str, text: str, *names: str, panel: str | None = None, **limits: float
) -> Any:
    """Return an option without a default value to show, with its help `text`.

    `names` are by default the parameter's; `limits` are the `min` and `max` of a number.
    """
    shown: dict[str, Any] = {"show_default": False, "rich_help_panel": panel, **limits}
    return typer.Option(*names, metavar=metavar, help=text, **shown)


Yes = Annotated[
    bool,
    typer.Option(
        "--yes", "-y", help="Do not ask before spending more than $1.", rich_help_panel=LIMITS
    ),
]
JudgedRuns = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN",
        help="Judged runs: names under runs/, folders, judges' folders, judgments.jsonl or "
        "TUNA result files.",
        show_default=False,
    ),
]
WhichJudge = Annotated[
    str | None,
    optional("NAME", "Which of several judges: the name of its folder, or the beginning of it."),
]
RunAnnotations = Annotated[
    str | None,
    optional(
        "FILE",
        "Annotations (JSON or JSONL), or 'sample' for the bundled ones. By default those that a "
        "run names.",
    ),
]
IgnoreUnknown = Annotated[
    bool, typer.Option("--ignore-unknown", help="Skip videos without an annotation.")
]
Human = Annotated[Path | None, optional("FILE", "Human ratings or labels.")]
Resamples = Annotated[
    int | None,
    optional(
        "N",
        "Bootstrap resamples and permutations. By default 10,000; in correlate 2,000 for p-values "
        "and 1,000 for comparisons.",
        min=99,
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the statistics.")]
Runs = Annotated[Path, typer.Option("--runs", metavar="DIR", help="The folder of the runs.")]
OutFile = Annotated[
    Path | None, optional("FILE", "Write the result to this file.", "--out", panel=OUTPUT)
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print everything as JSON, alone on stdout.", rich_help_panel=OUTPUT
    ),
]
TableFormat = Annotated[
    Literal["table", "markdown", "latex"] | None,
    optional(
        "FORMAT",
        "Format of the tables: table, markdown or latex. By default table.",
        "--format",
        panel=OUTPUT,
    ),
]
Full = Annotated[
    bool,
    typer.Option(
        "--full", help="Print everything, not only the first screen.", rich_help_panel=OUTPUT
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print only errors, and warnings about money or lost work.",
        rich_help_panel=OUTPUT,
    ),
]

RENAMED = {
    "anyway": "allow-mismatch",
    "auto": "metric",
    "draws": "resamples",
    "metric-cols": "metric-columns",
}
"""Options by their old names, which are still accepted."""


def check_format(form: str | None, *, as_json: bool) -> None:
    """Refuse --format with --json.

    Raises
    ------
    UsageError
        Both are given.
    """
    if as_json and form is not None:
        raise UsageError("--format is for tables, and --json prints none; omit one of them")


@dataclass(frozen=True)
class Allowance:
    """How many items may remain undone: a number, or a percentage of all."""

    number: Decimal
    is_share: bool

    @classmethod
    def read(cls, text: str, option: str = "--max-unscored") -> Allowance:
        """Parse `5` or `0.5%`, as given to `option`.

        Raises
        ------
        UsageError
            It is neither.
        """
        share = text.strip().endswith("%")
        try:
            number = Decimal(text.strip().removesuffix("%"))
        except InvalidOperation:
            number = Decimal("NaN")
        if (
            not number.is_finite()
            or number < 0
            or (number > 100 if share else number != number.to_integral_value())
        ):
            raise UsageError(
                f"{option}: {text!r} must be a number such as 5 or a percentage such as 0.5%"
            )
        return cls(number, share)

    def allows(self, undone: int, total: int) -> bool:
        """Return whether so many items may remain undone."""
        return 100 * undone <= self.number * (total if self.is_share else 100)


def listed(values: Sequence[str] | None, option: str) -> list[str]:
    """Return the values of a repeatable option that also takes commas.

    Raises
    ------
    UsageError
        The option was given without any value.

    >>> listed(["a, b", "c"], "--only")
    ['a', 'b', 'c']
    """
    found = [part.strip() for value in values or () for part in value.split(",") if part.strip()]
    if values and not found:
        raise UsageError(f"{option} is empty; name at least one, or omit it")
    return found
