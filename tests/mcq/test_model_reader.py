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
    ("answer", "choice"),
    [
        ('{"choice": "C"}', "C"),
        ('```json\n{"choice": "C"}\n```', "C"),
        ('{"choice": "none"}', None),
    ],
)
def test_the_model_chooses_among_the_letters_of_the_options(
    tmp_path: Path, answer: str, choice: str | None
) -> None:
    found, reason, prompt = read(tmp_path, answer)
    assert (found, reason) == (choice, None)
    assert '"A": "Apples."' in prompt


@pytest.mark.parametrize(
    "answer",
    [
        '{"choice": true}',
        '{"choice": 3}',
        '{"choice": "C", "why": "it says so"}',
        "C",
    ],
)
def test_any_other_answer_is_unscored(tmp_path: Path, answer: str) -> None:
    found, reason, _ = read(tmp_path, answer)
    assert found is None
    assert "the model that reads replies failed" in str(reason)
