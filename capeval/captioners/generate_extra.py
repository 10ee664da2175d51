"""Whether what `capeval[generate]` brings is there and fits together."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version

from capeval.errors import MissingExtra, UsageError
from capeval.text import one_line

_NEEDED = ("torch", "torchvision", "transformers", "accelerate", "PIL")


def require_generate_extra() -> None:
    """Import what running a model in this process needs.

    Raises
    ------
    MissingExtra
        A package is not installed.
    UsageError
        torchvision was built for another torch; transformers cannot process videos without it.
    """
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and error.name.split(".")[0] not in _NEEDED:
                raise
            raise MissingExtra(
                f"{name} is not installed: running a model in this process needs "
                "pip install 'capeval[generate]'"
            ) from error
        except (RuntimeError, OSError, AttributeError) as error:
            # A library built for another torch fails while its operators are registered.
            raise UsageError(
                f"{name} {_version(name)} does not work with torch {_version('torch')} "
                f"({one_line(str(error), 80)}): install a torch and a torchvision that "
                "belong together, both from one index"
            ) from error


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(unknown)"
