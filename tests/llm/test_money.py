import asyncio
from pathlib import Path
from typing import get_args

import pytest

from capeval.errors import BudgetReached, InputError
from capeval.llm.asker import Asker
from capeval.llm.money import (
    Effort,
    JudgeModel,
    Meter,
    Price,
    find_judge,
    judge_models,
    price_of,
    read_prices,
)
from capeval.llm.replies import ChatReply, ChatRequest
from capeval.schema import Usage
from tests.conftest import Today
from tests.llm.conftest import ask_for

DOLLAR = Usage(calls=1, input_tokens=1_000_000)
FLAT = {"m": Price(input=1.0, output=1.0)}


LIST = {
    "gpt-4o-2024-08-06": (2.50, 1.25, 10.00),
    "openai/gpt-4o-mini": (0.15, 0.075, 0.60),
    # Its price rises with the length of a request; capeval's are short.
    "gpt-5.4": (2.50, 0.25, 15.00),
}


def test_openais_models_have_their_list_prices() -> None:
    for model, (price_in, cached, out) in LIST.items():
        assert price_of(model) == Price(input=price_in, cached_input=cached, output=out)
    hosted = [name for name, entry in judge_models().items() if not entry.serve]
    unpriced = [name for name in hosted if price_of(name) is None]
    assert unpriced == ["gpt-6.2-astra", "gpt-6.2-sol"]


def test_the_users_own_price_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "capeval.toml"
    path.write_text('[prices."gpt-4o"]\ninput = 1\ncached_input = 0.5\noutput = 2\n')
    own = Price(input=1, cached_input=0.5, output=2)
    for model in ("gpt-4o", "openai/gpt-4o", "gpt-4o-2024-08-06"):
        assert price_of(model, read_prices(path)) == own
    assert read_prices(tmp_path / "none.toml") == {}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('[prices."m"]\ninput = 1\n', "prices.m.output"),
        ('[prices."m"]\ninput = 1\noutput = 1\nouput = 2\n', "prices.m.ouput"),
        ('[prices."m"]\ninput = true\noutput = 1\n', "prices.m.input"),
        ("prices = 3\n", "prices"),
    ],
)
def test_a_wrong_price_names_file_and_field(text: str, field: str, tmp_path: Path) -> None:
    path = tmp_path / "capeval.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_prices(path)
    assert str(path) in str(caught.value)
    assert field in str(caught.value)


class Dear:
    calls = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        await asyncio.sleep(0.001)
        return ChatReply("x", "stop", "m", None, DOLLAR)


@pytest.mark.parametrize("cap", [0.5, 3.0])
async def test_many_calls_at_once_hardly_overshoot_the_cap(cap: float) -> None:
    client, meter = Dear(), Meter(prices=FLAT, cap=cap)
    asker = Asker(client, None, base_url="http://judge/v1", meter=meter)
    request = ask_for(model="m", max_tokens=1000)
    # What the first calls cost is not known before one is back.
    await asker.ask(request, lambda reply: reply.text)
    asks = (asker.ask(ask_for(f"{n}", model="m"), lambda r: r.text) for n in range(60))
    ends = await asyncio.gather(*asks, return_exceptions=True)
    # A call that would pass the cap is not made; the first one's cost could only be guessed.
    assert cap - 1.001 <= meter.spent <= max(cap, 1.001)
    assert sum(isinstance(end, BudgetReached) for end in ends) == 61 - client.calls
    assert meter.in_flight == 0


def test_items_are_begun_while_their_mean_cost_fits_below_the_cap() -> None:
    meter = Meter(cap=1.0)
    meter.spent = 0.5
    has_room = meter.room_for(10, 2.0)
    assert [has_room(begun) for begun in (0, 1, 2)] == [True, True, False]
    assert Meter().room_for(10, 2.0)(1000)


EFFORTS = get_args(Effort)


@pytest.mark.parametrize("entry", judge_models().values(), ids=lambda entry: entry.name)
def test_entries_agree_with_themselves(entry: JudgeModel) -> None:
    assert entry.default_effort in (None, *entry.efforts)
    assert list(entry.efforts) == sorted(entry.efforts, key=EFFORTS.index)
    assert entry.least_effort in (None, *entry.efforts)
    assert not (entry.shutdown and entry.serve)
    for name in (entry.name, *entry.aliases):
        assert find_judge(name) is entry
        # What one's own server costs is in no list, not even for OpenAI's open weights.
        assert not (entry.serve and price_of(name))


def test_what_is_recommended_has_not_ended_itself(
    monkeypatch: pytest.MonkeyPatch, today: Today
) -> None:
    own = {
        name: JudgeModel(name=name, replacement=to, shutdown=end)
        for name, to, end in (("a", "b", today.day), ("b", "c", today.day), ("c", None, None))
    }
    monkeypatch.setattr("capeval.llm.money.judge_models", lambda: own)
    assert [entry.successor for entry in own.values()] == ["c", "c", None]
