"""The catalogue of judges, the user's entries, and the dates in models' records."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from capeval.llm.shutdown import shutdown_of
from hypothesis import given
from hypothesis import strategies as st

from capeval.errors import InputError
from capeval.llm.judge_models import (
    EFFORTS,
    JudgeModel,
    Price,
    find_judge,
    packaged_judges,
    read_judges,
)
from capeval.llm.prices import price_of, priced_on, read_prices

BEFORE = {
    # Prices as they were before the catalogue: stored runs keep their costs.
    "gpt-4o-2024-05-13": (5.00, 5.00, 15.00),
    "gpt-4o-2024-08-06": (2.50, 1.25, 10.00),
    "gpt-4o": (2.50, 1.25, 10.00),
    "chatgpt-4o-latest": (5.00, 5.00, 15.00),
    "gpt-4o-2024-11-20": (2.50, 1.25, 10.00),
    "gpt-4o-mini": (0.15, 0.075, 0.60),
    "gpt-4o-mini-2024-07-18": (0.15, 0.075, 0.60),
    "gpt-4.1": (2.00, 0.50, 8.00),
    "gpt-4.1-mini": (0.40, 0.10, 1.60),
    "gpt-4.1-nano-2025-04-14": (0.10, 0.025, 0.40),
    "o3": (2.00, 0.50, 8.00),
    "o4-mini": (1.10, 0.275, 4.40),
    "gpt-5": (1.25, 0.125, 10.00),
    "openai/gpt-5-mini": (0.25, 0.025, 2.00),
    "gpt-5-nano": (0.05, 0.005, 0.40),
}


@pytest.mark.parametrize("model", BEFORE)
def test_the_catalogue_has_the_prices_of_the_table_before_it(model: str) -> None:
    price_in, cached, out = BEFORE[model]
    assert price_of(model) == Price(input=price_in, cached_input=cached, output=out)


@pytest.mark.parametrize("entry", packaged_judges().values(), ids=lambda entry: entry.name)
def test_entries_agree_with_themselves(entry: JudgeModel) -> None:
    assert (entry.price is None) == (entry.priced_on is None)
    assert entry.open_weights == bool(entry.serve)
    assert entry.default_effort in (None, *entry.efforts)
    assert entry.snapshot not in packaged_judges()
    assert list(entry.efforts) == sorted(entry.efforts, key=EFFORTS.index)
    assert entry.shutdown is None or not entry.open_weights
    assert not (entry.announced and entry.shutdown) or entry.announced < entry.shutdown
    assert entry.least_effort in (None, *entry.efforts)
    assert find_judge(entry.name) is entry
    for name in entry.aliases:
        assert find_judge(name) is entry


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("gpt-6-luna", "none"),
        ("gpt-5.6", "none"),
        ("gpt-5-2025-08-07", "minimal"),
        ("gpt-5.4", None),  # it does not reason by itself
        ("o3", None),  # it always does
        ("gpt-4o", None),
        ("openai/gpt-oss-20b", None),  # it takes a temperature all the same
    ],
)
def test_a_model_that_refuses_a_temperature_is_asked_not_to_reason(
    model: str, asked: str | None
) -> None:
    entry = find_judge(model)
    assert entry is not None
    assert entry.least_effort == asked


OWN = """
[judges."our-judge"]
aliases = ["ours"]
price = { input = 1, output = 2 }
shutdown = 2027-03-01
context = 32768
efforts = ["low", "high"]
serve = "vllm serve our/judge"
open_weights = true

[judges."gpt-4o-2024-08-06"]
shutdown = 2027-06-30

[judges."gpt-4.1"]
price = { input = 9, output = 9 }

