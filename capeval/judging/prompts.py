"""Prompt sets: three templates and a `set.toml` that declares how they are used."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from capeval.errors import InputError
from capeval.files.packaged import filled, packaged
from capeval.files.reading import read_text
from capeval.files.validation import validated
from capeval.judging.options import DEFAULT_PROMPTS
from capeval.judging.segments import VERSION
from capeval.text import nearest

Stage = Literal["split", "match", "classify"]
_DATA: dict[Stage, tuple[str, ...]] = {
    "split": ("caption",),
    "match": ("candidate_events", "reference_events"),
    "classify": ("match_data",),
}

_EXPLAIN = "+explain"


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Templates(_Strict):
    split: str
    match: str
    classify: str
    explain: str | None = None


class _SetFile(_Strict):
    contract: Literal["spans"]
    templates: _Templates


@dataclass(frozen=True)
class PromptSet:
    """Three templates; `hash` is the SHA-256 of the files in use.

    With `explain`, `classify` is the template that also asks for reasons.
    """

    name: str
    hash: str
    templates: Mapping[Stage, str]
    explain: bool = False

    @property
    def label(self) -> str:
        """Name and hash, as in the signature."""
        return f"{self.name}{_EXPLAIN if self.explain else ''}@{self.hash[:6]}"

    def render(self, stage: Stage, data: Mapping[str, str]) -> str:
        """Fill a template in one pass, so that inserted text is never searched for placeholders."""
        return filled(self.templates[stage], data)


def load_prompts(
    name_or_folder: str | Path = DEFAULT_PROMPTS, *, explain: bool = False
) -> PromptSet:
    """Load a packaged set by its name, or any folder with a `set.toml`; raises `InputError`.

    `explain` takes the set's template that also asks for reasons.
    """
    folder = Path(name_or_folder)
    if folder.name == str(name_or_folder) and (packaged("prompts") / folder.name).is_dir():
        # A plain name means a packaged set; a folder of that name is given as ./NAME.
        folder = packaged("prompts") / folder.name
    if not folder.is_dir():
        sets = sorted(file.parent.name for file in packaged("prompts").glob("*/set.toml"))
        raise InputError(
            f"is neither a folder nor a packaged set ({', '.join(sets)})"
            f"{nearest(str(name_or_folder), sets)}",
            file=name_or_folder,
        )
    folder = folder.resolve()
    path = folder / "set.toml"
    text = read_text(path)
    try:
        declared = validated(_SetFile, tomllib.loads(text), file=path, where="")
    except (ValueError, RecursionError) as fault:
        raise InputError(f"broken TOML: {fault}", file=path) from None
    used = declared.templates
    if explain and used.explain is None:
        raise InputError(
            "has no template for --explain; choose other --prompts, such as "
            f"{DEFAULT_PROMPTS}, or omit --explain",
            file=path,
            field="templates",
        )
    if explain:
        used = used.model_copy(update={"classify": used.explain})
    digest = hashlib.sha256(text.encode("utf-8"))
    # Other segments are other questions.
    digest.update(f"\0segments {VERSION}".encode())
    templates: dict[Stage, str] = {}
    for stage, names in _DATA.items():
        file = folder / getattr(used, stage)
        template = read_text(file)
        digest.update(b"\0" + template.encode("utf-8"))
        for name in names:
            if template.count(f"{{{name}}}") != 1:
                raise InputError(f"must contain the placeholder {{{name}}} exactly once", file=file)
        templates[stage] = template.strip()
    return PromptSet(
        name=folder.name,
        hash=digest.hexdigest(),
        templates=templates,
        explain=explain,
    )
