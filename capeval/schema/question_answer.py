"""Questions about a video with their correct answers, as VDCscore asks them of a caption."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from capeval.schema.ids import Id

Text = Annotated[str, StringConstraints(strict=True)]


class QuestionAnswer(BaseModel):
    """A question with its correct answer; other fields are kept.

    Either text may be empty, or only "?": the published files have a few such questions.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    question: Text
    answer: Text
    category: str | None = None

    @property
    def is_blank(self) -> bool:
        """Whether the question or its answer has no letter or digit: nothing can be compared."""
        return not all(any(map(str.isalnum, text)) for text in (self.question, self.answer))


class VideoQuestions(BaseModel):
    """The questions about one video, in the order that numbers them from 1."""

    model_config = ConfigDict(frozen=True, extra="allow")

    index: Id
    questions: tuple[QuestionAnswer, ...] = Field(min_length=1)
