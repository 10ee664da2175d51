"""Tiny packages of a test's own: installed as pip would, or found by commands in this process."""

from __future__ import annotations

import base64
import gc
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from capeval.plugins import Registry


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
    files = {
        f"{name}.py": source,
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{name}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}-1.0.dist-info/entry_points.txt": entry_points,
    }
    record = f"{name}-1.0.dist-info/RECORD"
    listed = "".join(
        f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in files.items()
    )
    files[record] = f"{listed}{record},,\n"
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    site = folder / "site"
    if find_spec("pip") is None:
        # An environment made by uv has no pip; unpacking is all that installing such a wheel is.
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        return site
    options = ["--no-deps", "--no-index", "--quiet", "--no-compile", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(site), str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    return site


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
