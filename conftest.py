"""The process in which tests run: a torchvision beside a torch without CUDA, and Ctrl-C."""

from __future__ import annotations

import signal
import sys

import pytest

from tests.torchvision_operators import DefinedBeforeImport

sys.meta_path.insert(0, DefinedBeforeImport())

# A shell starts background jobs with Ctrl-C ignored, which the commands under test would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))
