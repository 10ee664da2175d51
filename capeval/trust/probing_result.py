"""The result of `capeval probe`: the cards of one or more judges, and how these compare."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from capeval.trust.probe_card import Card
from capeval.trust.probe_tests import PairTest


class Probing(BaseModel):
    """Cards by the name of the judge, and paired tests of every two of them.

    `least` is the headline that was required, a fraction; `failed` names the judges below it, and
    those that have no headline.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cards: dict[str, Card]
    tests: tuple[PairTest, ...] = ()
    least: float | None = None
    failed: tuple[str, ...] = ()
