"""One video, its caption, and a judge that is asked without a network."""

from __future__ import annotations

import pytest

from capeval.judging.llm_judge import LLMJudge
from capeval.judging.prompts import PromptSet
from capeval.llm.asker import Asker
from capeval.llm.cache import ReplyCache
from capeval.llm.meter import Meter
from capeval.llm.types import ChatClient
from capeval.schema import Annotation


@pytest.fixture(autouse=True)
def _no_ambient_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def annotation_of(*events: tuple[str, ...], index: str = "V1") -> Annotation:
    """Make an annotation; each event is its sentence and its elements, all actions of weight 1."""
    return Annotation.model_validate(
        {
            "index": index,
            "events": [
                {
                    "event": event,
                    "visual_elements": [
                        {"content": content, "type": "action", "weight": 1} for content in elements
                    ],
                }
                for event, *elements in events
            ],
        }
    )


PLAIN = PromptSet(
    name="plain",
    hash="0" * 64,
    templates={
        "split": "split\n{caption}",
        "match": "match\n{candidate_events}\n\n{reference_events}",
        "classify": "classify\n{match_data}",
    },
)
"""Prompts whose first word is their stage."""


def judge_of(
    client: ChatClient, prompts: PromptSet = PLAIN, cache: ReplyCache | None = None
) -> LLMJudge:
    """A judge that asks a client."""
    asker = Asker(client, cache, base_url="http://judge/v1", meter=Meter())
    return LLMJudge(asker, "judge-model", prompts)
