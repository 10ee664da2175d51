"""The catalogue of models: a packaged table, and the user's own entries over it."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from capeval.captioners.images import ImageKind
from capeval.errors import InputError, UsageError
from capeval.files.reading import read_text
from capeval.files.validation import validated
from capeval.text import nearest, shown

TABLE = Path(__file__).with_name("catalogue.toml")
HUB_PREFIX = "hf:"

Reached = Literal["transformers", "endpoint", "server", "nowhere"]

_GIB = 2**30
_BYTES_A_WEIGHT = 2  # bf16
_MARGIN, _FIXED_GIB = 1.2, 2.0


class ModelEntry(BaseModel):
    """How one model is asked for captions.

    `parameters` are billions; `frames` is a sampling policy as typed after `--frames`; `prompt` a
    packaged prompt set or a file; `options` go to the transformers backend. `reached` is where it
    runs: in this process by transformers, at an endpoint, behind a server that `serve` starts, or
    nowhere, and `note` says why.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    reached: Reached
    hub: str | None = None
    revision: str | None = None
    parameters: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    frames: str = "32"
    prompt: str = "tuna-cap-v1"
    system: str | None = None
    max_new_tokens: int = Field(default=1024, ge=1)
    temperature: float | None = Field(default=0.0, ge=0, allow_inf_nan=False)
    options: Mapping[Literal["preset", "dtype"], str] = Field(default_factory=dict)
    serve: str | None = None
    base_url: str | None = None
    key: str = "OPENAI_API_KEY"
    images: ImageKind = "jpeg"
    paper: bool = False
    note: str | None = None

    @model_validator(mode="after")
    def _can_be_reached(self) -> Self:
        needed = {"transformers": "hub", "server": "serve", "nowhere": "note"}.get(self.reached)
        if needed and not getattr(self, needed):
            raise ValueError(f"a model reached by {self.reached!r} needs {needed!r}")
        return self

    @property
    def memory(self) -> int | None:
        """GiB that running it is estimated to need: bf16 weights, a fifth more, and 2 GiB.

        >>> ModelEntry(name="m", reached="endpoint", parameters=8.0).memory
        20
        """
        if self.parameters is None:
            return None
        weights = self.parameters * 1e9 * _BYTES_A_WEIGHT / _GIB
        return math.ceil(weights * _MARGIN + _FIXED_GIB)


def read_catalogue(user_file: Path | None = None) -> dict[str, ModelEntry]:
    """Return all models by name; `[models."NAME"]` tables of `user_file` change or add some.

    Raises
    ------
    InputError
        The user's file is not right.
    """
    entries = {name: dict(table) for name, table in _packaged().items()}
    if user_file is None or not user_file.is_file():
        return {name: _entry(TABLE, name, table) for name, table in entries.items()}
    try:
        content = tomllib.loads(read_text(user_file))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not valid TOML: {error}", file=user_file) from None
    own = content.get("models", {})
    if not isinstance(own, dict):
        raise InputError(f"must be a table, not {shown(own)}", file=user_file, field="models")
    for name, table in own.items():
        where = f'models."{name}"'
        if not isinstance(table, dict):
            raise InputError(f"must be a table, not {shown(table)}", file=user_file, field=where)
        for key in table:
            known = [field for field in ModelEntry.model_fields if field != "name"]
            if key not in known:
                raise InputError(
                    f"is unknown; one of {', '.join(known)}{nearest(key, known)}",
                    file=user_file,
                    field=f"{where}.{key}",
                )
        if name not in entries and not {"reached", "hub", "base_url", "serve"} & table.keys():
            raise InputError(
                "is not in the catalogue"
                f"{nearest(name, list(entries))}; a new model needs hub, base_url or serve",
                file=user_file,
                field=where,
            )
        entries[name] = {**_implied(table), **entries.get(name, {}), **table}
    return {
        name: _entry(user_file if name in own else TABLE, name, table)
        for name, table in entries.items()
    }


def find_model(name: str, catalogue: Mapping[str, ModelEntry]) -> ModelEntry:
    """Return the entry of a model, or one made for `hf:ORG/NAME` or `hf:FOLDER`.

    Raises
    ------
    UsageError
        There is none of that name.
    """
    if name in catalogue:
        return catalogue[name]
    if name.startswith(HUB_PREFIX):
        hub = name.removeprefix(HUB_PREFIX)
        for entry in catalogue.values():
            if entry.hub == hub and entry.reached == "transformers":
                return entry.model_copy(update={"name": hub})
        is_id = hub.count("/") == 1 and all(hub.split("/"))
        if not hub.strip() or not (is_id or Path(hub).is_dir()):
            raise UsageError(f"{name!r} must be {HUB_PREFIX}ORG/NAME, or {HUB_PREFIX} and a folder")
        return ModelEntry(name=hub, hub=hub, reached="transformers")
    hubs = {entry.hub.lower(): entry for entry in catalogue.values() if entry.hub}
    if found := hubs.get(name.lower()):
        return found
    raise UsageError(
        f"no model {name!r} in the catalogue{nearest(name, list(catalogue))}; "
        "see `capeval models`, name one of the hub as hf:ORG/NAME, or a server with --base-url"
    )


def _implied(table: Mapping[str, Any]) -> dict[str, Any]:
    if "base_url" in table:
        return {"reached": "endpoint"}
    return {"reached": "server" if "serve" in table else "transformers"}


def _entry(file: Path, name: str, table: Mapping[str, Any]) -> ModelEntry:
    return validated(ModelEntry, {**table, "name": name}, file=file, where=f'models."{name}"')


@cache
def _packaged() -> dict[str, dict[str, Any]]:
    models: dict[str, dict[str, Any]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["models"]
    return models
