"""The table of judges: it agrees with itself, and has the prices of its models."""

from __future__ import annotations

from typing import get_args

import pytest

from capeval.llm.judge_models import Effort, JudgeModel, find_judge, judge_models
from capeval.llm.prices import price_of
from tests.conftest import Today

EFFORTS = get_args(Effort)


@pytest.mark.parametrize("entry", judge_models().values(), ids=lambda entry: entry.name)
def test_entries_agree_with_themselves(entry: JudgeModel) -> None:
    assert entry.default_effort in (None, *entry.efforts)
    assert list(entry.efforts) == sorted(entry.efforts, key=EFFORTS.index)
    assert entry.least_effort in (None, *entry.efforts)
    assert not (entry.shutdown and entry.serve)
    for name in (entry.name, *entry.aliases):
        assert find_judge(name) is entry
        # What one's own server costs is in no list, not even for OpenAI's open weights.
        assert not (entry.serve and price_of(name))


def test_all_but_the_newest_models_have_a_list_price() -> None:
    hosted = [name for name, entry in judge_models().items() if not entry.serve]
    unpriced = [name for name in hosted if price_of(name) is None]
    assert unpriced == ["gpt-6.2-astra", "gpt-6.2-sol"]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-4o", "gpt-4o-2024-08-06"),
        ("openai/gpt-4o", "gpt-4o-2024-08-06"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("gpt-4-0613", "gpt-4"),
        ("openai/gpt-oss-20b", "openai/gpt-oss-20b"),
        ("gpt-oss-20b", "openai/gpt-oss-20b"),
        ("unheard-of", None),
    ],
)
def test_a_model_is_found_by_its_other_names(model: str, name: str | None) -> None:
    entry = find_judge(model)
    assert (entry and entry.name) == name


def test_what_is_recommended_has_not_ended_itself(
    monkeypatch: pytest.MonkeyPatch, today: Today
) -> None:
    own = {
        name: JudgeModel(name=name, replacement=to, shutdown=end)
        for name, to, end in (("a", "b", today.day), ("b", "c", today.day), ("c", None, None))
    }
    monkeypatch.setattr("capeval.llm.judge_models.judge_models", lambda: own)
    assert [entry.successor for entry in own.values()] == ["c", "c", None]
