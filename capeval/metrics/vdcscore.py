"""VDCscore, the metric of VDC (Chai et al., ICLR 2025, "AuroraCap"): a caption answers questions.

Each question about the video is answered from the caption alone, and the answer is compared with
the correct one. docs/metrics.md lists what differs from the authors' code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, Strict

from capeval.errors import UsageError
from capeval.files.captions import check_known
from capeval.files.packaged import prompt_of, prompts_label, tag_free_json
from capeval.files.question_answers import Numbered, load_questions
from capeval.llm.questions import QUESTION_FAILURES, Asked, FormT, Question
from capeval.llm.replies import ReplyForm
from capeval.metrics.chat_metric import ChatMetric
from capeval.metrics.protocol import (
    Context,
    Item,
    Outcome,
    Output,
    Scored,
    Summary,
    Unscored,
    mean_of,
    means_by_group,
)
from capeval.schema import Usage
from capeval.schema.question_answer import QuestionAnswer
from capeval.text import storable

ACCURACY, SCORE = "vdcscore-accuracy", "vdcscore-score"
PROMPTS = "vdcscore-v1"
TOP = 5
"""The best score of an answer."""

_NO_QUESTIONS = "the video has no questions"
# The authors' limit for both; what is cut off is asked for again, with more.
_MAX_TOKENS = 256


def _with_characters(answer: str) -> str:
    # The form of the prompt, sent back, has no letter either.
    if not any(map(str.isalnum, answer)):
        raise ValueError("the answer must be text")
    return storable(answer.strip())


class Answer(ReplyForm):
    """What the caption answers."""

    answer: Annotated[str, AfterValidator(_with_characters)]


class Comparison(ReplyForm):
    """Whether an answer matches the correct one, and its score."""

    match: Literal["yes", "no"]
    score: Annotated[int, Strict(), Field(ge=0, le=TOP)]


class VDCscore(ChatMetric):
    """VDCscore: the share of questions that a caption answers correctly, and their mean score.

    A value of a caption is the mean over its video's questions, and that of all captions the mean
    over captions. The accuracy is a fraction; the score is from 0 to 5. An empty caption gets 0,
    and the model is not asked. If one of its questions fails, a caption is unscored.
    """

    name = "vdcscore"
    outputs = (Output(ACCURACY), Output(SCORE, unit="number", scale=(0, TOP)))
    uses_references = False

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        if context.options.qa is None:
            raise UsageError(
                "vdcscore needs questions with their correct answers: name their file with --qa"
            )
        self._questions = load_questions(context.options.qa)
        for notice in self._questions.notices:
            context.on_notice(notice)
        self.settings = {
            "version": "1",
            "prompts": prompts_label(PROMPTS),
            "questions": self._questions.label,
            "scores": "integers",
            "zeros": "counted",
            "empty-caption": "0",
            "failures": "unscored",
            "judge": self.chat.identity,
            "authors-judge": "Llama-3.1-8B-Instruct",
        }
        # As many as it takes for a question to be ready whenever the model is.
        videos = self._questions.videos
        each = -(-sum(map(len, videos.values())) // len(videos))
        self.concurrency = 1 + -(-self.chat.concurrency // each)
        # Of each question: two prompts of 99 and 129 tokens, the question in both, and the answers;
        # the replies are a sentence, and two words with their keys.
        self.usual = Usage(calls=2 * each, input_tokens=310 * each, output_tokens=45 * each)
        self.times_sent = each

    def check(self, items: Sequence[Item]) -> None:
        """Check that there are questions about every video; raises `InputError`."""
        indexes = [item.index for item in items]
        ignore = self.context.options.ignore_unknown
        known, file = self._questions.videos, self._questions.place
        check_known(indexes, known, "qa", file=file, ignore_unknown=ignore)

    async def ask_about(self, item: Item, asked: Asked) -> Outcome:
        """Return accuracy and score, with every question and answer in the details."""
        questions = self._questions.videos.get(item.index, ())
        if not questions:
            return Scored({}, {ACCURACY: _NO_QUESTIONS, SCORE: _NO_QUESTIONS})
        if item.is_empty:
            return Scored({ACCURACY: 0.0, SCORE: 0.0}, details={"reason": "the caption is empty"})
        each = [Asked() for _ in questions]
        # None is cancelled where another fails: its calls are paid for, and go into the cache.
        ended = await asyncio.gather(
            *(
                self._graded(item.caption, question, part)
                for question, part in zip(questions, each, strict=True)
            ),
            return_exceptions=True,
        )
        for part in each:
            asked.add(part)
        failed = {
            number: one
            for (number, _), one in zip(questions, ended, strict=True)
            if isinstance(one, BaseException)
        }
        for one in failed.values():
            if not isinstance(one, QUESTION_FAILURES):
                raise one
        for number, one in failed.items():
            others = f" (and {len(failed) - 1} more failed)" if len(failed) > 1 else ""
            return Unscored(f"question {number}: {one}{others}")
        graded = [one for one in ended if not isinstance(one, BaseException)]
        values = {
            ACCURACY: sum(one["match"] == "yes" for one in graded) / len(graded),
            SCORE: sum(one["score"] for one in graded) / len(graded),
        }
        return Scored(values, details={"questions": graded})

    async def _graded(self, caption: str, numbered: Numbered, asked: Asked) -> dict[str, Any]:
        """Return a question, what the caption answers, and how that compares, as it is kept."""
        number, one = numbered
        question = _request(
            f"question {number}: answer",
            "answer",
            {"description": caption, "question": one.question},
            Answer,
        )
        predicted = await self.ask(question, asked, lambda reply: reply.answer)
        comparison = _request(
            f"question {number}: comparison",
            "compare",
            {"question": one.question, "right_answer": one.answer, "answer_to_check": predicted},
            Comparison,
        )
        found = await self.ask(comparison, asked, lambda reply: reply)
        return {**_kept(number, one), "predicted": predicted, **found.model_dump()}

    def summarise(self, scored: Sequence[tuple[Item, Scored]]) -> Mapping[str, Summary]:
        """Return the means over captions, and those of each group."""
        found = {}
        for output in self.outputs:
            one, means = mean_of(output.name, scored), means_by_group(output.name, scored)
            groups = {group: means[group] for group in sorted(filter(None, means))}
            found[output.name] = Summary(one.value, one.n, one.undefined, one.reason, groups)
        return found


def _request(stage: str, name: str, data: dict[str, str], form: type[FormT]) -> Question[FormT]:
    material = tuple(data.values())
    prompt = prompt_of(PROMPTS, name, {"data": tag_free_json(data)})
    return Question(stage, prompt, form, _MAX_TOKENS, material)


def _kept(number: int, one: QuestionAnswer) -> dict[str, Any]:
    return {
        "number": number,
        "question": storable(one.question),
        "answer": storable(one.answer),
        **({} if one.category is None else {"category": storable(one.category)}),
    }
