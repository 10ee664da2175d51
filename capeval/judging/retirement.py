"""Judges that end, or have ended: when to warn, and what can be done."""

from __future__ import annotations

from capeval.llm.judge_models import JudgeModel, find_judge
from capeval.schema import endpoint_name
from capeval.text import Loss, counted

# Enough to judge with the old and the new judge, and to have the result looked at.
WARNED_DAYS = 90


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
    new = f"--judge {entry.successor}, as its provider advises" if entry.successor else "another"
    return Loss(
        f"the judge {model} ends in {counted(entry.days_left, 'day')}, on {entry.shutdown}: finish "
        "its runs by then; to carry its scores over, judge a sample with both while both answer "
        f"({new})"
    )


def retired(model: str, entry: JudgeModel) -> str:
    """Return what to do about a retired judge."""
    new = f" {entry.successor}, as its provider advises" if entry.successor else ""
    return (
        f"the judge {model} was retired on {entry.shutdown}: choose another with --judge{new}; "
        "stored verdicts are scored and compared as before"
    )
