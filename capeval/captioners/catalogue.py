"""`capeval models`: the packaged catalogue, and the user's entries that change it."""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_serializer

from capeval.captioners.protocol import BACKENDS
from capeval.config import config_file, read_config
from capeval.errors import InputError, UsageError
from capeval.files.jsonl import validated
from capeval.llm.money import Meter
from capeval.llm.tracing import parse_endpoint, public_url
from capeval.local_models import MEMORY_PER_WEIGHT
from capeval.options import command, declares, option, takes
from capeval.show.numbers import billions
from capeval.show.result import Result
from capeval.show.table import LINE, Cell, Column, Kind, Page, Row, Table, print_fields
from capeval.text import counted, nearest, one_line, shown

if TYPE_CHECKING:
    from rich.console import Console

    from capeval.captioners.protocol import Captioner

TABLE = Path(__file__).with_name("catalogue.toml")
HUB_PREFIX = "hf:"

ImageKind = Literal["jpeg", "png", "video"]

_REACHED = ("transformers", "endpoint", "server", "none")
_OPTIONS = {"preset", "dtype", "template"}

_GIB = 2**30
_BYTES_A_WEIGHT = 2  # bf16


class ModelEntry(BaseModel):
    """One model and the way to run it.

    `parameters` is in billions; `frames` is a sampling policy as in `--frames`; `prompt` is a
    packaged prompt set or a file; `options` go to the backend. `reached` is the backend:
    `transformers` in this process, `endpoint`, a captioner of another package, `server` for a
    server that `serve` starts, or `none` for the reason in `note`. `key` names the environment
    variable whose value is sent to `base_url`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    reached: str
    hub: str | None = None
    revision: str | None = None
    parameters: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    frames: str = "32"
    prompt: str = "tuna-cap-v1"
    system: str | None = None
    max_new_tokens: int = Field(default=1024, ge=1)
    temperature: float | None = Field(default=0.0, ge=0, allow_inf_nan=False)
    options: Mapping[str, Any] = Field(default_factory=dict)
    serve: str | None = None
    base_url: str | None = None
    key: str | None = "OPENAI_API_KEY"
    images: ImageKind = "jpeg"
    max_side: int | None = Field(default=None, ge=16)
    paper: bool = False
    note: str | None = None

    @field_serializer("base_url")
    def _without_credentials(self, base_url: str | None) -> str | None:
        return base_url and public_url(base_url)

    @property
    def has_own_address(self) -> bool:
        return self.base_url != _packaged().get(self.name, {}).get("base_url")

    @property
    def is_own(self) -> bool:
        table = _packaged().get(self.name)
        return table is None or self != _entry(TABLE, self.name, table)

    @property
    def memory(self) -> int | None:
        """Estimated memory in GiB: bf16 weights, plus the needs of one video.

        >>> ModelEntry(name="m", reached="endpoint", parameters=8.0).memory
        18
        """
        if self.parameters is None:
            return None
        weights = self.parameters * 1e9 * _BYTES_A_WEIGHT / _GIB
        return math.ceil(weights * MEMORY_PER_WEIGHT)


def read_catalogue(user_file: Path | None = None) -> dict[str, ModelEntry]:
    """Return all models by name; `[models."NAME"]` tables of `user_file` change or add entries."""
    entries = {name: _entry(TABLE, name, table) for name, table in _packaged().items()}
    for name, table in ({} if user_file is None else read_config(user_file, "models")).items():
        entries[name] = _own_entry(user_file or TABLE, name, table)
    return entries


def _own_entry(file: Path, name: str, table: Any) -> ModelEntry:
    where = f'models."{name}"'

    def wrong(problem: str, field: str = "") -> InputError:
        return InputError(problem, file=file, field=f"{where}.{field}" if field else where)

    if not isinstance(table, dict):
        raise wrong(f"must be a table, not {shown(table)}")
    packaged = _packaged().get(name, {})
    if not packaged and not {"reached", "hub", "base_url", "serve"} & table.keys():
        near = nearest(name, list(_packaged()))
        raise wrong(f"is not in the catalogue{near}; a new model needs hub, base_url or serve")
    # An address from a file gets only the key that the same entry names.
    keyless = {"key": None} if "base_url" in table else {}
    reached = "endpoint" if keyless else "server" if "serve" in table else "transformers"
    entry = _entry(file, name, {"reached": reached, **packaged, **keyless, **table})
    if "key" in table and entry.base_url is None:
        raise wrong("belongs to one address; add its base_url", "key")
    return entry


def entries_by_hub(catalogue: Mapping[str, ModelEntry]) -> dict[str, ModelEntry]:
    """Return entries by their id on the hub, in lower case; entries without a preset come first."""
    ordered = sorted(catalogue.values(), key=lambda entry: "preset" not in entry.options)
    return {entry.hub.lower(): entry for entry in ordered if entry.hub}


def model_folder(name: str) -> Path | None:
    """Return the folder that a model's name means, if it starts like a path.

    >>> model_folder("qwen2-vl-7b"), model_folder("Qwen/Qwen2-VL-7B-Instruct")
    (None, None)
    >>> model_folder("/models/ours/").name
    'ours'
    """
    path = Path(name).expanduser()
    is_path = path.is_absolute() or name.replace("\\", "/").split("/")[0] in (".", "..")
    return path.resolve() if is_path else None


def find_model(name: str, catalogue: Mapping[str, ModelEntry]) -> ModelEntry:
    """Return the entry of a model, or one made for `./FOLDER` or `hf:ORG/NAME`."""
    if name in catalogue:
        return catalogue[name]
    if (folder := model_folder(name)) is not None:
        if not (folder / "config.json").is_file():
            what = "has no config.json" if folder.is_dir() else "is not a folder"
            what = what if folder.exists() else "does not exist"
            raise UsageError(f"--model {name}: {what}; name the folder of a model")
        return ModelEntry(name=folder.name, hub=str(folder), reached="transformers")
    if name.startswith(HUB_PREFIX):
        hub = name.removeprefix(HUB_PREFIX)
        for entry in catalogue.values():
            if entry.hub == hub and entry.reached == "transformers":
                return entry.model_copy(update={"name": hub})
        # transformers would load a folder of that name instead of the hub's model.
        if hub.count("/") != 1 or not all(hub.split("/")) or Path(hub).is_dir():
            raise UsageError(f"{name!r} must be {HUB_PREFIX}ORG/NAME; name a folder as ./FOLDER")
        return ModelEntry(name=hub, hub=hub, reached="transformers")
    if found := entries_by_hub(catalogue).get(name.lower()):
        return found
    here = f"; the folder of that name is ./{name}" if Path(name).is_dir() else ""
    raise UsageError(
        f"no model {name!r} in the catalogue{nearest(name, list(catalogue))}{here}; see `capeval "
        "models`, name a folder as ./FOLDER, a hub model as hf:ORG/NAME, or a server with "
        "--base-url (of eval: --model-url)"
    )


def _entry(file: Path, name: str, table: Mapping[str, Any]) -> ModelEntry:
    where, field, problem = f'models."{name}"', "reached", ""
    entry = validated(ModelEntry, {**table, "name": name}, file=file, where=where)
    needed = {"transformers": "hub", "server": "serve", "none": "note"}.get(entry.reached)
    if "name" in table:
        field, problem = "name", "is the table's heading; omit it ('hub' names the weights)"
    elif entry.reached not in _REACHED and entry.reached not in BACKENDS:
        known = [*_REACHED, *BACKENDS.names()[len(BACKENDS.packaged) :]]
        problem = f"{shown(entry.reached)} is unknown; one of {', '.join(known)}"
        problem += nearest(entry.reached, known)
    elif needed and not getattr(entry, needed):
        problem = f"a model reached by {entry.reached!r} needs {needed!r}"
    elif entry.reached == "transformers" and (unknown := set(entry.options) - _OPTIONS):
        field = f"options.{min(unknown)}"
        problem = f"is unknown; one of {', '.join(sorted(_OPTIONS))}"
    elif entry.base_url is not None:
        try:
            parse_endpoint(entry.base_url)
        except UsageError as error:
            field, problem = "base_url", str(error)
    if problem:
        raise InputError(problem, file=file, field=f"{where}.{field}")
    return entry


@cache
def _packaged() -> dict[str, dict[str, Any]]:
    models: dict[str, dict[str, Any]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["models"]
    return models


@dataclass
class OpenCaptioner:
    """An open captioner, its entry in the catalogue, and the meter of its calls.

    Work is done within `running(is_needed)`, which starts and ends its server, if it has one.
    """

    captioner: Captioner
    entry: ModelEntry
    meter: Meter = field(default_factory=Meter)
    base_url: str | None = None
    running: Callable[[bool], AbstractAsyncContextManager[bool]] = nullcontext

    @property
    def title(self) -> str:
        where = f" at {self.base_url}" if self.base_url else ""
        return f"Model: {self.captioner.name}{where}"

    @property
    def priced(self) -> str:
        return str(self.captioner.settings.get("model", self.captioner.name))


# ---- `capeval models` ----------------------------------------------------------------------------


@declares
class ModelsOptions:
    """The arguments of `capeval.models`.

    Parameters
    ----------
    name : One model, by its name or its hub id: show all its fields.
    """

    name: str | None = option(None, positional=True, metavar="NAME")


_WAYS = {
    "transformers": "run in this process (transformers)",
    "endpoint": "by a provider's API (endpoint)",
    "server": "on a server that you start (server)",
    "none": "cannot be run",
}
_COLUMNS = [
    Column("Model", words=True, kind=LINE),
    Column("Run by", words=True),
    Column("Parameters", kind=Kind(billions)),
    Column("Memory", kind=Kind(lambda gib: f"{gib} GiB")),
    Column("Frames", kind=LINE),
]


class ListedModels(list[ModelEntry], Result):
    """The models by backend; the paper's models are only named unless `full`."""

    def headline(self) -> str:
        ways = Counter(entry.reached for entry in self)
        run = [f"{count} {_WAYS.get(way, f'by {way}')}" for way, count in ways.most_common()]
        return one_line(f"{counted(len(self), 'model')}: {', '.join(run)}.")

    def pages(self, *, full: bool = False) -> list[Page]:
        chosen = [one for one in self if full or not one.paper or one.is_own]
        chosen = chosen or [*self]
        others = [entry for entry in self if entry not in chosen]
        rows: list[Row] = [
            [
                Cell(one.name, after=" *" if one.paper else ""),
                None if one.reached == "none" else one.reached,
                *(one.parameters, one.memory, one.frames),
            ]
            for one in chosen
        ]
        notes = []
        for what in ("can", "cannot"):
            names = [one_line(o.name) for o in others if (o.reached == "none") == (what != "can")]
            if names:
                notes.append(f"Models of the TUNA paper that {what} be run: {', '.join(names)}.")
        notes += ["--full lists the paper's models too."] if others else []
        if any(entry.paper for entry in chosen):
            notes.append("* in the TUNA paper, with the frames of its table 7.")
        notes += [
            "Memory is an estimate: the parameters in bf16 plus 15%.",
            "`capeval models NAME` shows how a model is run.",
        ]
        return [Page([Table("", _COLUMNS, rows)], notes=notes)]

    def as_json(self) -> Any:
        fields = {one.name: one.model_dump(exclude={"name"}) for one in self}
        return {one.name: fields[one.name] | {"memory": one.memory} for one in self}


class ListedModel(ListedModels):
    """Everything about one model."""

    def show(self, console: Console, *, full: bool = False) -> None:
        ((name, fields),) = self.as_json().items()
        if not self[0].base_url:
            del fields["key"]
        units = {"parameters": " billion", "memory": " GiB (estimated)"}
        given = {
            of: (value if isinstance(value, str) else json.dumps(value)) + units.get(of, "")
            for of, value in fields.items()
            if value is not None and value is not False and value != {}
        }
        print_fields({"model": name, **given}, console)


@command("models", "as_json", "full")
@takes(ModelsOptions)
def models(o: ModelsOptions) -> ListedModels:
    """List the models that `capeval generate` knows.

    Add your own to capeval.toml, as \\[models."NAME"].

    Raises
    ------
    InputError, UsageError
        The name is unknown, or `capeval.toml` is wrong.

    >>> [model.name for model in models("qwen2.5-vl-7b")]
    ['qwen2.5-vl-7b']
    """
    catalogue = read_catalogue(config_file())
    if o.name is not None:
        return ListedModel([find_model(o.name, catalogue)])
    return ListedModels(catalogue.values())
