"""Options that several commands share, and values that typer has no type for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Literal

import typer

from capeval.errors import UsageError

INPUTS, LIMITS, OUTPUT = "Inputs", "Limits", "Output"
"""Panels of the help text."""

Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="INDEX",
        help="Only these indexes; repeat the option or separate them by commas.",
        show_default=False,
        rich_help_panel=INPUTS,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Only the first N videos.",
        show_default=False,
        rich_help_panel=INPUTS,
    ),
]
MaxConcurrency = Annotated[
    int,
    typer.Option(
        min=1,
        max=4096,
        metavar="N",
        help="Maximum number of parallel calls.",
        rich_help_panel=LIMITS,
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        min=0.1,
        max=86_400,
        metavar="SECONDS",
        help="Maximum duration of one call.",
        rich_help_panel=LIMITS,
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="DOLLARS",
        help="Stop calling when this much is spent, in US dollars; implies --yes.",
        show_default=False,
        rich_help_panel=LIMITS,
    ),
]
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
    typer.Option(
        metavar="NAME",
        help="Which of several judges: the name of its folder, or the beginning of it.",
        show_default=False,
    ),
]
RunAnnotations = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Annotations (JSON or JSONL), or 'sample' for the bundled ones. By default those that "
        "a run names.",
        show_default=False,
    ),
]
IgnoreUnknown = Annotated[
    bool, typer.Option("--ignore-unknown", help="Skip videos without an annotation.")
]
Human = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Human ratings or labels.", show_default=False),
]
Resamples = Annotated[
    int | None,
    typer.Option(
        min=99,
        metavar="N",
        help="Bootstrap resamples and permutations. By default 10,000; in correlate 2,000 for "
        "p-values and 1,000 for comparisons.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the statistics.")]
Runs = Annotated[Path, typer.Option("--runs", metavar="DIR", help="The folder of the runs.")]
OutFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write the result to this file.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print everything as JSON, alone on stdout.", rich_help_panel=OUTPUT
    ),
]
TableFormat = Annotated[
    Literal["table", "markdown", "latex"] | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Format of the tables: table, markdown or latex. By default table.",
        show_default=False,
        rich_help_panel=OUTPUT,
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


def indexes(values: Sequence[str]) -> list[str]:
    """Return the indexes that --only names.

    Raises
    ------
    UsageError
        The option was given without any index.
    """
    return listed(values, "--only")
