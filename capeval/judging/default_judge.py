"""The judge where none is named, and judges that end, or have ended."""

from __future__ import annotations

import os
from collections.abc import Callable

from capeval.errors import UsageError
from capeval.judging.options import JudgeOptions
from capeval.judging.registry import LEXICAL
from capeval.llm.client import DEFAULT_URL, endpoint_url
from capeval.llm.judge_models import JudgeModel, find_judge
from capeval.llm.redact import public_url
from capeval.schema import endpoint_name
from capeval.text import Loss, counted

DEFAULT_MODEL = "gpt-4o-2024-08-06"
"""The judge of the TUNA paper, by which every published score was made."""


_ENVIRONMENT = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
# Enough to judge with the old and the new judge, and to have the result looked at.
WARNED_DAYS = 90


def default_judge(
    options: JudgeOptions, *, is_sample: Callable[[], bool] = lambda: False, offline: bool = False
) -> tuple[str | None, str]:
    """Return the judge for options that name none, and why it is chosen.

    1. Without a key or an endpoint, the bundled sample is judged by the lexical baseline.
    2. OpenAI's own API has the paper's judge, until the day on which it ends. Afterwards no other
       model takes its place: scores of another judge are other scores.
    3. Any other endpoint has its only model: its name is None.

    Parameters
    ----------
    is_sample : whether only the bundled sample is to be judged
    offline : whether nothing will be called, so that no key is needed

    Raises
    ------
    UsageError
        No judge is configured, or the paper's judge is retired.
    """
    known = (options.base_url, options.api_key, *map(os.environ.get, _ENVIRONMENT))
    if options.client is None and not any(known):
        if is_sample():
            return LEXICAL, "the default for the sample, because no key and no endpoint are set"
        if not offline:
            raise UsageError(
                "no judge is configured: set OPENAI_API_KEY, name a local server with --base-url "
                "(of eval: --judge-url), or use the baseline that only compares words with "
                "--judge lexical"
            )
    if options.client is None and public_url(endpoint_url(options.base_url)) != DEFAULT_URL:
        return None, "the only model of this endpoint"
    entry = entry_for(DEFAULT_MODEL, DEFAULT_URL)
    if options.client is None and entry and entry.is_retired:
        raise UsageError(f"no judge is named, and {retired(DEFAULT_MODEL, entry)}")
    return DEFAULT_MODEL, "the default, because it is the paper's judge"


def entry_for(model: str, base_url: str) -> JudgeModel | None:
    """Return what is documented about a model at an endpoint.

    An entry about a model of OpenAI's API says nothing about other services that use the name.
    """
    entry = find_judge(model)
    fits = entry and (entry.serve or endpoint_name(base_url) == "openai")
    return entry if fits else None


def ending(model: str, entry: JudgeModel | None) -> Loss | None:
    """Return the notice about a judge that ends soon, or has ended, else None.

    It is a `Loss`: after that day, a run that is not finished cannot be, and no score can be
    compared with a new one by the same judge.
    """
    if entry is None or entry.days_left is None or entry.days_left > WARNED_DAYS:
        return None
    if entry.is_retired:
        return Loss(retired(model, entry))
    new = f"its provider recommends --judge {entry.successor}" if entry.successor else "any other"
    return Loss(
        f"the judge {model} ends in {counted(entry.days_left, 'day')}, on {entry.shutdown}: finish "
        "its runs by then; to compare with another judge later, judge a sample with both before "
        f"({new})"
    )


def retired(model: str, entry: JudgeModel) -> str:
    """Return what to do about a retired judge."""
    new = f" {entry.successor}, which its provider recommends" if entry.successor else ""
    return (
        f"the judge {model} was retired on {entry.shutdown}: choose another with --judge{new}; "
        "stored verdicts are scored and compared as before"
    )
