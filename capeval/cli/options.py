"""Options that several commands have, and reading values that typer has no type for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from capeval.errors import UsageError

INPUTS, LIMITS, OUTPUT = "Inputs", "Limits", "Output"
"""Panels of the help."""

Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="INDEX",
        help="Only these indexes (repeat, or separate by commas).",
        show_default=False,
        rich_help_panel=INPUTS,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, help="Only the first so many.", show_default=False, rich_help_panel=INPUTS),
]
MaxConcurrency = Annotated[
    int, typer.Option(min=1, max=4096, help="Calls at a time.", rich_help_panel=LIMITS)
]
Timeout = Annotated[
    float,
    typer.Option(min=0.1, max=86_400, help="Seconds for one call.", rich_help_panel=LIMITS),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="Stop calling after so many US dollars; implies --yes.",
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
        help="Which of several judges: its folder's name, or the beginning of it.",
        show_default=False,
    ),
]
RunAnnotations = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Annotations (JSON or JSONL); 'sample' for the bundled ones. Runs know their own.",
        show_default=False,
    ),
]
Runs = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where the runs are.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.", rich_help_panel=OUTPUT)]

N = TypeVar("N", bound=str)


@dataclass(frozen=True)
class Allowance:
    """How many may stay undone: a number, or a share of all."""

    number: Decimal
    is_share: bool

    @classmethod
    def read(cls, text: str, option: str = "--max-unscored") -> Allowance:
        """Read `5` or `0.5%`, as given to `option`.

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
        """Say whether so many may stay undone."""
        return 100 * undone <= self.number * (total if self.is_share else 100)


def indexes(values: Sequence[str]) -> list[str]:
    """Return the indexes of a repeatable option that also takes commas.

    Raises
    ------
    UsageError
        The option was given without any index.
    """
    found = [part.strip() for value in values for part in value.split(",") if part.strip()]
    if values and not found:
        raise UsageError("--only names no index")
    return found


def chosen(values: Sequence[str], known: Sequence[N], option: str) -> list[N]:
    """Return what a repeatable option, which also takes commas, chooses of what is known.

    Raises
    ------
    UsageError
        It names nothing, or something unknown.

    >>> chosen(["b,a", "b"], ["a", "b"], "--some")
    ['b', 'a']
    """
    # Not above: `capeval --help` needs these options and no file.
    from capeval.text import nearest, shown

    by_name = {str(one): one for one in known}
    found = [part.strip() for value in values for part in value.split(",") if part.strip()]
    for name in found:
        if name not in by_name:
            raise UsageError(
                f"{option}: {shown(name)} is unknown; one of {', '.join(known)}"
                f"{nearest(name, known)}"
            )
    if not found:
        raise UsageError(f"{option} names nothing; one of {', '.join(known)}")
    return [by_name[name] for name in dict.fromkeys(found)]
