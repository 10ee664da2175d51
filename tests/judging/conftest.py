"""One video, its caption, and a judge that is asked without a network."""

from capeval.judging.contracts import PromptSet
from capeval.judging.judges import LLMJudge
from capeval.llm.asker import Asker, Chat
from capeval.llm.cache import ReplyCache
from capeval.llm.money import Meter
from capeval.llm.replies import ChatClient

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
    asker = Asker(client, cache, base_url="http://judge/v1", meter=Meter())
    return LLMJudge(Chat(asker, "judge-model"), prompts)