[prices."ours"]
input = 5
output = 6
"""


def test_users_add_and_change_entries(tmp_path: Path) -> None:
    file = tmp_path / "capeval.toml"
    file.write_text(OWN, encoding="utf-8")
    judges = read_judges(file)
    assert len(judges) == len(packaged_judges()) + 1
    own = find_judge("ours", judges)
    assert own is not None
    assert (own.name, own.shutdown, own.efforts) == ("our-judge", date(2027, 3, 1), ("low", "high"))
    changed, before = judges["gpt-4o-2024-08-06"], packaged_judges()["gpt-4o-2024-08-06"]
    assert changed == before.model_copy(update={"shutdown": date(2027, 6, 30)})
    assert judges["gpt-4.1"].priced_on is None
    prices = read_prices(file)
    dated = {"gpt-4o", "gpt-4o-2024-08-06", "gpt-4.1-2025-04-14"}
    assert set(prices) == {"our-judge", "ours", "gpt-4.1"} | dated
    assert price_of("our-judge", prices) == Price(input=1, output=2)
    assert price_of("ours", prices) == Price(input=5, output=6)
    assert price_of("gpt-4.1-2025-04-14", prices) == Price(input=9, output=9)
    assert price_of("gpt-4o", prices) == price_of("gpt-4o")
    assert read_judges(tmp_path / "none.toml") == packaged_judges()
    assert (priced_on("gpt-4o"), priced_on("our-judge")) == ("2025-08-07", None)


def read(text: str, folder: Path) -> tuple[dict[str, JudgeModel], dict[str, Price]]:
    file = folder / "capeval.toml"
    file.write_text(text, encoding="utf-8")
    return read_judges(file), read_prices(file)


def test_a_snapshot_is_a_name_of_its_model(tmp_path: Path) -> None:
    for snapshot, name in (("gpt-4-0613", "gpt-4"), ("gpt-3.5-turbo-0125", "gpt-3.5-turbo")):
        entry = find_judge(snapshot)
        assert entry is not None
        assert entry.name == name
        assert price_of(snapshot) == entry.price
    text = '[judges."m"]\nsnapshot = "m-v3"\nprice = {input = 1, output = 2}\n'
    judges, prices = read(text, tmp_path)
    assert find_judge("m-v3", judges) is judges["m"]
    assert price_of("m-v3", prices) == Price(input=1, output=2)
    # The name of an entry comes before the snapshot of another.
    _, prices = read(text.replace("m-v3", "gpt-5"), tmp_path)
    assert price_of("gpt-5", prices) == price_of("gpt-5")


def test_another_name_of_a_packaged_model(tmp_path: Path) -> None:
    # A new alias has the price of its model.
    judges, prices = read('[judges."gpt-5"]\naliases = ["our-deployment"]\n', tmp_path)
    assert find_judge("our-deployment", judges) is judges["gpt-5"]
    assert price_of("our-deployment", prices) == price_of("gpt-5")
    # A packaged alias can be given to another model.
    judges, _ = read('[judges."gpt-4o-2024-11-20"]\naliases = ["gpt-4o"]\n', tmp_path)
    assert find_judge("gpt-4o", judges) is judges["gpt-4o-2024-11-20"]
    # What an entry under an alias leaves out is as it was.
    before = packaged_judges()["gpt-4o-2024-08-06"]
    judges, prices = read('[judges."gpt-4o"]\nshutdown = 2028-01-01\n', tmp_path)
    changes = {"name": "gpt-4o", "aliases": (), "shutdown": date(2028, 1, 1)}
    assert find_judge("gpt-4o", judges) == before.model_copy(update=changes)
    assert price_of("gpt-4o", prices) == before.price
    assert judges["gpt-4o-2024-08-06"] == before


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ('[judges]\n"m" = 3\n', 'judges."m"', "must be a table, not 3"),
        ('[judges."m"]\nshutdwn = 1\n', 'judges."m".shutdwn', 'did you mean "shutdown"?'),
        ('[judges."m"]\nprice = 1\n', 'judges."m".price', "must be a table, not 1"),
        ('[judges."m"]\nprice = {input = 1}\n', 'judges."m".price.output', "is missing"),
        ('[judges."m"]\nprice = {input = -1, output = 1}\n', 'judges."m".price.input', "at least"),
        ('[judges."m"]\nshutdown = "soon"\n', 'judges."m".shutdown', "must be a date such as"),
        ('[judges."m"]\nshutdown = 1796083200\n', 'judges."m".shutdown', "must be a date such as"),
        ('[judges."m"]\nprice = {input = true, output = 1}\n', ".price.input", "be a number"),
        ('[judges."m"]\nprice = {input = "1", output = 1}\n', ".price.input", "be a number"),
        ('[judges."m"]\ncontext = "4096"\n', 'judges."m".context', "a whole number"),
        ('[judges."m"]\nseed = "yes"\n', 'judges."m".seed', "true or false"),
        ('[judges."m"]\nopen_weights = 1\n', 'judges."m".open_weights', "true or false"),
        ('[judges."m"]\naliases = [""]\n', 'judges."m".aliases.1', "must not be empty"),
        ('[judges."m"]\naliases = ["gpt-5"]\n', 'judges."m".aliases.1', 'the judge "gpt-5"'),
        (
            '[judges."m"]\naliases = ["z"]\n[judges."n"]\naliases = ["y", "z"]\n',
            'judges."n".aliases.2',
            '"z" already names the judge "m"',
        ),
        ('[judges."m"]\nefforts = ["huge"]\n', 'judges."m".efforts.1', '"huge" is unknown'),
        ('[judges."m"]\nefforts = "low"\n', 'judges."m".efforts', "must be a list"),
        ('[judges."m"]\ntemperature = 1\n', 'judges."m".temperature', "1 is unknown"),
        ('[judges."m"]\ncontext = 0\n', 'judges."m".context', "at least 1"),
        ('[judges."m"]\nopen_weights = "maybe"\n', 'judges."m".open_weights', "true or false"),
        ('[judges."gpt-4o-2024-08-06"]\nseed = []\n', '".seed', "true or false"),
        ("judges = 3\n", "judges", "must be a table"),
        ('[judge."m"]\n', "judge", 'did you mean "judges"?'),
    ],
)
def test_a_wrong_entry_names_file_and_field(
    text: str, field: str, says: str, tmp_path: Path
) -> None:
    file = tmp_path / "capeval.toml"
    file.write_text(text, encoding="utf-8")
    for read_file in (read_judges, read_prices):
        with pytest.raises(InputError) as caught:
            read_file(file)
        said = str(caught.value)
        assert str(file) in said
        assert field in said
        assert says in said
        assert "\n" not in said


@pytest.mark.parametrize(
    ("record", "day"),
    [
        ({"shutdown_date": "2027-01-14"}, date(2027, 1, 14)),
        ({"shutdown_date": " 2027-01-14 "}, date(2027, 1, 14)),
        ({"shutdown_date": "2027-01-14T09:00:00Z"}, date(2027, 1, 14)),
        ({"shutdown_date": 1799884800}, date(2027, 1, 14)),
        ({"shutdown_date": 1799884800.5}, date(2027, 1, 14)),
        ({"shutdown_date": "1799884800"}, date(2027, 1, 14)),
        ({"shutdown_date": None}, None),
        ({}, None),
        (None, None),
        ({"shutdown_date": ""}, None),
        ({"shutdown_date": "soon"}, None),
        ({"shutdown_date": "0001-01-01T00:00:00Z"}, None),
        ({"shutdown_date": "9999-12-31"}, None),
        ({"shutdown_date": "2027-13-45"}, None),
        ({"shutdown_date": 0}, None),
        ({"shutdown_date": -1}, None),
        ({"shutdown_date": 10**30}, None),
        ({"shutdown_date": "9" * 400}, None),
        ({"shutdown_date": float("nan")}, None),
        ({"shutdown_date": True}, None),
        ({"shutdown_date": ["2027-01-14"]}, None),
        ({"shutdown_date": {"date": "2027-01-14"}}, None),
    ],
)
def test_dates_of_records_are_read_as_far_as_they_are_dates(
    record: dict[str, Any] | None, day: date | None
) -> None:
    assert shutdown_of(record) == day


@given(st.integers() | st.floats() | st.text() | st.text("0123456789-:TZ+. ", max_size=30))
def test_no_record_raises(value: Any) -> None:
    found = shutdown_of({"shutdown_date": value})
    assert found is None or isinstance(found, date)
