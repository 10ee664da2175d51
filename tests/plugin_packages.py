"""Tiny packages of a test's own, found by commands in this process or in one of their own."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from capeval.config import Registry


@contextmanager
def installed(site: Path, *modules: str) -> Iterator[None]:
    """Let commands that are typed in this process find the packages of a folder."""

    def forget() -> None:
        for name in modules:
            sys.modules.pop(name, None)
        for one in gc.get_objects():
            if type(one) is Registry:
                vars(one).pop("_installed", None)

    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(site)
        forget()
        yield
    forget()


def install(folder: Path, name: str, source: str, entry_points: str) -> Path:
    """Install a package with one module of this name; return the folder for `PYTHONPATH`."""
    site = folder / "site"
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"{name}.py").write_text(source, encoding="utf-8")
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n"
    )
    (info / "entry_points.txt").write_text(entry_points)
    return site
