"""A response as the model was asked: its options and their symbols."""

from __future__ import annotations

from collections.abc import Mapping

from capeval.mcq.exact import LETTERS, Reading, read_answer
from capeval.schema.question import OPTION_LETTERS, Response

SYMBOLS: Mapping[str, tuple[str, ...]] = {
    "letters": LETTERS,
    "numbers": tuple(str(number) for number in range(1, 27)),
}
"""What a prompt can call the options, by the name of the set."""

FAILURES = ("Failed to obtain answer via API",)
"""What evaluation harnesses store in place of a reply if a call fails: VLMEvalKit's message."""


WHOLE_FAILURES = ("$ERROR$",)
"""The same as whole replies: what code derived from FastChat stores."""


_SHORTEST_FAILURE = min(map(len, (*FAILURES, *WHOLE_FAILURES)))


class Asked:
    """One response, with what the grading needs of it."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.symbols = SYMBOLS[response.symbols][: len(response.options)]
        self.options = response.options
        # A `cached_property` takes a lock, which is noticed with 100,000 replies.
        self._exact: Reading | None = None

    @property
    def failure(self) -> str | None:
        """Why there is no reply: a failed call, by capeval or by another harness."""
        reply = self.response.reply
        if reply is None:
            return self.response.reason or "no reply"
        if len(reply) < _SHORTEST_FAILURE:
            return None
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

    @property
    def exact(self) -> Reading:
        """What `exact` reads."""
        if self._exact is None:
            self._exact = read_answer(self.reply, self.options, self.symbols)
        return self._exact

    @property
    def right(self) -> int:
        """The number of the right option."""
        return OPTION_LETTERS.index(self.response.answer)


def letter_of(option: int | None) -> str | None:
    """Return the letter of an option's number, as files have it."""
    return None if option is None else OPTION_LETTERS[option]
