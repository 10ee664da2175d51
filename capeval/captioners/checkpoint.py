"""A checkpoint on the hub or in a folder: its configuration, its size and its identity."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.utils import cached_file
from transformers.utils.hub import extract_commit_hash

from capeval.captioners.checkpoint_size import CheckpointSize, checkpoint_size
from capeval.captioners.weights_identity import folder_hash


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


def find_checkpoint(model: str, revision: str | None) -> Checkpoint:
    """Return a hub id's or a folder's checkpoint; raises `OSError` or `ValueError`."""
    is_local = Path(model).is_dir()
    if is_local:
        file: str | Path | None = Path(model) / "config.json"
    else:
        file = cached_file(model, "config.json", revision=revision)
    if file is None:
        raise OSError("it has no config.json")
    loaded = json.loads(Path(file).read_text(encoding="utf-8"))
    if not isinstance(loaded, dict):
        raise OSError("its config.json is not an object")
    commit = None if is_local else extract_commit_hash(str(file), None) or revision
    return Checkpoint(model, loaded, Path(file).parent, commit)
