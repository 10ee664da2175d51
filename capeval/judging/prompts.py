"""Prompt sets: three templates and a `set.toml` that declares how they are used."""

from __future__ import annotations

import ast
import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from capeval.errors import InputError
from capeval.files.jsonl import read_text, validated
from capeval.files.packaged import filled, packaged
from capeval.judging.options import DEFAULT_PROMPTS
from capeval.judging.segments import VERSION
from capeval.text import describe, nearest

Stage = Literal["split", "match", "classify"]
_DATA: dict[Stage, tuple[str, ...]] = {
    "split": ("caption",),
    "match": ("candidate_events", "reference_events"),
    "classify": ("match_data",),
}

_EXPLAIN = "+explain"

_BENCHMARK = "tuna"
_PROMPT_FILE = Path("evaluation", "tool", "prompt.py")
_IN_CHECKOUT: dict[Stage, str] = {
    "split": "PROMPT_SPLIT_EVENT",
    "match": "PROMPT_MATCH_EVENT",
    "classify": "PROMPT_CLASSIFY_RELATION",
}


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

    With `explain`, `classify` is the template that also asks for reasons. `published` are the
    benchmark's own, which are answered in another form.
    """

    name: str
    hash: str
    templates: Mapping[Stage, str]
    explain: bool = False
    published: bool = False

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

    `tuna:CHECKOUT` is the benchmark's own set, in a checkout of its repository. `explain` takes the
    set's template that also asks for reasons.
    """
    kind, colon, checkout = str(name_or_folder).partition(":")
    if kind == _BENCHMARK and colon and not Path(name_or_folder).exists():
        return _of_checkout(Path(checkout), explain=explain)
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
        templates[stage] = _checked(template, names, file)
    return PromptSet(
        name=folder.name,
        hash=digest.hexdigest(),
        templates=templates,
        explain=explain,
    )


def _checked(template: str, names: Iterable[str], file: Path, where: str = "") -> str:
    for name in names:
        if template.count(f"{{{name}}}") != 1:
            message = f"must contain the placeholder {{{name}}} exactly once"
            raise InputError(message, file=file, where=where)
    return template.strip()


def _of_checkout(checkout: Path, *, explain: bool) -> PromptSet:
    """Return the prompts of a checkout of the benchmark's repository; its code is not executed."""
    file = checkout / _PROMPT_FILE
    if explain:
        message = f"has no template for --explain; omit it, or choose {DEFAULT_PROMPTS}"
        raise InputError(message, file=file)
    try:
        statements = ast.parse(read_text(file)).body
    except (SyntaxError, ValueError, RecursionError) as fault:
        raise InputError(f"is not Python ({describe(fault)})", file=file) from None
    found = {
        target.id: one.value.value
        for one in statements
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant)
        for target in one.targets
        if isinstance(target, ast.Name) and isinstance(one.value.value, str)
    }
    templates: dict[Stage, str] = {}
    for stage, name in _IN_CHECKOUT.items():
        if name not in found:
            raise InputError(f"has no text {name}; is it a checkout of TUNA?", file=file)
        # The templates are for str.format, which doubles braces that are text.
        single = re.sub(r"\{\{|\}\}", lambda pair: pair[0][0], found[name])
        templates[stage] = _checked(single, _DATA[stage], file, name)
    digest = hashlib.sha256("\0".join(templates.values()).encode("utf-8"))
    return PromptSet(_BENCHMARK, digest.hexdigest(), templates, published=True)
