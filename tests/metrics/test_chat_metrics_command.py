import json
from pathlib import Path

from tests.metrics.chat_world import answer, prompts
from tests.server import LoopbackServer
from tests.world import capeval, write_lines

KEY = "sk-test-1"
AT_ONCE = 3
METRICS = ("clair", "autodq")
COMMAND = (
    *("metrics", "--candidates", "a.json", "--candidates", "b.json", "--references", "r.jsonl"),
    *("--metric", ",".join(METRICS), "--judge", "gpt-4o-2024-08-06", "--yes"),
)
VIDEOS = 6


def write(folder: Path) -> Path:
    """Two systems, each with an empty caption; half of the references list their events."""
    folder.mkdir(exist_ok=True)
    (folder / "capeval.toml").write_text(f"commands.metrics.max_concurrency = {AT_ONCE}")
    references = []
    for n in range(VIDEOS):
        text = f"A dog number{n} barks. The dog runs away. The camera pans left."
        listed = {"events": [f"A dog number{n} barks.", "It sleeps."]} if n % 2 else {}
        references.append(
            {"index": str(n), "references": [text], "group": f"g{n % 3 > 0}"} | listed
        )
    write_lines(folder / "r.jsonl", references)
    dog, cat = "A dog number{n} barks. The cat runs away from {n}.", "The dog runs away from {n}."
    for name, text in (("a", dog), ("b", cat)):
        every = {str(n): text.format(n=n) for n in range(VIDEOS)} | {"3": ""}
        (folder / f"{name}.json").write_text(json.dumps(every), "utf-8")
    return folder


def options(url: str) -> tuple[str, ...]:
    return (*COMMAND, "--base-url", url)


async def finished(folder: Path, url: str, code: int = 0, *more: str) -> str:
    done = await capeval(folder, *options(url), *more, OPENAI_API_KEY=KEY)
    assert done.code == code, done.err
    return done.out


async def test_the_estimate_is_more_than_what_is_called(tmp_path: Path) -> None:
    folder = write(tmp_path)
    async with LoopbackServer(answer) as server:
        dry = (*options(server.url), "--dry-run", "--json")
        expected = (await capeval(folder, *dry, OPENAI_API_KEY=KEY)).json
        cap = f"{expected['cost'] / 5:.6f}"
        out = await finished(folder, server.url, 3, "--max-cost", cap)
        assert "not measured" in out
        some = prompts(server)
        assert 0 < some.total() < expected["calls"]
        # Captions that are scored already are not counted again.
        rest = (await capeval(folder, *dry, OPENAI_API_KEY=KEY)).json
        assert "all 12 captions scored" in await finished(folder, server.url)
        asked = prompts(server)
        assert max(asked.values()) == 1
    # Equal questions, about the reference of both systems for example, are one call.
    assert asked.total() < expected["calls"] < 1.5 * asked.total()
    assert rest["calls"] < expected["calls"]
    tokens = sum(map(len, asked)) // 4
    assert tokens < expected["input_tokens"] < 2.5 * tokens
    assert (await capeval(folder, *dry, OPENAI_API_KEY=KEY)).json["calls"] == 0
