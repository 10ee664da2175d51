"""A chat model for CLAIR and AutoDQ that compares words, always alike; and a scripted measure."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import capeval
from capeval.llm.replies import ChatRequest
from capeval.metrics.measure import Measured
from capeval.metrics.metric_work import DetailLine
from tests.scripted_client import ScriptedClient
from tests.server import LoopbackServer, completion


def answer(request: dict[str, Any]) -> dict[str, Any]:
    prompt = request["messages"][0]["content"]
    text = reply_to(prompt)
    return completion(text, prompt_tokens=len(prompt) // 4, completion_tokens=len(text) // 4)


def reply_to(prompt: str) -> str:
    if prompt.startswith("Below, as JSON, are two sets"):
        (captions,) = data_of(prompt)
        candidate = words(captions["candidate"][0])
        references = map(words, captions["reference"])
        best = max(len(candidate & one) / len(candidate | one) for one in references)
        reason = f"They share {best:.0%} of their words."
        return json.dumps({"score": round(100 * best), "reason": reason})
    if prompt.startswith("List the events"):
        (description,) = data_of(prompt)
        parts = (one.strip() for one in re.split(r"[.\n]", description))
        events = [one for one in parts if one and not re.search(r"\b(?:camera|cut)\b", one)]
        return json.dumps({"events": events})
    if prompt.startswith("Check which events"):
        description, *listed = data_of(prompt)
        known = words(description)
        labels = ["entailment" if words(one["event"]) <= known else "neutral" for one in listed]
        pairs = [{"id": n, "relation": label} for n, label in enumerate(labels, start=1)]
        return json.dumps({"events": pairs})
    return '{"ok": true}'


def data_of(prompt: str) -> list[Any]:
    """Return the JSON values that have a line to themselves in a prompt."""
    lines = [line for line in prompt.split("\n") if line[:1] in ('"', "{") and "…" not in line]
    return [json.loads(line) for line in lines]


def words(text: str) -> set[str]:
    return {*re.findall(r"\w+", text.lower())}


def prompts(server: LoopbackServer) -> Counter[str]:
    """Count the prompts of a server, without the calls that test the endpoint."""
    every = (json.dumps(one["messages"]) for one in server.requests)
    return Counter(one for one in every if "ok" not in one[:80])


def measured(
    metric: str,
    folder: Path,
    script: Sequence[Any] | Callable[[ChatRequest], Any],
    captions: Mapping[str, str] | None = None,
    references: Any = None,
    **options: Any,
) -> tuple[Measured, ScriptedClient, dict[str, DetailLine]]:
    """Measure captions with a scripted model; return the details by index too."""
    captions = captions or {"1": "A dog runs over a field."}
    client = ScriptedClient(script)
    file, other = folder / "c.json", folder / "r.json"
    file.write_text(json.dumps(captions), "utf-8")
    references = references or dict.fromkeys(captions, "A brown dog runs.")
    other.write_text(json.dumps(references), "utf-8")
    (found,) = capeval.measure(
        candidates=[str(file)],
        references=str(other),
        out=str(folder / "metrics.jsonl"),
        client=client,
        cache=folder / "cache.sqlite",
        metric=metric,
        judge="model-1",
        **options,
    )
    details = folder / "metrics.details" / f"{metric}.jsonl"
    lines = [DetailLine.model_validate_json(one) for one in details.read_text("utf-8").splitlines()]
    return found, client, {line.index: line for line in lines}
