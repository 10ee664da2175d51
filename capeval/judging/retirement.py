"""Judges that end, or have ended: who says so, when to warn, and what can be done."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from capeval.llm.client import OpenAIChatClient
from capeval.llm.judge_models import Catalogue, JudgeModel, find_judge
from capeval.llm.shutdown import shutdown_of, today
from capeval.schema import endpoint_name
from capeval.text import Loss, counted

# Enough to judge with the old and the new judge, and to have the result looked at.
WARNED_DAYS = 90


def entry_for(model: str, base_url: str, judges: Catalogue) -> JudgeModel | None:
    """Return what the catalogue says of a model at an endpoint.

    An entry with a provider says nothing about other services that use the same name.
    """
    entry = find_judge(model, judges)
    fits = entry and entry.provider in (None, endpoint_name(base_url))
    return entry if fits else None


def retired(model: str, base_url: str, judges: Catalogue, now: date) -> date | None:
    """Return the day on which a model of an endpoint was retired, by the catalogue, or None."""
    entry = entry_for(model, base_url, judges)
    return entry.shutdown if entry and entry.is_retired(now) else None


def successor(model: str, judges: Catalogue, now: date) -> str | None:
    """Return the model that the provider recommends instead, and that has not ended itself."""
    entry = find_judge(model, judges)
    for _ in judges:
        if entry is None or entry.replacement is None:
            return None
        following = find_judge(entry.replacement, judges)
        if following is None or not following.is_retired(now):
            return entry.replacement
        entry = following
    return None


def what_remains(model: str, judges: Catalogue, now: date) -> str:
    """Return what to do about a retired judge: the end of a message, short enough for an error."""
    new = successor(model, judges, now)
    named = f"--judge {new}, as its provider advises" if new else "--judge"
    return (
        f"choose another with {named}; stored verdicts are scored and compared as before; "
        f"to carry scores over, see `capeval bridge {model} {new or 'NEW'}`"
    )


def warning(model: str, ends: date, judges: Catalogue, now: date, source: str) -> Loss | None:
    """Return the warning about a judge that ends soon, or has ended, else None.

    It is a `Loss`: after that day, a run that is not finished cannot be, and no score can be
    compared with a new one by the same judge.
    """
    left = (ends - now).days
    if left > WARNED_DAYS:
        return None
    if left <= 0:
        remains = what_remains(model, judges, now)
        return Loss(f"the judge {model} was retired on {ends} ({source}): {remains}")
    new = successor(model, judges, now)
    return Loss(
        f"the judge {model} ends in {counted(left, 'day')}, on {ends} ({source}): finish its runs "
        f"by then; `capeval bridge plan {model} {new or 'NEW'}` shows how many videos it must "
        "judge before its scores can be carried to "
        f"{f'{new}, which its provider recommends' if new else 'another judge'}"
    )


class RetirementWatch:
    """Warns once that a judge ends: by the catalogue, or by the endpoint's record of the model.

    The record is only read beside the first call that is paid for; it has the last word.
    """

    def __init__(self, base_url: str, judges: Catalogue, on_notice: Callable[[str], None]) -> None:
        self._base_url, self._judges, self._on_notice = base_url, judges, on_notice
        self._warned: date | None = None

    def begin(self, model: str, *, offline: bool) -> str:
        """Warn by the catalogue; return words for the beginning of a run of a retired judge.

        Whether a retired judge really does not answer is seen at the first call, if one is needed:
        only what calls nothing warns of it here.
        """
        entry = entry_for(model, self._base_url, self._judges)
        if entry is None or entry.shutdown is None:
            return ""
        gone = entry.is_retired(today())
        if gone and not offline:
            return f"retired on {entry.shutdown}"
        self._warn(model, entry.shutdown, "by capeval's catalogue")
        return ""

    async def look(self, client: OpenAIChatClient, model: str) -> None:
        """Warn by the endpoint's record of a model, or correct the warning before."""
        ends, before = shutdown_of(await client.model_record(model)), self._warned
        if ends is None or ends == before:
            return
        self._warn(model, ends, "by the endpoint's record")
        if self._warned == before is not None:
            notice = f"the judge {model} ends on {ends} by the endpoint's record, not on {before}"
            self._on_notice(Loss(notice))

    def why_unknown(self, model: str, refusal: str) -> str:
        """Return the message for a model that the endpoint does not know."""
        gone = retired(model, self._base_url, self._judges, today())
        if gone is None:
            return refusal
        remains = what_remains(model, self._judges, today())
        # Without the endpoint's own words, with which the line would be cut.
        return f"the judge {model} was retired on {gone} and does not answer: {remains}"

    def _warn(self, model: str, ends: date, source: str) -> None:
        notice = warning(model, ends, self._judges, today(), source)
        if notice is not None:
            self._warned = ends
            self._on_notice(notice)
