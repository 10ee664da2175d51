"""The judges that can be chosen: the packaged table, what an endpoint offers, installed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from capeval.errors import UsageError
from capeval.judging.default_judge import DEFAULT_MODEL, entry_for
from capeval.judging.registry import JUDGES
from capeval.llm.judge_models import JudgeModel, find_judge, judge_models
from capeval.llm.prices import Price, price_of
from capeval.text import nearest


class ListedJudge(BaseModel):
    """One judge; `entry` and `price` are what is known of a chat model.

    `days_left` counts to the first day without it: 0 or less is a retired model.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    kind: Literal["chat model", "installed"]
    entry: JudgeModel | None = None
    price: Price | None = None
    days_left: int | None = None

    @property
    def is_retired(self) -> bool:
        """Whether its day has come."""
        return self.entry is not None and self.entry.is_retired


class JudgeList(BaseModel):
    """Judges; with a `base_url` those that the endpoint offers.

    `default` is the name of the default judge on OpenAI's API.
    """

    model_config = ConfigDict(frozen=True)

    default: str = DEFAULT_MODEL
    base_url: str | None = None
    judges: tuple[ListedJudge, ...]

    def find(self, name: str) -> ListedJudge | None:
        """Return a judge by its name, or another name of the model."""
        entry = find_judge(name)
        names = (name, entry.name if entry else name)
        return next((judge for judge in self.judges if judge.name in names), None)


def listed_judges(own: dict[str, Price]) -> JudgeList:
    """Return the chat models of the table, with the user's `own` prices, and installed judges."""
    models = [_listed(entry.name, entry, own) for entry in judge_models().values()]
    installed = [ListedJudge(name=name, kind="installed") for name in JUDGES.names()]
    return JudgeList(judges=(*models, *installed))


def offered_judges(models: Sequence[str], base_url: str, own: dict[str, Price]) -> JudgeList:
    """Return the models that an endpoint lists, with what is known of them."""
    judges = tuple(_listed(name, entry_for(name, base_url), own) for name in models)
    return JudgeList(base_url=base_url, judges=judges)


def only(listed: JudgeList, name: str) -> JudgeList:
    """Return the list with one judge; raises `UsageError` if it has none of that name."""
    judge = listed.find(name)
    if judge is None:
        where = f"at {listed.base_url}" if listed.base_url else "in the table"
        near = nearest(name, [one.name for one in listed.judges])
        raise UsageError(
            f"no judge {name!r} {where}{near or '; any chat model can be named with --judge'}"
        )
    return listed.model_copy(update={"judges": (judge,)})


def _listed(name: str, entry: JudgeModel | None, own: dict[str, Price]) -> ListedJudge:
    days_left = entry.days_left if entry else None
    price = price_of(name, own)
    return ListedJudge(name=name, kind="chat model", entry=entry, price=price, days_left=days_left)
