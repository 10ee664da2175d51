"""Operators that the published torchvision expects to find.

Its wheel is built for CUDA. Beside a torch without CUDA its native library does not load, and then
its Python code fails over operators that nobody defined. A process that runs tests defines them
before torchvision is imported; nothing here calls them. The package never does this: a user's
torch and torchvision come from one index and belong together.
"""

from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_OPERATORS = ("nms", "qnms")
_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def define() -> None:
    import torch

    if torch.version.cuda is not None:
        return
    for name in _OPERATORS:
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", _SIGNATURE)


class DefinedBeforeImport(MetaPathFinder):
    """Finds nothing; calls `define` when torchvision is about to be imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "torchvision":
            define()
        return None
