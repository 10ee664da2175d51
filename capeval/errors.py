"""Every exception that capeval raises on purpose.

Each becomes one line on stderr and an exit code.

    CapevalError
    ├── InputError              a file or a value in it is not valid             exit 2
    │   └── VideoError          a video yields no frames                         exit 2
    ├── UsageError              an option or argument is wrong                   exit 2
    │   └── MissingExtra        an optional dependency is not installed          exit 2
    ├── RunLocked               another process is working on the same run       exit 2
    ├── EndpointError           a model endpoint did not give a usable reply
    │   ├── EndpointRefused     refused key, unknown model, no quota: the run stops      exit 2
    │   ├── EndpointDown        it stopped answering: the run stops                      exit 3
    │   │   └── ModelDown       a model here fails in one way again and again: the run stops  exit 3
    │   ├── RequestRefused      this one request is refused (filter, firewall)   unscored
    │   │   └── RequestTooLong  it does not fit the model's context                  unscored
    │   └── RetriesExhausted    every attempt failed                             unscored
    ├── ReplyError              a reply does not follow the requested format     asked again
    ├── JudgeError              a user's judge failed, or its verdict is wrong   unscored
    └── BudgetReached           the cost cap is spent                            exit 3

Any other exception is a bug (exit 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from capeval.text import one_line


class CapevalError(Exception):
    """Base class; `exit_code` is the exit code of the command line.

    If an error stops a run and `lets_calls_finish`, calls in progress, which are paid for, are
    awaited. `next_step` tells the user what to do after such an error.
    """

    exit_code = 1
    lets_calls_finish = False

    def __str__(self) -> str:
        return one_line(super().__str__())


class InputError(CapevalError):
    """Bad input; the message is `FILE: WHERE: FIELD: what is wrong and what to do`.

    `where` is a line ("line 3"), an index ('index "TUNA_0001"') or both; `field` a dotted path.
    """

    exit_code = 2

    def __init__(
        self, message: str, *, file: object = None, where: str = "", field: str = ""
    ) -> None:
        super().__init__(message)
        self.where, self.field = where, field
        self.file = None if file is None else str(file)

    @property
    def message(self) -> str:
        """What is wrong and what to do, without the place."""
        return str(self.args[0])

    def __str__(self) -> str:
        parts = (self.file or "", self.where, self.field, self.message)
        return one_line(": ".join(part for part in parts if part))


class VideoError(InputError):
    """A video yields no frames; a run leaves it without a caption, for this reason."""


class UsageError(CapevalError):
    """A wrong option, argument or combination of them."""

    exit_code = 2


class MissingExtra(UsageError):
    """An optional dependency is not installed: `what_needs_what`, and the extra that has it."""

    def __init__(self, what_needs_what: str, extra: str = "generate", otherwise: str = "") -> None:
        how = f"pip install '.[{extra}]' in the clone of capeval{otherwise}"
        super().__init__(f"{what_needs_what} (not installed): {how}")


@contextmanager
def needing(what_needs_what: str, extra: str) -> Iterator[None]:
    """Raise `MissingExtra` if an import of the block fails."""
    try:
        yield
    except ImportError:
        raise MissingExtra(what_needs_what, extra) from None


class RunLocked(CapevalError):
    """Another process is working on this run."""

    exit_code = 2


class EndpointError(CapevalError):
    """A model endpoint did not give a usable reply."""

    exit_code = 3


class EndpointRefused(EndpointError):
    """The endpoint refuses the key, the model or the account, or cannot be reached at first."""

    exit_code = 2
    lets_calls_finish = True


class EndpointDown(EndpointError):
    """The endpoint stopped answering; further calls would only waste time."""

    next_step = "Run the same command again once the endpoint answers."


class ModelDown(EndpointDown):
    """A model in this process fails on one call after another in the same way."""

    next_step = "Run the same command again to finish; failed items come last."


class RequestRefused(EndpointError):
    """The endpoint refuses this one request (content filter, input too long, firewall)."""


class RequestTooLong(RequestRefused):
    """The request does not fit the model's context: it would be refused again."""


class RetriesExhausted(EndpointError):
    """Every attempt at this request failed."""


class ReplyError(CapevalError):
    """A reply does not follow the requested format; the message is sent back to the model."""


class JudgeError(CapevalError):
    """A judge of another package failed on one caption, or returned an unusable verdict."""


class BudgetReached(CapevalError):
    """The cost cap is reached; the rest stays unscored until the next run."""

    next_step = "Raise --max-cost and run the same command again to finish the rest."
    exit_code = 3
    lets_calls_finish = True
