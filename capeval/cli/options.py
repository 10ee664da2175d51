"""Reading option values that typer has no type for."""

from __future__ import annotations

from dataclasses import dataclass

from capeval.errors import UsageError

__all__ = ["Allowance", "indexes"]


@dataclass(frozen=True)
class Allowance:
    """How many may stay undone: a number, or a share of all."""

    number: float
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
            number = float(text.strip().removesuffix("%"))
        except ValueError:
            number = -1.0
        whole = share or number == int(number) if abs(number) < 1e12 else False
        if not (number >= 0 and whole and (not share or number <= 100)):
            raise UsageError(
                f"{option}: {text!r} must be a number such as 5 or a percentage such as 0.5%"
            )
        return cls(number, share)

    def allows(self, undone: int, total: int) -> bool:
        """Say whether so many may stay undone."""
        return undone <= (self.number / 100 * total if self.is_share else self.number)


def indexes(values: list[str] | None) -> list[str]:
    """Return the indexes of a repeatable option that also takes commas."""
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]
