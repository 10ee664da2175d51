"""`capeval judges`, and what `capeval judge` says of a judge that ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import capeval
from capeval.errors import EndpointRefused, UsageError
from tests.cli.conftest import Endpoint, Workspace
from tests.conftest import Today
from tests.server import LoopbackServer, failure, unauthorized
from tests.typed import Typed, typed

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def type_(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    return Typed(monkeypatch, capsys)


@contextmanager
def serving(**given: Any) -> Iterator[LoopbackServer]:
    """A server in a thread of its own: the command has the loop of this one."""
    import asyncio

    server, ready, loop = LoopbackServer(**given), Event(), asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with server:
            ready.set()
            await ended.wait()

    thread = Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


def test_the_list_begins_with_the_default_judge_and_fits_a_screen(
    type_: Typed, today: Today
) -> None:
    today.day = date(2026, 11, 22)
    said = type_("judges", columns=100)
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0].startswith("The default judge gpt-4o-2024-08-06 ends in 53 days, on 2027-01-14")
    assert len(lines) <= 46
    assert max(map(len, lines[1:])) <= 100
    assert "o4-mini" not in said.out
    assert "10 retired models: --full" in said.out
    assert any(line.startswith("lexical  ") for line in lines)
    assert any(line.startswith("nli  ") for line in lines)
    full = type_("judges", "--full", columns=100)
    assert "o4-mini" in full.out
    assert "retired models" not in full.out


def test_after_its_day_the_default_judge_is_said_to_be_retired(type_: Typed, today: Today) -> None:
    today.day = date(2027, 1, 14)
    said = type_("judges")
    assert said.out.startswith("The default judge gpt-4o-2024-08-06 was retired on 2027-01-14;")
    assert "19 retired models" in said.out


def test_one_judge_is_shown_whole(type_: Typed) -> None:
    said = type_("judges", "gpt-4o")
    assert said.out.startswith("judge: gpt-4o-2024-08-06\n")
    for line in ("price: $2.5 in, $1.25 cached, $10 out", "announced: 2026-10-14"):
        assert line in said.out
    served = type_("judges", "Qwen/Qwen3-8B")
    assert "serve: vllm serve Qwen/Qwen3-8B --reasoning-parser qwen3\n" in served.out
    assert "price: unknown" in served.out
    assert "cached" not in type_("judges", "gpt-4").out
    free = '[judges."free"]\nprice = {input = 1, cached_input = 0, output = 2}\n'
    Path("capeval.toml").write_text(free, encoding="utf-8")
    assert "price: $1 in, $0 cached, $2 out" in type_("judges", "free").out
    alias = type_("judges", "GPT-4O")
    assert (alias.code, alias.lines) == (
        2,
        ["capeval: no judge 'GPT-4O' in the catalogue; did you mean \"gpt-4o\"?"],
    )
    missing = type_("judges", "gpt-4p")
    assert missing.code == 2
    assert 'did you mean "gpt-' in missing.err


def test_json_has_everything_and_formats_have_the_table(type_: Typed) -> None:
    everything = type_("judges", "--json").json
    assert everything["default"] == "gpt-4o-2024-08-06"
    named = {judge["name"]: judge for judge in everything["judges"]}
    assert named["o4-mini"]["entry"]["price"]["output"] == 4.4
    assert named["lexical"]["kind"] == "installed"
    assert type_("judges", "--format", "markdown").out.startswith("**Judges**\n\n| Judge")
    assert "\\begin{" in type_("judges", "--format", "latex").out
    both = type_("judges", "--format", "latex", "--json")
    assert (both.code, len(both.lines)) == (2, 1)


def test_users_entries_are_listed_and_wrong_ones_refused(type_: Typed) -> None:
    file = Path("capeval.toml")
    file.write_text('[judges."our\\u001b[31m-judge"]\ncontext = 4096\n', encoding="utf-8")
    said = type_("judges")
    assert "our\\x1b[31m-judge" in said.out
    file.write_text('[judges."lexical"]\ncontext = 5\n', encoding="utf-8")
    assert sum(line.startswith("lexical ") for line in type_("judges").out.splitlines()) == 1
    file.write_text('[judges."ours"]\ncontext = "long"\n', encoding="utf-8")
    wrong = type_("judges")
    assert wrong.code == 2
    assert wrong.lines == [
        'capeval: capeval.toml: judges."ours".context: Input should be a valid integer, not "long"'
    ]


RECORDS = {
    "served": {"id": "served", "shutdown_date": "2026-06-21"},
    "kept": {"id": "kept", "shutdown_date": None},
    "odd\u001b[31m": {"id": "odd\u001b[31m"},
    "Qwen/Qwen3-8B": {"id": "Qwen/Qwen3-8B", "shutdown_date": ["?"]},
    "gone": {"id": "gone", "shutdown_date": 1779840000},
}


def test_an_endpoint_is_joined_with_the_catalogue(type_: Typed, today: Today) -> None:
    assert today.day == date(2026, 6, 1)
    with serving(records=RECORDS) as server:
        said = type_("judges", "--base-url", server.url, "--full")
        lines = said.out.splitlines()
        assert lines[0] == (
            f"{server.url} offers 4 models, 1 of them in the catalogue; "
            "the first to end is served, in 20 days, on 2026-06-21."
        )
        of = {line.split()[0]: line for line in lines if line}
        assert "2026-06-21" in of["served"]
        assert "32,768" in of["Qwen/Qwen3-8B"]
        assert "retired" in of["gone"]
        assert "\x1b" not in said.out
        # Nothing is known of it, which a dash would not say.
        assert of["kept"].split() == ["kept", *4 * ["unknown"], "–", "–", *2 * ["unknown"]]
        short = type_("judges", "--base-url", server.url)
        assert "1 retired model: --full" in short.out
        # What is to end is not left out: the headline names it.
        assert "1 more model, unknown to the catalogue: --full." in short.out
        assert "served " in short.out.partition("\n\n")[2]
        found = capeval.judges("served", base_url=server.url)
        assert [judge.days_left for judge in found.judges] == [20]
        with pytest.raises(UsageError, match="no judge 'other' at http://127"):
            capeval.judges("other", base_url=server.url)
    with pytest.raises(EndpointRefused, match="cannot reach"):
        capeval.judges(base_url=server.url)


def test_an_endpoint_that_lists_nothing_or_refuses_is_one_line(type_: Typed) -> None:
    with serving(models=()) as server:
        said = type_("judges", "--base-url", server.url)
        assert (said.code, said.out) == (0, f"{server.url} lists no models.\n")
    refusals = {
        unauthorized(): "wants a key: set OPENAI_API_KEY",
        failure(302): "redirects elsewhere",
        failure(404): "does the base URL end in /v1?",
        failure(500): "does not answer",
    }
    for refusal, says in refusals.items():
        with serving(records={"m/models": refusal}) as server:
            wrong = type_("judges", "--base-url", f"{server.url}/models/m")
        assert (wrong.code, len(wrong.lines)) == (2, 1)
        assert says in wrong.err


@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_judge_warns_once_of_a_judge_that_ends_also_if_it_is_quiet(
    quiet: tuple[str, ...], tmp_path: Path, endpoint: Endpoint
) -> None:
    work = Workspace(tmp_path / "work", endpoint.url)
    work.fill(2)
    work.write("capeval.toml", '[judges."ends"]\nshutdown = 2026-07-01\ndefault_effort = "high"\n')
    given = ["judge", "captions.jsonl", "--annotations", "annotations.json", "--judge", "ends"]
    given += ["--base-url", endpoint.url]
    env = work.env()
    for more in (("--dry-run",), ("--yes",)):
        said = typed(work.folder, *given, *more, *quiet, env=env)
        assert said.code == 0, said.err
        ending = [line for line in said.lines if "ends in 30 days, on 2026-07-01" in line]
        assert len(ending) == 1
        assert "capeval bridge plan ends NEW" in ending[0]
        # What is not in the estimate is about money, too.
        assert sum("is not part of the expected cost" in line for line in said.lines) == 1
    found: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(work.folder)
        capeval.judge(
            "captions.jsonl",
            "annotations.json",
            judge="ends",
            base_url=endpoint.url,
            on_notice=found.append,
        )
    assert [line for line in found if "ends in 30 days" in line]
    expected = json.loads(typed(work.folder, *given, "--dry-run", "--json", env=env).out)
    assert expected["reasoning_tokens"] == "not estimated"


def test_the_default_judge_is_printed_with_its_reason(type_: Typed, tmp_path: Path) -> None:
    work = Workspace(tmp_path, "")
    work.fill(1)
    said = type_("judge", "captions.jsonl", "--annotations", "annotations.json", "--dry-run")
    (line,) = [line for line in said.lines if line.startswith("Judge: ")]
    assert line.startswith("Judge: gpt-4o-2024-08-06 at https://api.openai.com/v1")
    assert line.endswith("; the default, because it is the paper's judge")
    lexical = type_("judge", "sample", "--dry-run")
    assert "; the default for the sample, because no key and no endpoint are set\n" in lexical.err
