"""Lets the published torchvision be imported beside a torch without CUDA, as tests have it."""

from __future__ import annotations

import sys

from tests.torchvision_operators import DefinedBeforeImport

sys.meta_path.insert(0, DefinedBeforeImport())
