"""Find the prompts and the sample: inside the package in a wheel, next to it in a checkout."""

from __future__ import annotations

from pathlib import Path

from capeval.errors import InputError

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
