"""`capeval judges`, and what `capeval judge` says of a judge that ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import capeval
from capeval.errors import EndpointRefused, UsageError
from tests.cli.conftest import Workspace
from tests.conftest import Today
from tests.server import LoopbackServer
from tests.typed import here as type_

pytestmark = pytest.mark.usefixtures("alone")


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


def test_the_list_begins_with_the_default_judge_and_fits_a_screen(today: Today) -> None:
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


def test_after_its_day_the_default_judge_is_said_to_be_retired(today: Today) -> None:
    today.day = date(2027, 1, 14)
    said = type_("judges")
    assert said.out.startswith("The default judge gpt-4o-2024-08-06 was retired on 2027-01-14;")
    assert "19 retired models" in said.out


def test_one_judge_is_shown_whole() -> None:
    said = type_("judges", "gpt-4o")
    assert said.out.startswith("judge: gpt-4o-2024-08-06\n")
    assert "price: $2.5 in, $1.25 cached, $10 out, per million tokens\n" in said.out
    assert "replacement: gpt-6-luna" in said.out
    served = type_("judges", "Qwen/Qwen3-8B")
    assert "serve: vllm serve Qwen/Qwen3-8B --reasoning-parser qwen3\n" in served.out
    assert 'price: unknown; add [prices."Qwen/Qwen3-8B"] to capeval.toml' in served.out
    own = '[prices."Qwen/Qwen3-8B"]\ninput = 1\ncached_input = 0\noutput = 2\n'
    Path("capeval.toml").write_text(own, encoding="utf-8")
    assert "price: $1 in, $0 cached, $2 out" in type_("judges", "Qwen/Qwen3-8B").out
    missing = type_("judges", "gpt-4p")
    assert (missing.code, len(missing.lines)) == (2, 1)
    assert 'did you mean "gpt-' in missing.err


def test_json_has_everything() -> None:
    everything = type_("judges", "--json").json
    assert everything["default"] == "gpt-4o-2024-08-06"
    named = {judge["name"]: judge for judge in everything["judges"]}
    assert named["o4-mini"]["price"]["output"] == 4.4
    assert named["o4-mini"]["entry"]["shutdown"] == "2026-10-23"
    assert named["lexical"]["kind"] == "installed"


def test_an_endpoints_models_are_listed_with_what_is_known() -> None:
    with serving(models=("odd\u001b[31m", "Qwen/Qwen3-8B", "gpt-5", "kept")) as server:
        said = type_("judges", "--base-url", server.url, "--full")
        assert said.out.startswith(f"{server.url} offers 3 models, 1 of them known.\n")
        of = {line.split()[0]: line for line in said.out.splitlines() if line}
        assert "open" in of["Qwen/Qwen3-8B"]
        # Nothing is known of it, which a dash would not say.
        assert of["kept"].split() == ["kept", *3 * ["unknown"], "–", "–", *2 * ["unknown"]]
        # The day on which OpenAI ends a model says nothing about other services.
        assert "2026-12-11" not in of["gpt-5"]
        short = type_("judges", "--base-url", server.url).out
        # What is unknown comes last.
        assert short.index("gpt-5") < short.index("kept")
        with pytest.raises(UsageError, match="no judge 'other' at http://127"):
            capeval.judges("other", base_url=server.url)
    with pytest.raises(EndpointRefused, match="cannot reach"):
        capeval.judges(base_url=server.url)


def test_an_endpoint_that_lists_nothing_or_refuses_is_one_line() -> None:
    with serving(models=()) as server:
        said = type_("judges", "--base-url", server.url)
        assert (said.code, said.out) == (0, f"{server.url} lists no models.\n")
        wrong = type_("judges", "--base-url", server.url.removesuffix("/v1"))
    assert (wrong.code, len(wrong.lines)) == (2, 1)
    assert "does the base URL end in /v1?" in wrong.err


@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_judge_warns_once_of_a_judge_that_ends_also_if_it_is_quiet(
    quiet: tuple[str, ...],
    today: Today,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    today.day = date(2026, 11, 22)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    Workspace(tmp_path, "").fill(1)
    given = ("judge", "captions.jsonl", "--annotations", "annotations.json", "--judge", "o3")
    said = type_(*given, "--dry-run", *quiet)
    assert said.code == 0, said.err
    assert sum("o3 ends in 19 days, on 2026-12-11" in line for line in said.lines) == 1
    # What is not in the estimate is about money, too.
    assert sum("is not part of the expected cost" in line for line in said.lines) == 1
    assert type_(*given, "--dry-run", "--json").json["reasoning_tokens"] == "not estimated"


def test_the_default_judge_is_printed_with_its_reason(tmp_path: Path) -> None:
    work = Workspace(tmp_path, "")
    work.fill(1)
    said = type_("judge", "captions.jsonl", "--annotations", "annotations.json", "--dry-run")
    (line,) = [line for line in said.lines if line.startswith("Judge: ")]
    assert line.startswith("Judge: gpt-4o-2024-08-06 at https://api.openai.com/v1")
    assert line.endswith("; the default, because it is the paper's judge")
    lexical = type_("judge", "sample", "--dry-run")
    assert "; the default for the sample, because no key and no endpoint are set\n" in lexical.err
