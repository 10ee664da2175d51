"""Which judge judges where none is named: the one rule, and the reason that is printed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from capeval.errors import UsageError
from capeval.judging.options import JudgeOptions
from capeval.judging.registry import LEXICAL
from capeval.judging.retirement import entry_for, retired
from capeval.llm.client import DEFAULT_URL, endpoint_url
from capeval.llm.redact import public_url

DEFAULT_MODEL = "gpt-4o-2024-08-06"
"""The judge of the TUNA paper, by which every published score was made."""


@dataclass(frozen=True)
class DefaultJudge:
    """The name of a judge, None for the endpoint's only model, and why it is chosen."""

    name: str | None
    reason: str


def is_configured(options: JudgeOptions) -> bool:
    """Return whether a chat model can be reached: a key or a base URL is known."""
    known = (options.base_url, options.api_key, os.environ.get("OPENAI_API_KEY"))
    return any(known) or bool(os.environ.get("OPENAI_BASE_URL")) or options.client is not None


def default_judge(
    options: JudgeOptions, *, is_sample: Callable[[], bool] = lambda: False, offline: bool = False
) -> DefaultJudge:
    """Return the judge for options that name none.

    1. Without a key or an endpoint, the bundled sample is judged by the lexical baseline.
    2. OpenAI's own API has the paper's judge, until the day on which it ends. Afterwards no other
       model takes its place: scores of another judge are other scores.
    3. Any other endpoint has its only model.

    Parameters
    ----------
    is_sample : whether only the bundled sample is to be judged
    offline : whether nothing will be called, so that no key is needed

    Raises
    ------
    UsageError
        No judge is configured, or the paper's judge is retired.
    """
    if not is_configured(options):
        if is_sample():
            return DefaultJudge(
                LEXICAL, "the default for the sample, because no key and no endpoint are set"
            )
        if not offline:
            raise UsageError(
                "no judge is configured: set OPENAI_API_KEY, name a local server with --base-url, "
                "or use the baseline that only compares words with --judge lexical"
            )
    if options.client is None and public_url(endpoint_url(options.base_url)) != DEFAULT_URL:
        return DefaultJudge(None, "the only model of this endpoint")
    entry = entry_for(DEFAULT_MODEL, DEFAULT_URL)
    if options.client is None and entry and entry.is_retired:
        raise UsageError(f"no judge is named, and {retired(DEFAULT_MODEL, entry)}")
    return DefaultJudge(DEFAULT_MODEL, "the default, because it is the paper's judge")
