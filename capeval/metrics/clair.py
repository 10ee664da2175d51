"""CLAIR (Chan et al., EMNLP 2023): a chat model rates whether captions describe the same thing.

The scale, the temperature and the number of tries are those of the authors' code; the prompt is in
other words, and docs/metrics-clair.md lists what else differs.
"""

from __future__ import annotations

from typing import Any

from capeval.errors import ReplyError
from capeval.files.packaged import prompts_label, tag_free_json
from capeval.llm.replies import TEXT, ReplyForm, in_form, object_of
from capeval.llm.types import ReplySchema
from capeval.metrics.chat_metric import Asked, ChatMetric, Question
from capeval.metrics.protocol import Context, Item, Output, Scored
from capeval.schema import Usage
from capeval.text import shown, storable

PROMPTS = "clair-v1"
TOP = 100
"""The best score that the model can give; CLAIR is the score divided by it."""

# The authors' limit; longer reasons are cut off, and asked for again.
_MAX_TOKENS = 1024
_REPLY_TOKENS = 60
_SCHEMA = ReplySchema("rating", object_of(score={"type": "number"}, reason=TEXT))


class _Rating(ReplyForm):
    score: Any
    reason: str


class Clair(ChatMetric):
    """CLAIR, a fraction; a caption with several references is compared with all of them at once.

    An empty caption gets 0, and the model is not asked.
    """

    name = "clair"
    outputs = (Output("clair"),)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._wording = context.options.clair_wording
        self.settings = {
            "version": "1",
            "wording": self._wording,
            "prompts": prompts_label(PROMPTS, self._wording),
            "references": "together",
            "scores": "strict",
            "empty-caption": "0",
            "failures": "unscored",
            "judge": self.chat.identity,
        }

    async def ask_about(self, item: Item, asked: Asked) -> Scored:
        """Return the rating, with the model's reason in the details."""
        if item.is_empty:
            return Scored({self.name: 0.0}, details={"reason": "the caption is empty"})
        score, reason = await self.ask(self._question(item), read_rating, asked)
        return Scored({self.name: score / TOP}, details={"score": score, "reason": reason})

    def expected(self, item: Item) -> Usage:
        """Return the one call, which an empty caption does not need."""
        return Usage() if item.is_empty else self._question(item).expected(_REPLY_TOKENS)

    def _question(self, item: Item) -> Question:
        captions = {"candidate": [item.caption], "reference": list(item.references)}
        return Question(
            "rate",
            PROMPTS,
            self._wording,
            {"captions": tag_free_json(captions)},
            _SCHEMA,
            _MAX_TOKENS,
            (item.caption, *item.references),
        )


def read_rating(value: Any, notes: list[str]) -> tuple[float, str]:
    """Return the score, from 0 to 100, and the reason of a reply; raises `ReplyError`.

    >>> read_rating({"score": 85, "reason": "Same dog."}, [])
    (85.0, 'Same dog.')
    """
    del notes
    given = in_form(_Rating, value)
    score = given.score
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= TOP:
        raise ReplyError(f"the score must be one number from 0 to {TOP}, not {shown(score)}")
    if isinstance(score, float) and 0 < score <= 1:
        # A model that rates from 0 to 1 writes it so. Taken as it is, its best rating would be
        # nearly the worst.
        raise ReplyError(
            f"is {shown(score)} meant on a scale from 0 to 1? Give the score on the scale from 0 "
            f"to {TOP}, as a whole number if it is small"
        )
    return float(score), storable(given.reason)
