import json
from pathlib import Path

from tests.metrics.chat_world import answer, prompts
from tests.server import LoopbackServer
from tests.world import Said, capeval, write_lines

COMMAND = (
    *("metrics", "--candidates", "a.json", "--candidates", "b.json", "--references", "r.jsonl"),
    *("--metric", "clair,autodq", "--judge", "gpt-4o-2024-08-06", "--yes", "--base-url"),
)


def write(folder: Path) -> None:
    """Two systems, each with an empty caption; half of the references list their events."""
    (folder / "capeval.toml").write_text("commands.metrics.max_concurrency = 3")
    references = []
    for n in range(6):
        text = f"A dog number{n} barks. The dog runs away. The camera pans left."
        listed = {"events": [f"A dog number{n} barks.", "It sleeps."]} if n % 2 else {}
        references.append(
            {"index": str(n), "references": [text], "group": f"g{n % 3 > 0}"} | listed
        )
    write_lines(folder / "r.jsonl", references)
    dog, cat = "A dog number{n} barks. The cat runs away from {n}.", "The dog runs away from {n}."
    for name, text in (("a", dog), ("b", cat)):
        every = {str(n): text.format(n=n) for n in range(6)} | {"3": ""}
        (folder / f"{name}.json").write_text(json.dumps(every), "utf-8")


async def test_the_estimate_is_more_than_what_is_called(tmp_path: Path) -> None:
    write(tmp_path)
    async with LoopbackServer(answer) as server:

        async def measure(*more: str) -> Said:
            return await capeval(tmp_path, *COMMAND, server.url, *more, OPENAI_API_KEY="sk-test-1")

        expected = (await measure("--dry-run", "--json")).json
        part = await measure("--max-cost", f"{expected['cost'] / 5:.6f}")
        assert (part.code, "not measured" in part.out) == (3, True)
        some = prompts(server)
        assert 0 < some.total() < expected["calls"]
        # Captions that are scored already are not counted again.
        rest = (await measure("--dry-run", "--json")).json
        assert "all 12 captions scored" in (await measure()).out
        asked = prompts(server)
        assert max(asked.values()) == 1
    # Equal questions, about the reference of both systems for example, are one call.
    assert asked.total() < expected["calls"] < 1.5 * asked.total()
    assert rest["calls"] < expected["calls"]
    tokens = sum(map(len, asked)) // 4
    assert tokens < expected["input_tokens"] < 2.5 * tokens
    assert (await measure("--dry-run", "--json")).json["calls"] == 0
