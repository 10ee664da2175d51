"""Plays the judge for `tests/server.py`.

It answers by comparing words, always alike: `answer` without fault, `flaky` malformed at first for
some prompts, and `moody` with the failures that a test names.
"""

import hashlib
import html
import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from aiohttp import web

from capeval.llm.client import PREFLIGHT
from tests.server import completion, failure, unauthorized

_BETWEEN = {
    tag: re.compile(rf"<{tag}>\n(.*?)\n</{tag}>", re.DOTALL)
    for tag in ("caption", "candidate_events", "reference_events", "match_data")
}
_NUMBERED = re.compile(r"^(\d+): (.*)$", re.MULTILINE)
_WORD = re.compile(r"\w+")
_ENDING = re.compile(r"(?<=\w\w\w)(ing|es|s|ed)$")
_STOP = frozenset(
    ["a", "an", "and", "are", "at", "by", "from", "in", "is", "it", "of", "on", "the", "to"]
)


def is_preflight(request: dict[str, Any]) -> bool:
    return bool(request["messages"][0] == PREFLIGHT[0])


def answer(request: dict[str, Any]) -> dict[str, Any]:
    return _completion(request, _right(request))


def flaky(request: dict[str, Any]) -> dict[str, Any]:
    """Answer malformed at first for one prompt in three, twice for some; mend it when asked."""
    prompt = _prompt(request)
    if is_preflight(request):
        return answer(request)
    draw = _draw(prompt, request.get("seed"))
    faults = (draw % 3 == 0) + (draw % 9 == 0)
    asked_again = len(request["messages"]) // 2
    text = _right(request)
    if asked_again < faults:
        text = _FAULTS[draw // 9 % len(_FAULTS)](text)
    return _completion(request, text)


def moody(request: dict[str, Any], mood: dict[str, list[str]]) -> dict[str, Any] | web.Response:
    """Answer as `answer`, but fail as `{failure: [texts]}` says: if a text is in the prompt.

    A failure that is a number is answered with that status, as by a firewall.
    """
    prompt = _prompt(request)
    if any(text in prompt for text in mood.get("key", ())):
        return unauthorized("sk-test-SECRET123")
    for status in filter(str.isdecimal, mood):
        if any(text in prompt for text in mood[status]):
            return web.Response(status=int(status), text=f"<p>Blocked: {hash(prompt)}")
    if any(text in prompt for text in mood.get("filter", ())):
        return failure(400, "The response was filtered", code="content_filter")
    if any(text in prompt for text in mood.get("long", ())):
        said = "This model's maximum context length is 8192 tokens"
        return failure(400, said, code="context_length_exceeded")
    return answer(request)


def reply_to(prompt: str, seed: int = 0) -> str:
    given = {tag: found[1] for tag, one in _BETWEEN.items() if (found := one.search(prompt))}
    if "match_data" in given:
        return _relations(prompt, given["match_data"], seed)
    if "caption" in given:
        return _starts(_texts(given["caption"]))
    events, references = (_texts(given[f"{kind}_events"]) for kind in ("candidate", "reference"))
    return _compact({"matches": list(enumerate(_match(events, references), start=1))})


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _texts(lines: str) -> list[str]:
    return [html.unescape(text) for _, text in _NUMBERED.findall(lines)]


def _starts(texts: Sequence[str]) -> str:
    """Let each sentence be an event, and what was said before no event of its own."""
    starts, known = [1], {texts[0]}
    for number, (before, text) in enumerate(pairwise(texts), start=2):
        if before[-1:] in ".!?" and text not in known:
            starts.append(number)
        known.add(text)
    return _compact({"starts": starts, "repeats": []})


def _relations(prompt: str, data: str, seed: int) -> str:
    answers: list[object] = []
    for block in data.split("\n\n"):
        passage, _, elements = block.partition("\n")
        text = html.unescape(passage.removeprefix("Passage: "))
        for number, content in _NUMBERED.findall(elements):
            label = _label(html.unescape(content), text, seed)
            reason = f"{_share(content, text):.0%} of the words are there"
            explained = {"id": int(number), "reason": reason, "relation": label}
            answers.append(explained if '"reason"' in prompt else [int(number), label])
    return _compact({"relations": answers})


def _prompt(request: dict[str, Any]) -> str:
    content = request["messages"][0]["content"]
    assert isinstance(content, str)
    return content


def _right(request: dict[str, Any]) -> str:
    if is_preflight(request):
        return '{"ok": true}'
    return reply_to(_prompt(request), request.get("seed") or 0)


def _completion(request: dict[str, Any], text: str) -> dict[str, Any]:
    asked = sum(len(message["content"]) for message in request["messages"])
    return completion(
        text,
        model=f"{request['model']}-2024-08-06",
        prompt_tokens=-(-asked // 4),
        completion_tokens=-(-len(text) // 4),
    )


def _draw(prompt: str, seed: object) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}{prompt}".encode()).digest()[:4])


_FAULTS: tuple[Callable[[str], str], ...] = (
    lambda text: text[: len(text) // 2],
    lambda text: f"I am not sure; perhaps {text[:-3]}",
    lambda text: "",
    lambda text: '{"events": [], "matches": [], "relations": []}',
    lambda text: f"{text}\nWait, no: {text[:-1]}",
)


@lru_cache(maxsize=65536)
def _words(text: str) -> frozenset[str]:
    found = set(_WORD.findall(text.lower())) - _STOP
    # Without endings "walks" and "walking" count as one.
    return frozenset(_ENDING.sub("", word) for word in found)


def _share(inner: str, outer: str) -> float:
    words = _words(inner)
    return len(words & _words(outer)) / len(words) if words else 0.0


def _match(events: Sequence[str], references: Sequence[str]) -> list[int | None]:
    matches: list[int | None] = []
    last = 1
    for event in events:
        shares = [_share(event, reference) for reference in references[last - 1 :]]
        best = max(shares)
        if best >= 0.3:
            last += shares.index(best)
        matches.append(last if best >= 0.3 else None)
    return matches


def _label(content: str, text: str, seed: int) -> str:
    share = _share(content, text)
    # A judge asked again is not of quite the same mind.
    if seed and _draw(content + text, seed) % 10 == 0:
        return "lack"
    return "entailment" if share >= 0.75 else "contradiction" if share >= 0.4 else "lack"
