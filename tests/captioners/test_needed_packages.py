from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from capeval.captioners.catalogue import ModelEntry
from capeval.captioners.options import CaptionerOptions
from capeval.captioners.transformers_backend import _NEEDED, open_transformers
from capeval.errors import MissingExtra, UsageError
from capeval.local_models.devices import require_packages

# The others are tested as if they were missing.
pytest.importorskip("torch")


@pytest.mark.parametrize("package", ["torch", "PIL"])
async def test_a_missing_package_says_what_to_install(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    entry = ModelEntry(name="any/model", reached="transformers")
    with pytest.raises(MissingExtra) as told:
        async with open_transformers(entry, CaptionerOptions(), lambda _: None):
            pass
    assert str(told.value) == (
        f"running a model in this process needs {package} (not installed): "
        "pip install '.[generate]' in the clone of capeval"
    )


def test_a_torchvision_of_another_torch_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    genuine = importlib.import_module

    def fails(name: str) -> ModuleType:
        if name == "torchvision":
            raise RuntimeError("operator torchvision::nms does not exist")
        return genuine(name)

    monkeypatch.setattr(importlib, "import_module", fails)
    with pytest.raises(UsageError, match=r"torchvision 0\.\d+.* does not work with torch 2\.") as t:
        require_packages(_NEEDED, "generate")
    assert "nms does not exist" in str(t.value)
    assert "\n" not in str(t.value)
