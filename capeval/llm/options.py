"""The options of commands that ask a chat model which is not their judge."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING

from capeval.options import JUDGE, CallOptions, Effort, declares, ignore, option, python_only

if TYPE_CHECKING:
    from capeval.llm.types import ChatClient


@declares
class ChatOptions(CallOptions):
    """Which chat model is asked.

    Parameters
    ----------
    judge : The chat model. By default gpt-4o-2024-08-06, or the server's only model.
    base_url : An OpenAI-compatible server. By default OPENAI_BASE_URL.
    client : Replaces the network, for tests and recordings.
    on_notice : Called with each notice, which is one line.
    """

    _: KW_ONLY
    judge: str | None = option(None, panel=JUDGE, metavar="MODEL")
    base_url: str | None = option(None, panel=JUDGE, metavar="URL")
    reasoning: Effort | None = python_only(None, "How much it reasons, as in `capeval judge`.")
    client: "ChatClient | None" = python_only(None, method="complete", shown=False)
    on_notice: Callable[[str], None] = python_only(ignore, shown=False)
