"""VDCscore, the metric of VDC (Chai et al., ICLR 2025, "AuroraCap"): a caption answers questions.

Each question about the video is answered from the caption alone, and the answer is compared with
the correct one. docs/metrics-vdcscore.md lists what differs from the authors' code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from capeval.errors import (
    InputError,
    ReplyError,
    RequestRefused,
    RetriesExhausted,
    UsageError,
)
from capeval.files.packaged import prompts_label
from capeval.files.question_answers import Numbered, load_questions
from capeval.metrics.chat_metric import Asked, ChatMetric
from capeval.metrics.protocol import Context, Item, Output, Scored, Summary, mean_of
from capeval.metrics.vdcscore_replies import (
    ANSWER_TOKENS,
    COMPARISON_TOKENS,
    PROMPTS,
    TOP,
    answering,
    comparing,
    read_answer,
    read_comparison,
)
from capeval.schema import Usage
from capeval.schema.question_answer import QuestionAnswer
from capeval.text import nearest, shown, storable

ACCURACY, SCORE = "vdcscore-accuracy", "vdcscore-score"
_NO_QUESTIONS = "the video has no questions"
_OF_ONE_QUESTION = (ReplyError, RequestRefused, RetriesExhausted)
"""Failures that say nothing about other questions."""


@dataclass(frozen=True)
class Graded:
    """A question, what the caption answers, and how that compares with the correct answer."""

    number: int
    asked: QuestionAnswer
    predicted: str
    match: bool
    score: int

    def as_json(self) -> dict[str, Any]:
        """Return what is kept in the details."""
        one = self.asked
        return {
            "number": self.number,
            "question": storable(one.question),
            "answer": storable(one.answer),
            **({} if one.category is None else {"category": storable(one.category)}),
            "predicted": self.predicted,
            "match": "yes" if self.match else "no",
            "score": self.score,
        }


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
        # As many questions at once as other metrics have captions: what a killed process had paid
        # for and not yet stored is as little.
        self._turns = asyncio.Semaphore(self.chat.concurrency)
        self.concurrency = self._captions_at_once()

    def _captions_at_once(self) -> int:
        # As many as it takes for a question to be ready whenever a turn is.
        videos = self._questions.videos
        each = max(1, sum(map(len, videos.values())) // len(videos))
        return 1 + -(-self.chat.concurrency // each)

    def check(self, items: Sequence[Item]) -> None:
        """Check that there are questions about every video; raises `InputError`."""
        known, file = self._questions.videos, self._questions.place
        unknown = [item.index for item in items if item.index not in known]
        if items and len(unknown) == len(items):
            raise InputError(
                "no caption has questions (captions: "
                f"{shown(unknown[0])}…; questions: {shown(next(iter(known)))}…); name the "
                "matching --qa",
                file=file,
            )
        if unknown and not self.context.options.ignore_unknown:
            more = f" ({len(unknown)} captions)" if len(unknown) > 1 else ""
            raise InputError(
                f"has no questions for this caption's video{nearest(unknown[0], list(known))}"
                f"{more}; add them, or leave such captions undefined with --ignore-unknown",
                file=file,
                where=f"index {shown(unknown[0])}",
            )

    async def ask_about(self, item: Item, asked: Asked) -> Scored:
        """Return accuracy and score, with every question and answer in the details."""
        questions = self._asked_of(item)
        if not questions:
            return Scored({}, {ACCURACY: _NO_QUESTIONS, SCORE: _NO_QUESTIONS})
        if item.is_empty:
            return Scored({ACCURACY: 0.0, SCORE: 0.0}, details={"reason": "the caption is empty"})
        each = [Asked() for _ in questions]
        stopped: list[Exception] = []

        async def grade(question: Numbered, kept: Asked) -> Graded:
            async with self._turns:
                if stopped:
                    raise stopped[0]
                try:
                    return await self._graded(item.caption, *question, kept)
                except _OF_ONE_QUESTION:
                    raise
                except Exception as error:
                    stopped.append(error)
                    raise

        # None is cancelled where another fails: its calls are paid for, and go into the cache.
        ended = await asyncio.gather(*map(grade, questions, each), return_exceptions=True)
        for one in each:
            asked.usage += one.usage
            asked.models |= one.models
            asked.notes += one.notes
        graded = [one for one in ended if isinstance(one, Graded)]
        if len(graded) < len(ended):
            _raise_first(questions, ended)
        values = {
            ACCURACY: sum(one.match for one in graded) / len(graded),
            SCORE: sum(one.score for one in graded) / len(graded),
        }
        return Scored(values, details={"questions": [one.as_json() for one in graded]})

    async def _graded(
        self, caption: str, number: int, question: QuestionAnswer, asked: Asked
    ) -> Graded:
        text = question.question
        predicted = await self.ask(answering(number, caption, text), read_answer, asked)
        request = comparing(number, text, question.answer, predicted)
        read = partial(read_comparison, stage=request.stage)
        return Graded(number, question, predicted, *await self.ask(request, read, asked))

    def summarise(self, scored: Sequence[tuple[Item, Scored]]) -> Mapping[str, Summary]:
        """Return the means over captions, and those of each group."""
        return {output.name: _with_groups(output.name, scored) for output in self.outputs}

    def expected(self, item: Item) -> Usage:
        """Return two calls for each question; equal requests are made once."""
        if item.is_empty:
            return Usage()
        questions = [one for _, one in self._asked_of(item)]
        texts = dict.fromkeys(one.question for one in questions)
        pairs = dict.fromkeys((one.question, one.answer) for one in questions)
        usage = Usage()
        for text in texts:
            usage += answering(0, item.caption, text).expected(ANSWER_TOKENS)
        for text, answer in pairs:
            usage += comparing(0, text, answer, answer).expected(COMPARISON_TOKENS)
        return usage

    def _asked_of(self, item: Item) -> tuple[Numbered, ...]:
        return self._questions.videos.get(item.index, ())


def _raise_first(
    questions: Sequence[Numbered], ended: Sequence[Graded | BaseException]
) -> NoReturn:
    """Raise the first failure that concerns all captions, else the first of a question."""
    failed = [
        (number, one)
        for (number, _), one in zip(questions, ended, strict=True)
        if isinstance(one, BaseException)
    ]
    for _, one in failed:
        if not isinstance(one, _OF_ONE_QUESTION):
            raise one
    number, first = failed[0]
    others = f" (and {len(failed) - 1} more failed)" if len(failed) > 1 else ""
    message = f"question {number}: {first}{others}"
    if isinstance(first, RequestRefused):
        raise RequestRefused(message) from first
    raise (ReplyError if isinstance(first, ReplyError) else RetriesExhausted)(message) from first


def _with_groups(name: str, scored: Sequence[tuple[Item, Scored]]) -> Summary:
    whole = mean_of(name, scored)
    groups: dict[str, list[tuple[Item, Scored]]] = {}
    for item, one in scored:
        if item.group is not None:
            groups.setdefault(item.group, []).append((item, one))
    means = {group: mean_of(name, groups[group]).value for group in sorted(groups)}
    found = {group: mean for group, mean in means.items() if mean is not None}
    return Summary(whole.value, whole.n, whole.undefined, whole.reason, found)


__all__ = ["ACCURACY", "SCORE", "VDCscore"]
