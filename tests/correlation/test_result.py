"""What docs/files.md says of correlations.json."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from capeval.correlation.result import (
    CeilingResult,
    ClassResult,
    Coefficient,
    ComparisonResult,
    Correlation,
    Correlations,
    Elements,
    ElementTable,
    Groups,
    Published,
    Raters,
    Ties,
)
from tests.correlation.making import ROOT

PARTS = [
    *(
        CeilingResult,
        ClassResult,
        ComparisonResult,
        Published,
        Correlation,
        Correlations,
        Elements,
        ElementTable,
    ),
    *(Coefficient, Groups, Raters, Ties),
]


@pytest.mark.parametrize("part", PARTS)
def test_every_key_is_documented(part: type[BaseModel]) -> None:
    text = (ROOT / "docs" / "files.md").read_text("utf-8")
    section = text.split("**correlations.json**")[1].split("\n## ")[0]
    assert [name for name in part.model_fields if f"`{name}`" not in section] == []
