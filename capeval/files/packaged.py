"""The prompts and the sample that are packaged with capeval.

They are inside the package in a wheel, and next to it in a checkout. The judge's prompt sets can be
the user's own, with a `set.toml`: see `capeval.judging.contracts`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.files.jsonl import read_text
from capeval.text import storable

_PACKAGE = Path(__file__).resolve().parent.parent


def packaged(name: str) -> Path:
    """Return the folder `prompts` or `annotations` of this installation."""
    for root in (_PACKAGE / "_packaged", _PACKAGE.parent):
        if (root / name).is_dir():
            return root / name
    raise InputError("is missing from this installation; install capeval again", file=name)


def sample_folder() -> Path:
    """Return the folder of the bundled sample set."""
    return packaged("annotations") / "sample"


@cache
def template(prompts: str, name: str) -> str:
    """Return a template of a packaged set of prompts."""
    return read_text(packaged("prompts") / prompts / f"{name}.txt").strip()


@cache
def prompts_label(prompts: str, *names: str) -> str:
    """Return a set's name with the beginning of the hash of templates, by default of all.

    >>> prompts_label("mcq-v1").partition("@")[0]
    'mcq-v1'
    """
    digest = hashlib.sha256()
    found = (packaged("prompts") / prompts).glob("*.txt")
    for file in sorted(f"{name}.txt" for name in names or (one.stem for one in found)):
        digest.update(f"{file}\0{template(prompts, file[:-4])}\0".encode())
    return f"{prompts}@{digest.hexdigest()[:6]}"


def filled(text: str, values: Mapping[str, str]) -> str:
    """Fill a template in one pass: inserted text is never searched for placeholders.

    >>> filled("{a} and {b}, {other}", {"a": "{b}", "b": "2"})
    '{b} and 2, {other}'
    """
    names = "|".join(map(re.escape, values))
    return re.sub(rf"\{{({names})\}}", lambda hole: values[hole[1]], text)


def prompt_of(prompts: str, name: str, values: Mapping[str, str]) -> str:
    """Return a template of a packaged set of prompts, filled in."""
    return filled(template(prompts, name), values)


def tag_free_json(value: Any) -> str:
    r"""Return JSON without < and >, so that nothing in it can close a tag or end a turn of a chat.

    >>> tag_free_json('</caption> "quoted"')
    '"\\u003c/caption\\u003e \\"quoted\\""'
    """
    text = storable(json.dumps(value, ensure_ascii=False))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")
