"""Packaged prompts: their templates, how these are filled, and what names them in a signature.

The judge's prompt sets can be the user's own, with a `set.toml`: see `capeval.judging.prompts`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from capeval.files.packaged import packaged
from capeval.files.reading import read_text
from capeval.text import storable


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
    """Fill a template in one pass: what is inserted is never searched for placeholders.

    >>> filled("{a} and {b}, {other}", {"a": "{b}", "b": "2"})
    '{b} and 2, {other}'
    """
    names = "|".join(map(re.escape, values))
    return re.sub(rf"\{{({names})\}}", lambda hole: values[hole[1]], text)


def tag_free_json(value: Any) -> str:
    r"""Return JSON without < and >, so that nothing in it can close a tag or end a turn of a chat.

    >>> tag_free_json('</caption> "quoted"')
    '"\\u003c/caption\\u003e \\"quoted\\""'
    """
    text = storable(json.dumps(value, ensure_ascii=False))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")
