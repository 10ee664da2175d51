"""The strategies that turn a reply into an answer, by the names of `--select`.

Some leave the replies that no rule decides to a chat model.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from capeval.config import prompt_of, prompts_label
from capeval.errors import ReplyError, UsageError
from capeval.llm.asker import QUESTION_FAILURES, Asker
from capeval.llm.money import CHARACTERS
from capeval.llm.replies import (
    ChatRequest,
    Number,
    ReplyBroken,
    ReplyForm,
    ReplySchema,
    in_form,
    object_of,
    read_reply,
)
from capeval.mcq.exact import Reading, read_answer
from capeval.runs.concurrency import work_through
from capeval.runs.engine import Labels, Plan, ResumableTask, Spent, Stored
from capeval.schema import OPTION_LETTERS, Response, Usage
from capeval.text import nearest, one_line, shown, storable

# What evaluation harnesses store in place of a reply if a call fails: VLMEvalKit in a reply, code
# derived from FastChat as the whole reply.
_FAILURE, _WHOLE_FAILURE = "Failed to obtain answer via API", "$ERROR$"


class ReplyToGrade:
    """A response to grade; `seed` is for random choices."""

    def __init__(self, response: Response, seed: int = 0) -> None:
        self.response, self.options, self.seed = response, response.options, seed
        self.reply = response.reply or ""
        self.is_empty = not self.reply.strip()
        self.right = OPTION_LETTERS.index(response.answer)

    @cached_property
    def failure(self) -> str | None:
        """Why there is no reply: a failed call, by capeval or by another harness."""
        if self.response.reply is None:
            return self.response.reason or "no reply"
        found = _FAILURE if _FAILURE in self.reply else None
        found = found or (_WHOLE_FAILURE if self.reply.strip() == _WHOLE_FAILURE else None)
        return f"the reply is another harness's failure message: {found}" if found else None

    @cached_property
    def exact(self) -> Reading:
        return read_answer(self.reply, self.options)


# ---- How published code reads replies ------------------------------------------------------------

# These readers are wrong in known ways ("Based on …" is B): they exist so that published numbers
# can be reproduced, and the difference counted.

_FIRST = (
    "The best answer is",
    "The correct answer is",
    "The answer is",
    "The answer",
    # Commas are missing in the published lists: of these four prefixes, none is ever removed alone.
    "The best option isThe correct option is",
    "Best answer:Best option:",
)

PREFIXES: Mapping[str, tuple[str, ...]] = {
    "tuna": (*_FIRST, "Answer:", "Option:"),
    "video-mme": (*_FIRST, "Answer:", "Option:", "The correct answer", "The correct option"),
}
"""The versions of the list of prefixes: in VLMEvalKit and TUNA's repository, and in the script that
Video-MME's README links to."""

_CAPITAL = re.compile("[A-D]")


def first_capital(reply: str, version: str) -> int | None:
    """Return the option of the first capital A to D once fixed prefixes are removed.

    >>> first_capital("Answer: C", "tuna")
    2
    >>> first_capital("Based on the video, it is C", "video-mme")
    1
    """
    text = reply.strip()
    for prefix in PREFIXES[version]:
        text = text.replace(prefix, "")
    found = _CAPITAL.search(text)
    return None if found is None else "ABCD".index(found[0])


_TOMATO_SENTENCE = re.compile(r"Answer is:?\(?(?P<letter>[A-Fa-f])\)?")


def tomato_patterns(reply: str, options: Sequence[str]) -> int | None:
    """Return the option that TOMATO's three patterns find; the rest is left to a model.

    A letter alone, "LETTER: TEXT" where the text has no lower-case letters, and "Answer is" with a
    letter directly behind it.

    >>> tomato_patterns("b", ["1", "2"]), tomato_patterns("A: 1", ["1", "2"])
    (1, 0)
    >>> tomato_patterns("Answer is:B", ["1", "2"]), tomato_patterns("Answer is: B", ["1", "2"])
    (1, None)
    """
    text, letters = reply.strip(), OPTION_LETTERS[: len(options)]
    for number, option in enumerate(options):
        if text.upper() == f"{letters[number]}: {option}":
            return number
    found = _TOMATO_SENTENCE.fullmatch(text)
    letter = (found["letter"] if found else text).upper()
    return letters.index(letter) if len(letter) == 1 and letter in letters else None


# ---- Decisions -----------------------------------------------------------------------------------

CHANCE, MODEL_FAILED = "chance", "model failed"
"""The rules of a random choice, and of a reply that the reading model failed to read."""

# Sums that differ by less are ties: rounding errors of floats are smaller than this.
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Decision:
    """The option that a strategy chose, or None, and the rule that decided.

    `unscored` is why the response cannot be graded at all; such a response has no option.
    """

    option: int | None
    rule: str
    unscored: str = ""

    @property
    def by_chance(self) -> bool:
        return self.rule == CHANCE


