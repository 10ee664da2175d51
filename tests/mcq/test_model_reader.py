"""What a chat model that reads replies is shown, and which of its answers are taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.llm.fake import ScriptedClient
from tests.mcq.graded_files import line, write


def read(folder: Path, answer: str, **fields: Any) -> tuple[str | None, str | None, str]:
    """Return the option that is found, why there is no score, and the prompt."""
    client = ScriptedClient(lambda _: answer)
    file = write(folder / "r.jsonl", [line(1, "The third, I would say.", **fields)])
    made = capeval.mcq_grade(
        file, select="exact+llm", llm="m", client=client, cache=folder / "cache"
    )
    (item,) = made.items
    return item.choice, item.reason, str(client.requests[0].messages[0]["content"])


@pytest.mark.parametrize(
    ("symbols", "answer", "choice"),
    [
        ("letters", '{"choice": "C"}', "C"),
        ("letters", '```json\n{"choice": "C"}\n```', "C"),
        ("numbers", '{"choice": "3"}', "C"),
        ("numbers", '{"choice": 3}', "C"),
        ("numbers", '{"choice": "none"}', None),
    ],
)
def test_the_options_have_the_symbols_of_the_question(
    tmp_path: Path, symbols: str, answer: str, choice: str | None
) -> None:
    found, reason, prompt = read(tmp_path, answer, symbols=symbols)
    assert (found, reason) == (choice, None)
    first = {"letters": "A", "numbers": "1"}[symbols]
    assert f'"{first}": "Apples."' in prompt


@pytest.mark.parametrize(
    ("symbols", "answer"),
    [
        ("numbers", '{"choice": "C"}'),
        ("numbers", '{"choice": true}'),
        ("letters", '{"choice": 3}'),
        ("letters", '{"choice": "C", "why": "it says so"}'),
        ("letters", "C"),
    ],
)
def test_any_other_answer_is_unscored(tmp_path: Path, symbols: str, answer: str) -> None:
    found, reason, _ = read(tmp_path, answer, symbols=symbols)
    assert found is None
    assert "the model that reads replies failed" in str(reason)
