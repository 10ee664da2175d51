"""The packaged table of models that can judge: when they are retired, and how they reason."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

TABLE = Path(__file__).with_name("judges.toml")
SNAPSHOT = re.compile(r"-\d{4}-\d{2}-\d{2}$")

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model reasons before it answers: the documented values of `reasoning_effort`."""

# Of the efforts, those with which a model hardly reasons, the least first.
LEAST: tuple[Effort, ...] = ("none", "minimal")


def today() -> date:
    """Return the current day in UTC."""
    return datetime.now(UTC).date()


class JudgeModel(BaseModel):
    """What is documented about one model that can judge; None is unknown.

    `shutdown` is the first day without the model, and `replacement` what its provider recommends
    instead. `temperature` is accepted, refused, or refused "unless reasoning" is switched off;
    `efforts` are the values of `reasoning_effort` that it accepts, and `default_effort` is the one
    without a value. `serve` is the command line that serves open weights; without one, the entry
    is about api.openai.com.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    aliases: tuple[str, ...] = ()
    shutdown: date | None = None
    replacement: str | None = None
    temperature: Literal["accepted", "refused", "unless reasoning"] | None = None
    efforts: tuple[Effort, ...] = ()
    default_effort: Effort | None = None
    serve: str | None = None

    @property
    def days_left(self) -> int | None:
        """Days until the shutdown; 0 or less is a retired model."""
        return None if self.shutdown is None else (self.shutdown - today()).days

    @property
    def is_retired(self) -> bool:
        """Whether the model is no longer offered."""
        return self.days_left is not None and self.days_left <= 0

    @property
    def successor(self) -> str | None:
        """The model that the provider recommends instead, and that has not ended itself."""
        following = find_judge(self.replacement) if self.replacement else None
        if following is not None and following.is_retired:
            return following.successor
        return self.replacement

    @property
    def reasons_by_default(self) -> bool:
        """Whether the model reasons without being asked to, or may.

        One that refuses a temperature reasons, so it may where its own effort is not documented.
        """
        if self.default_effort is None:
            return self.temperature in ("refused", "unless reasoning")
        return self.default_effort != "none"

    @property
    def least_effort(self) -> Effort | None:
        """The effort to ask for by default: none or minimal reasoning, if the model would reason.

        None where nothing is to be sent: the model does not reason by itself, always reasons, or
        takes a temperature while it does.
        """
        if self.temperature in (None, "accepted") or self.default_effort in (None, *LEAST):
            return None
        return next((effort for effort in LEAST if effort in self.efforts), None)


@cache
def judge_models() -> Mapping[str, JudgeModel]:
    """Return the packaged entries by name."""
    tables = tomllib.loads(TABLE.read_text(encoding="utf-8"))["judges"]
    return {name: JudgeModel(name=name, **table) for name, table in tables.items()}


def find_judge(model: str) -> JudgeModel | None:
    """Return the entry of a model, by its name, an alias or its undated name.

    >>> find_judge("openai/gpt-4o").name, find_judge("gpt-5-mini-2025-08-07").name
    ('gpt-4o-2024-08-06', 'gpt-5-mini')
    >>> find_judge("my-own-model") is None
    True
    """
    entries = judge_models()
    by_alias = {alias: entry for entry in entries.values() for alias in entry.aliases}
    found = (entries.get(name) or by_alias.get(name) for name in names_of(model))
    return next((entry for entry in found if entry), None)


def names_of(model: str) -> tuple[str, ...]:
    """Return the names under which a model may be listed: its own first, the undated one last."""
    bare = model.removeprefix("openai/")
    return (model, bare, SNAPSHOT.sub("", bare))