Step = Callable[[ReplyToGrade], Decision | None]
"""Returns None if undecided."""


@dataclass(frozen=True)
class Strategy:
    """A way to choose answers: the first of its steps that decides, then a model, then `last`.

    With `reads_reply`, a failed call leaves the response unscored. A `published` strategy
    reproduces published code, and is compared with `exact`.
    """

    name: str
    steps: Sequence[Step]
    asks: Literal["choose", "tomato"] | None = None
    last: Step | None = None
    reads_reply: bool = True
    published: bool = False
    needs_likelihood: bool = False

    def decide(self, asked: ReplyToGrade) -> Decision | None:
        if self.reads_reply and asked.failure is not None:
            return Decision(None, "failed call", unscored=asked.failure)
        for step in self.steps:
            decision = step(asked)
            if decision is not None:
                return decision
        if self.asks is not None and not (self.asks == "choose" and asked.is_empty):
            return None
        return self.end(asked, asked.exact.rule)

    def end(self, asked: ReplyToGrade, rule: str) -> Decision:
        decision = self.last(asked) if self.last else None
        return decision or Decision(None, rule)

    @property
    def prompt_label(self) -> str:
        """The name of the model's prompt with the beginning of its hash, for the signature."""
        return prompts_label(_PROMPTS, self.asks) if self.asks else ""


def _at_random(asked: ReplyToGrade) -> Decision:
    """Choose an option at random by the seed and the question, not by the order of responses."""
    response = asked.response
    name = "\0".join((str(asked.seed), response.benchmark, response.id, "0"))
    number = int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:8], "big")
    return Decision(number % len(response.options), CHANCE)


def _exact(asked: ReplyToGrade) -> Decision | None:
    found = asked.exact
    return None if found.option is None else Decision(found.option, found.rule)


def _likely(what: Literal["symbol", "symbol_text", "text"]) -> Step:
    """Choose the option with the smallest negative log-likelihood; none if several have it."""

    def step(asked: ReplyToGrade) -> Decision:
        sums = getattr(asked.response.likelihood, what, ())
        if len(sums) != len(asked.options):
            problem = "the response has no likelihood of each option"
            return Decision(None, "no likelihood", unscored=problem)
        least = min(sums)
        near = [n for n, one in enumerate(sums) if one - least <= _TIE * max(1, abs(least))]
        return Decision(near[0], "likelihood") if len(near) == 1 else Decision(None, "tie")

    return step


def _by_likelihood(name: str, likely: Step) -> Strategy:
    reads = name.startswith("exact+")
    steps = [_exact, likely] if reads else [likely]
    return Strategy(name, steps, reads_reply=reads, needs_likelihood=True)


def _first_capital(version: str | None) -> Step:
    def step(asked: ReplyToGrade) -> Decision:
        used = version or ("video-mme" if asked.response.benchmark == "video-mme" else "tuna")
        option = first_capital(asked.reply, used)
        return Decision(option, "no capital A to D" if option is None else "first capital")

    return step


def _tomato(asked: ReplyToGrade) -> Decision | None:
    option = tomato_patterns(asked.reply, asked.options)
    return None if option is None else Decision(option, "pattern")


STRATEGIES: Mapping[str, Strategy] = {
    one.name: one
    for one in (
        Strategy("exact", [_exact]),
        Strategy("exact+random", [_exact, _at_random]),
        _by_likelihood("exact+likelihood-symbol", _likely("symbol")),
        _by_likelihood("exact+likelihood-symbol-text", _likely("symbol_text")),
        _by_likelihood("likelihood-symbol", _likely("symbol")),
        _by_likelihood("likelihood-symbol-text", _likely("symbol_text")),
        _by_likelihood("likelihood-text", _likely("text")),
        Strategy("exact+llm", [_exact], "choose"),
        Strategy("first-capital", [_first_capital(None)], published=True),
        *(
            Strategy(f"first-capital@{version}", [_first_capital(version)], published=True)
            for version in PREFIXES
        ),
        Strategy("tomato", [_tomato], "tomato", _at_random, published=True),
    )
}
"""Every strategy by name, in the order of `--select all`."""

ALL = "all"


def strategy(name: str) -> Strategy:
    try:
        return STRATEGIES[name]
    except KeyError:
        near = nearest(name, [*STRATEGIES, ALL])
        raise UsageError(
            f"--select: {shown(name)} is unknown{near or '.'} Choose from "
            f"{', '.join(STRATEGIES)} or {ALL}"
        ) from None


@dataclass(frozen=True)
class Convention:
    """How a benchmark's own code grades: its strategy, and which replies count."""

    name: str
    select: str
    only_read: bool = False


