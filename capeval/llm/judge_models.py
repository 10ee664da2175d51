"""The catalogue of models that can judge: a packaged table, which the user's entries override."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from capeval.config import read_config
from capeval.errors import InputError
from capeval.schema.usage import Usage
from capeval.text import complaint, nearest, shown

TABLE = Path(__file__).with_name("judges.toml")
SNAPSHOT = re.compile(r"-\d{4}-\d{2}-\d{2}$")

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model reasons before it answers: the documented values of `reasoning_effort`."""
EFFORTS: tuple[Effort, ...] = get_args(Effort)

# Of the efforts, those with which a model hardly reasons, the least first.
LEAST: tuple[Effort, ...] = ("none", "minimal")


class Price(BaseModel):
    """US dollars for a million tokens; without `cached_input`, cached tokens cost as others.

    >>> Price(input=2.5, cached_input=1.25, output=10).cost(Usage(input_tokens=400_000))
    1.0
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    cached_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)

    def cost(self, usage: Usage) -> float:
        """Return what `usage` costs, in US dollars."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        cached_input = self.input if self.cached_input is None else self.cached_input
        fresh = (usage.input_tokens - cached) * self.input
        return (fresh + cached * cached_input + usage.output_tokens * self.output) / 1_000_000


_Name = Annotated[str, Field(min_length=1)]


class JudgeModel(BaseModel):
    """What is documented about one model that can judge; None is unknown.

    `snapshot` is the dated model that the name stands for, `price` that of `priced_on`, `shutdown`
    the first day without the model, announced on the day `announced`, and `replacement` what its
    provider recommends instead. `context` counts tokens. `temperature` is accepted, refused, or
    refused "unless reasoning" is switched off; `efforts` are the values of `reasoning_effort` that
    it accepts, and `default_effort` is the one without a value. Dates, and the rule for reasoning,
    are those of the service `provider`: "openai" is api.openai.com. `serve` is the command line
    that serves open weights.
    """

    # TOML has the types: neither `seed = "yes"` nor `price.input = true` is meant.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: _Name
    provider: Literal["openai"] | None = None
    aliases: tuple[_Name, ...] = Field(default=(), strict=False)
    snapshot: _Name | None = None
    price: Price | None = None
    priced_on: date | None = None
    shutdown: date | None = None
    announced: date | None = None
    replacement: str | None = None
    context: int | None = Field(default=None, ge=1)
    structured_output: Literal["json_schema", "json_object", "none"] | None = None
    temperature: Literal["accepted", "refused", "unless reasoning"] | None = None
    seed: bool | None = None
    efforts: tuple[Effort, ...] = Field(default=(), strict=False)
    default_effort: Effort | None = None
    open_weights: bool = False
    serve: str | None = None
    note: str | None = None

    @property
    def other_names(self) -> tuple[str, ...]:
        """The names besides its own: the snapshot, and the aliases."""
        return (*([self.snapshot] if self.snapshot else []), *self.aliases)

    def is_retired(self, today: date) -> bool:
        """Return whether the model is no longer offered."""
        return self.shutdown is not None and self.shutdown <= today

    @property
    def reasons_by_default(self) -> bool:
        """Return whether the model reasons without being asked to, or may.

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


Catalogue = Mapping[str, JudgeModel]


def packaged_judges() -> Catalogue:
    """Return the packaged entries by name."""
    return _packaged()


def read_judges(user_file: Path | None = None) -> dict[str, JudgeModel]:
    """Return all entries by name; `[judges."NAME"]` tables of `user_file` change or add some.

    Raises `InputError`.
    """
    entries = dict(_packaged())
    if user_file is None:
        return entries
    own = {
        name: _own_entry(user_file, name, table)
        for name, table in read_config(user_file, "judges").items()
    }
    entries |= own
    taken: dict[str, str] = {}
    for name, entry in own.items():
        for place, alias in enumerate(entry.aliases, 1):
            # Those of packaged entries may be given to another model.
            other = alias if alias in entries else taken.setdefault(alias, name)
            if other != name:
                raise InputError(
                    f"{shown(alias)} already names the judge {shown(other)}; remove it from one",
                    file=user_file,
                    field=f'judges."{name}".aliases.{place}',
                )
    return entries


def find_judge(model: str, catalogue: Catalogue | None = None) -> JudgeModel | None:
    """Return the entry of a model, by its name, an alias, its snapshot or its undated name.

    >>> find_judge("openai/gpt-4o").name, find_judge("gpt-5-mini-2025-08-07").name
    ('gpt-4o-2024-08-06', 'gpt-5-mini')
    >>> find_judge("gpt-4-0613").name
    'gpt-4'
    >>> find_judge("my-own-model") is None
    True
    """
    entries = _packaged() if catalogue is None else catalogue
    others = {other: entry.name for entry in entries.values() for other in entry.other_names}
    for name in names_of(model):
        for known in (name, others.get(name, name)):
            if known in entries:
                return entries[known]
    return None


def names_of(model: str) -> tuple[str, ...]:
    """Return the names under which a model may be listed: its own first, the undated one last."""
    bare = model.removeprefix("openai/")
    return (model, bare, SNAPSHOT.sub("", bare))


def _own_entry(file: Path, name: str, table: Any) -> JudgeModel:
    where = f'judges."{name}"'
    if not isinstance(table, dict):
        raise InputError(f"must be a table, not {shown(table)}", file=file, field=where)
    known = [field for field in JudgeModel.model_fields if field != "name"]
    for key in table:
        if key not in known:
            near = nearest(key, known) or f"; one of {', '.join(known)}"
            raise InputError(f"is unknown{near}", file=file, field=f"{where}.{key}")
    before = _fields_of(name)
    # A price of the user's own is not as of the day of the packaged one.
    dated = {"priced_on": None} if "price" in table else {}
    try:
        return JudgeModel.model_validate({**before, **dated, **table, "name": name})
    except ValidationError as faults:
        field, message = complaint(faults)
        message = message.replace("a JSON object", "a table")
        raise InputError(message, file=file, field=f"{where}.{field}") from None


def _fields_of(name: str) -> dict[str, Any]:
    """Return the packaged fields of a name; another name of a model begins with the model's."""
    if name in _tables():
        return _tables()[name]
    listed = next((entry for entry in _packaged().values() if name in entry.other_names), None)
    fields = _tables()[listed.name] if listed else {}
    return {field: value for field, value in fields.items() if field not in ("aliases", "snapshot")}


@cache
def _tables() -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["judges"]
    return tables


@cache
def _packaged() -> Catalogue:
    tables = _tables().items()
    return {name: JudgeModel.model_validate({**table, "name": name}) for name, table in tables}
