"""The judges that can be chosen: the catalogue, what an endpoint offers, and installed ones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from capeval.errors import UsageError
from capeval.judging.default_judge import DEFAULT_MODEL
from capeval.judging.registry import JUDGES
from capeval.judging.retirement import entry_for
from capeval.llm.judge_models import Catalogue, JudgeModel, find_judge
from capeval.llm.shutdown import shutdown_of
from capeval.text import nearest


class ListedJudge(BaseModel):
    """One judge; `entry` is what the catalogue says of a chat model, None if it says nothing.

    `shutdown` is the first day without it, by the endpoint's record of the model or else by the
    catalogue, and `days_left` counts to it: 0 or less is a retired model.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    kind: Literal["chat model", "installed"]
    entry: JudgeModel | None = None
    shutdown: date | None = None
    days_left: int | None = None

    @property
    def is_unknown(self) -> bool:
        """Whether nothing but its name is known."""
        return self.kind == "chat model" and self.entry is None and self.shutdown is None

    @property
    def is_retired(self) -> bool:
        """Whether its day has come."""
        return self.days_left is not None and self.days_left <= 0


class JudgeList(BaseModel):
    """Judges as of a day; with a `base_url` those that the endpoint offers.

    `default` is the name of the default judge on OpenAI's API.
    """

    model_config = ConfigDict(frozen=True)

    today: date
    default: str = DEFAULT_MODEL
    base_url: str | None = None
    judges: tuple[ListedJudge, ...]

    def find(self, name: str) -> ListedJudge | None:
        """Return a judge by its name, an alias or its snapshot."""
        by_name = {judge.name: judge for judge in self.judges}
        entry = find_judge(name, {one.name: one.entry for one in self.judges if one.entry})
        return by_name.get(name) or (by_name.get(entry.name) if entry else None)


def listed_judges(catalogue: Catalogue, now: date) -> JudgeList:
    """Return the catalogue's chat models and the installed judges.

    `--judge` takes the name of an installed judge for that judge: no chat model is listed by it.
    """
    installed = [ListedJudge(name=name, kind="installed") for name in JUDGES.names()]
    models = [
        _listed(entry.name, entry, entry.shutdown, now)
        for entry in catalogue.values()
        if entry.name not in JUDGES
    ]
    return JudgeList(today=now, judges=(*models, *installed))


def offered_judges(
    records: Mapping[str, Mapping[str, Any]], base_url: str, catalogue: Catalogue, now: date
) -> JudgeList:
    """Return the models that an endpoint lists, joined with the catalogue.

    Parameters
    ----------
    records : the endpoint's records of its models, by id
    base_url : its address, without anything secret
    """
    found = []
    for name, record in records.items():
        entry = entry_for(name, base_url, catalogue)
        ends = shutdown_of(record) or (entry.shutdown if entry else None)
        found.append(_listed(name, entry, ends, now))
    return JudgeList(today=now, base_url=base_url, judges=tuple(found))


def only(listed: JudgeList, name: str) -> JudgeList:
    """Return the list with one judge; raises `UsageError` if it has none of that name."""
    judge = listed.find(name)
    if judge is None:
        where = f"at {listed.base_url}" if listed.base_url else "in the catalogue"
        names = {one.name: one.entry for one in listed.judges}
        others = [other for entry in names.values() if entry for other in entry.other_names]
        near = nearest(name, [*names, *others])
        raise UsageError(
            f"no judge {name!r} {where}{near or '; any chat model can be named with --judge'}"
        )
    return listed.model_copy(update={"judges": (judge,)})


def _listed(name: str, entry: JudgeModel | None, ends: date | None, now: date) -> ListedJudge:
    return ListedJudge(
        name=name,
        kind="chat model",
        entry=entry,
        shutdown=ends,
        days_left=None if ends is None else (ends - now).days,
    )