CONVENTIONS: Mapping[str, Convention] = {
    one.name: one
    for one in (
        # Questions without a response are left out, as in the paper; the published code counts
        # them as wrong.
        Convention("tuna", "first-capital@tuna"),
        Convention("tomato", "tomato"),
        Convention("video-mme", "first-capital@video-mme", only_read=True),
    )
}
"""The benchmarks' own conventions, by the names of `--as`."""


# ---- Replies that a chat model reads -------------------------------------------------------------

_PROMPTS = "mcq-select-v1"
_NONE = "none"

_TRIES = 5
"""How often TOMATO's code asks before it chooses at random."""

# A reply is a letter, or JSON with one.
_REPLY_TOKENS, _MAX_TOKENS = 10, 64
# The end of a reply has its answer; a runaway reply would be paid for with every question.
_LONGEST = 6_000


@dataclass(frozen=True)
class Undecided:
    """A reply that the rules of a strategy leave to a model; `keep` is given its decision."""

    asked: ReplyToGrade
    strategy: Strategy
    keep: Callable[[Decision], None]

    @property
    def choices(self) -> tuple[str, ...]:
        return (*OPTION_LETTERS[: len(self.asked.options)], _NONE)

    def request(self, model: str, repeat: int = 0) -> ChatRequest:
        choices, schema = self.choices, None
        options = dict(zip(choices[:-1], self.asked.options, strict=True))
        # The published prompt knows letters only.
        data: dict[str, Any] = {"reply": self.asked.reply[-_LONGEST:], "options": options}
        listed = ""
        if self.strategy.asks == "choose":
            data = {"question": self.asked.response.question, "options": options} | data
            listed = ", ".join(json.dumps(each, ensure_ascii=False) for each in choices)
            schema = ReplySchema("choice", object_of(choice={"type": "string", "enum": [*choices]}))
        quoted = storable(json.dumps(data, ensure_ascii=False, indent=1))
        prompt = prompt_of(_PROMPTS, self.strategy.asks or "", {"data": quoted, "choices": listed})
        message = {"role": "user", "content": prompt}
        return ChatRequest(model, (message,), _MAX_TOKENS, repeat=repeat, schema=schema)


class _Choice(ReplyForm):
    choice: str | Number


class ReadingReplies(ResumableTask[Plan[Stored[Decision]], Stored[Decision]]):
    """Has a model read replies; each decision is kept in memory as soon as it is known."""

    labels = Labels("reading", "answer", "read", "unread")

    def __init__(
        self, todo: Sequence[Undecided], asker: Asker, model: str, concurrency: int
    ) -> None:
        self._todo, self._asker, self._model = todo, asker, model
        self._concurrency = concurrency

    def expected(self) -> Usage:
        """Return the expected usage, with one call about each distinct prompt.

        TOMATO's reader is called up to five times about a reply.
        """
        asked = {str(one.request(self._model).messages[0]["content"]) for one in self._todo}
        return Usage(
            calls=len(asked),
            input_tokens=sum(len(prompt) // CHARACTERS for prompt in asked),
            output_tokens=len(asked) * _REPLY_TOKENS,
        )

    def plan(self) -> Plan[Stored[Decision]]:
        return Plan(self._model, {}, self._todo)

    async def perform(
        self, plan: Plan[Stored[Decision]], record: Callable[[Stored[Decision]], None]
    ) -> None:
        def keep(one: Undecided, decision: Decision) -> None:
            one.keep(decision)
            record(Stored(one.asked.response.id, decision, decision.unscored or None))

        await work_through(plan.todo, self._decide, concurrency=self._concurrency, record=keep)

    def spent(self) -> Spent:
        return Spent(self._asker.meter.usage, self._asker.meter.spent)

    async def _decide(self, one: Undecided) -> Decision:
        """Return a decision on a reply; a call that fails leaves it unscored."""
        try:
            option = await self._choose(one)
        except QUESTION_FAILURES as error:
            reason = f"the model that reads replies failed: {one_line(str(error))}"
            return Decision(None, MODEL_FAILED, unscored=reason)
        if option is None:
            return one.strategy.end(one.asked, "model: none")
        return Decision(option, "model")

    async def _choose(self, one: Undecided) -> int | None:
        choices = one.choices
        if one.strategy.asks == "choose":

            def read(value: Any, _: list[str]) -> str:
                choice = str(in_form(_Choice, value).choice)
                if choice not in choices:
                    raise ReplyError(f"choice must be one of {', '.join(choices)}")
                return choice

            found = await self._asker.ask(
                one.request(self._model), lambda reply: read_reply(reply.text, read)[0]
            )
            return None if found.value == _NONE else choices.index(found.value)
        for repeat in range(_TRIES):
            try:
                request = one.request(self._model, repeat)
                answer = await self._asker.ask(request, lambda reply: reply.text, attempts=1)
            except ReplyBroken:
                continue  # an empty reply is no letter
            # Published code accepts the bare letter alone.
            if answer.value in choices[:-1]:
                return choices.index(answer.value)
        return None
