"""A checkpoint on the hub or in a folder: its configuration, its size and its identity."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.utils import cached_file
from transformers.utils.hub import extract_commit_hash

from capeval.errors import UsageError
from capeval.local_models.checkpoint_size import CheckpointSize, checkpoint_size
from capeval.local_models.hub import use_downloads_if_unreachable
from capeval.local_models.weights_identity import folder_hash, model_files
from capeval.text import shown

_LAYERS = frozenset(
    {"num_hidden_layers", "num_layers", "n_layers", "n_layer", "depth", "encoder_layers"}
)
# The largest published models have some hundred.
_MOST_LAYERS = 10_000


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint: a hub id at a commit, or a folder."""

    model: str
    published: Mapping[str, Any]
    folder: Path
    """Where its config.json is: for the hub, the local copy as far as it is downloaded."""
    revision: str | None
    """The commit, so that all files are of the same one; None for a folder."""

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of the user's."""
        return Path(self.model).is_dir()

    @property
    def arguments(self) -> dict[str, Any]:
        """What every `from_pretrained` gets."""
        return {"revision": self.revision, "trust_remote_code": False}

    def file(self, name: str) -> Path | None:
        """Return the path of one of its files, downloaded if need be, or None without such."""
        if self.is_local:
            path = self.folder / name
            return path if path.is_file() else None
        found = cached_file(
            self.model,
            name,
            revision=self.revision,
            _raise_exceptions_for_missing_entries=False,
        )
        return None if found is None else Path(found)

    def size(self, meta: Any) -> CheckpointSize:
        """Return the size of its weights; `meta` is the model without them."""
        parameters = sum(parameter.numel() for parameter in meta.parameters())
        hub = None if self.is_local else (self.model, self.revision)
        return checkpoint_size(parameters, self.published, self.folder, hub=hub)

    def identity(self, on_notice: Callable[[str], None] | None = None) -> dict[str, str] | str:
        """Return what identifies the weights: a hash, or the hub's id, whose commit is known."""
        if not self.is_local:
            return self.model
        notice = on_notice or (lambda _: None)
        # The path of a folder does not identify its content.
        return {
            "folder": self.folder.resolve().name,
            "sha256": folder_hash(self.folder, on_notice=notice),
        }


def _refuse_absurd(model: str, config: Mapping[str, Any], before: str = "") -> None:
    # Even without its weights a model of so many layers fills the memory before it can be refused.
    for name, value in config.items():
        if isinstance(value, Mapping):
            _refuse_absurd(model, value, f"{before}{name}.")
        elif name in _LAYERS and isinstance(value, int) and value > _MOST_LAYERS:
            raise UsageError(
                f"{model}: config.json: {before}{name}: {value} is above {_MOST_LAYERS}"
            )


def _refuse_what_transformers_ignores(folder: Path, config: Mapping[str, Any]) -> None:
    weights = config.get("transformers_weights")
    if weights is not None and (not isinstance(weights, str) or Path(weights).name != weights):
        raise UsageError(
            f"{folder}: config.json: transformers_weights: {shown(weights)} is not a file in the "
            "folder"
        )
    file = folder / "generation_config.json"
    if file.is_file():
        # A damaged one would be replaced by defaults.
        try:
            read = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UsageError(f"{file}: is not JSON: {error}") from None
        if not isinstance(read, dict):
            raise UsageError(f"{file}: must be an object")


def find_checkpoint(model: str, revision: str | None) -> Checkpoint:
    """Return a hub id's or a folder's checkpoint; raises `OSError` or `ValueError`."""
    is_local = Path(model).is_dir()
    if is_local:
        model_files(Path(model))  # refuses what could not be read
        file: str | Path | None = Path(model) / "config.json"
    else:
        use_downloads_if_unreachable()
        file = cached_file(model, "config.json", revision=revision)
    if file is None:
        raise OSError("it has no config.json")
    loaded = json.loads(Path(file).read_text(encoding="utf-8"))
    if not isinstance(loaded, dict):
        raise OSError("its config.json is not an object")
    _refuse_absurd(model, loaded)
    if is_local:
        _refuse_what_transformers_ignores(Path(model), loaded)
    commit = None if is_local else extract_commit_hash(str(file), None) or revision
    return Checkpoint(model, loaded, Path(file).parent, commit)
