"""CLAIR (Chan et al., EMNLP 2023): a chat model rates whether captions describe the same thing.

The scale, the temperature and the number of tries are the authors'; the prompt's words differ, and
docs/metrics.md lists all differences.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict

from capeval.config import prompt_of, prompts_label
from capeval.llm.asker import Asked, ChatQuestion
from capeval.llm.replies import ReplyForm, Words
from capeval.metrics.protocol import ChatMetric, Context, Item, MetricOutput, Settings, Values
from capeval.schema import Usage
from capeval.text import tag_free_json

PROMPTS = "clair-v1"
TOP = 100
"""The best score that the model can give; CLAIR is the score divided by it."""

# The authors' limit; longer reasons are cut off, and asked for again.
_MAX_TOKENS = 1024


def _on_the_scale(score: Any) -> Any:
    # If a model rates from 0 to 1, its best rating would be nearly the worst.
    if isinstance(score, float) and 0 < score <= 1:
        raise ValueError(
            f"is {score} meant on a scale from 0 to 1? Give the score on the scale from 0 to "
            f"{TOP}, as a whole number if it is small"
        )
    return score


class Rating(ReplyForm):
    """The reply: a score from 0 to 100, and the reason."""

    score: Annotated[float, Strict(), Field(ge=0, le=TOP), BeforeValidator(_on_the_scale)]
    reason: Words


class ClairSettings(Settings):
    """Whether the prompt speaks of a video or, as the authors' prompt does, of an image."""

    wording: Literal["video", "image"] = "video"


class Clair(ChatMetric):
    """CLAIR, a fraction; a caption is compared with all its references at once.

    An empty caption gets 0, and the model is not asked.
    """

    name = "clair"
    outputs = (MetricOutput("clair"),)
    # The prompt has 143 tokens, and a reply one or two sentences.
    usual = Usage(calls=1, input_tokens=150, output_tokens=60)
    form = ClairSettings
    chosen: ClairSettings

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        wording = self.chosen.wording
        self.settings = {
            "version": "1",
            "wording": wording,
            "prompts": prompts_label(PROMPTS, wording),
            "references": "together",
            "scores": "strict",
            "empty-caption": "0",
            "failures": "unscored",
            "judge": self.chat.identity,
        }

    async def ask_about(self, item: Item, asked: Asked) -> Values:
        if item.is_empty:
            return Values({self.name: 0.0}, details={"reason": "the caption is empty"})
        captions = {"candidate": [item.caption], "reference": list(item.references)}
        question = ChatQuestion(
            "rate",
            prompt_of(PROMPTS, self.chosen.wording, {"captions": tag_free_json(captions)}),
            Rating,
            _MAX_TOKENS,
            (item.caption, *item.references),
        )
        rating = await self.ask(question, asked, lambda rating: rating)
        details = {"score": rating.score, "reason": rating.reason}
        return Values({self.name: rating.score / TOP}, details=details)
