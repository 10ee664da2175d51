"""`capeval.judges`: which judges there are, and when they are retired."""

from __future__ import annotations

import os

from capeval.api.run_options import JudgesOptions
from capeval.api.sync_async import blocking
from capeval.config import config_file
from capeval.judging.listing import JudgeList, listed_judges, offered_judges, only
from capeval.llm.prices import read_prices
from capeval.options import takes

_SECONDS = 30.0
"""For an endpoint's list of models."""


@takes(JudgesOptions)
async def judges_async(options: JudgesOptions) -> JudgeList:
    """List the known chat models and the installed judges, or the models of an endpoint.

    Raises
    ------
    InputError, UsageError
        The name is unknown, or `capeval.toml` is wrong.
    EndpointRefused
        The endpoint does not list its models.

    Example
    -------
    >>> import capeval
    >>> judge = capeval.judges("gpt-4o").judges[0]
    >>> judge.name, str(judge.entry.shutdown)
    ('gpt-4o-2024-08-06', '2027-01-14')
    """
    prices = read_prices(config_file())
    if options.base_url is None:
        listed = listed_judges(prices)
    else:
        from capeval.llm.client import OpenAIChatClient

        key = options.api_key or os.environ.get("OPENAI_API_KEY") or None
        async with OpenAIChatClient(options.base_url, key, timeout=_SECONDS) as client:
            listed = offered_judges(await client.models(), client.base_url, prices)
    return listed if options.name is None else only(listed, options.name)


judges = blocking(judges_async)
