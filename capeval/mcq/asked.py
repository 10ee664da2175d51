"""A response as the model was asked: its options and their symbols."""

from __future__ import annotations

from functools import cached_property

from capeval.mcq.exact import Reading, read_answer
from capeval.schema.question import OPTION_LETTERS, SYMBOLS, Response

FAILURES = ("Failed to obtain answer via API",)
"""What evaluation harnesses store in place of a reply if a call fails: VLMEvalKit's message."""

WHOLE_FAILURES = ("$ERROR$",)
"""The same as whole replies: what code derived from FastChat stores."""


class Asked:
    """One response, with what the grading needs of it."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.symbols = SYMBOLS[response.symbols][: len(response.options)]
        self.options = response.options

    @property
    def failure(self) -> str | None:
        """Why there is no reply: a failed call, by capeval or by another harness."""
        reply = self.response.reply
        if reply is None:
            return self.response.reason or "no reply"
        found = [one for one in FAILURES if one in reply]
        found += [one for one in WHOLE_FAILURES if one == reply.strip()]
        return f"the reply is another harness's failure message: {found[0]}" if found else None

    @property
    def reply(self) -> str:
        """The reply; empty if there is none."""
        return self.response.reply or ""

    @property
    def is_empty(self) -> bool:
        """Whether a completed call returned no text."""
        return not self.reply.strip()

    @cached_property
    def exact(self) -> Reading:
        """What `exact` reads."""
        return read_answer(self.reply, self.options, self.symbols)

    @property
    def right(self) -> int:
        """The number of the right option."""
        return OPTION_LETTERS.index(self.response.answer)


def letter_of(option: int | None) -> str | None:
    """Return the letter of an option's number, as files have it."""
    return None if option is None else OPTION_LETTERS[option]
