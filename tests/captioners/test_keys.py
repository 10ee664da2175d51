import asyncio
from pathlib import Path

import pytest

from capeval.captioners.generate import GenerateOptions
from capeval.captioners.opening import choose_model, open_captioner
from capeval.errors import CapevalError, InputError, UsageError
from tests.server import LoopbackServer, completion, failure, unauthorized
from tests.world import environment, typed

OPENAI, OTHER = "sk-openai-0123456789abcdef", "other-key-0123456789abcdef"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI)
    monkeypatch.setenv("OTHER_KEY", OTHER)


def configure(text: str, folder: Path = Path()) -> None:
    (folder / "capeval.toml").write_text(text, encoding="utf-8")


async def key_sent(server: LoopbackServer, model: str | None, **choice: str) -> str:
    chosen = GenerateOptions(model, cache="cache.sqlite", **choice)  # type: ignore[arg-type]
    async with open_captioner(chosen, choose_model(chosen)) as opened:
        asker = opened.captioner.asker  # type: ignore[attr-defined]
        await asker.client.preflight("judge-model")
    return server.headers[-1]["Authorization"].removeprefix("Bearer ")


@pytest.mark.parametrize(
    ("model", "more", "key"),
    [
        ("mine", "", "none"),
        ("mine", 'key = "OTHER_KEY"', OTHER),
        # A packaged model's key does not follow it to another address.
        ("gemini-3.5-flash", "", "none"),
        ("gpt-4o-2024-08-06", "", "none"),
    ],
)
async def test_an_address_from_a_file_gets_only_the_key_that_is_named_with_it(
    model: str, more: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", OTHER)
    async with LoopbackServer() as server:
        configure(f'[models."{model}"]\nbase_url = "{server.url}"\n{more}')
        assert await key_sent(server, model) == key
        # One that is typed gets the key of the environment.
        assert await key_sent(server, "any", base_url=server.url) == OPENAI


@pytest.mark.parametrize(
    ("entry", "choice", "said"),
    [
        ('base_url = "URL"', {"api_key": OTHER}, "gets only a key named there"),
        ('base_url = "URL"\nkey = "UNSET"', {}, "no key: set UNSET"),
        ('reached = "endpoint"\nkey = "OTHER_KEY"', {}, '"mine".key: belongs to one address'),
    ],
)
async def test_a_key_that_might_go_astray_is_refused(
    entry: str, choice: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LoopbackServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        configure("[models.mine]\n" + entry.replace("URL", server.url))
        with pytest.raises((InputError, UsageError), match=said):
            await key_sent(server, "mine", **choice)
        assert server.calls == 0
        if choice:
            assert await key_sent(server, "mine", **choice, base_url=server.url) == OTHER


async def test_a_server_that_wants_a_key_says_where_to_name_it() -> None:
    async with LoopbackServer(lambda _: unauthorized()) as server:
        configure(f'[models.mine]\nbase_url = "{server.url}"')
        with pytest.raises(CapevalError, match=r'needs a key: add key = "VARIABLE" to \[models'):
            await key_sent(server, "mine")


def contents(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".toml"]
    return b"".join(path.read_bytes() for path in files).decode("utf-8", "replace")


async def test_credentials_of_an_address_are_in_nothing_that_is_written(tmp_path: Path) -> None:
    def answer(request: dict[str, object]) -> object:
        text = str(request["messages"])
        if len(server.requests) == 4:
            return failure(400, f"rejected {OTHER} hunter2hunter2 query-secret-1234")
        return completion('{"ok": true}' if "JSON" in text[:200] else "A dog runs.")

    async with LoopbackServer(answer, models=["m"]) as server:  # type: ignore[arg-type]
        url = server.url.replace("http://", "http://me:hunter2hunter2@")
        configure(f'[models.m]\nbase_url = "{url}?token=query-secret-1234"\nkey = "OTHER_KEY"')
        env = environment(tmp_path, OTHER_KEY=OTHER)
        few = ("--limit", "3", "--frames", "2", "--debug", "log.jsonl")
        made = await asyncio.to_thread(typed, tmp_path, "generate", "--model", "m", *few, env=env)
        shown = typed(tmp_path, "models", "m", env=env)
        listed = typed(tmp_path, "models", "--json", env=env)
    assert made.code == 3, made.err
    everything = contents(tmp_path) + made.out + made.err + shown.out + listed.out
    assert "rejected [hidden] [hidden] [hidden]" in everything
    for secret in (OTHER, "hunter2", "query-secret", "bWU6aHVudGVy"):
        assert secret not in everything
    assert server.headers[-1]["Authorization"].startswith("Basic ")
