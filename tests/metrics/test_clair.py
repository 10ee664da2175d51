import json
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from capeval.errors import RequestRefused
from capeval.llm.replies import ChatRequest
from tests.metrics.chat_world import measured


def good(score: Any = 85, reason: Any = "Both have a dog.") -> str:
    return json.dumps({"score": score, "reason": reason})


READ: list[tuple[str, float]] = [
    (good(85), 0.85),
    (good(0), 0.0),
    (good(100), 1.0),
    (good(1), 0.01),
    (good(87.5), 0.875),
]


@pytest.mark.parametrize(("reply", "value"), READ)
def test_a_score_is_one_number_in_the_form(reply: str, value: float, tmp_path: Path) -> None:
    found, client, lines = measured("clair", tmp_path, [reply])
    assert found.results[0].summaries["clair"].value == value
    assert lines["1"].details["score"] == 100 * value
    assert len(client.requests) == lines["1"].usage.calls == 1


UNREAD: dict[str, str] = {
    "85": "must be a JSON object",
    "Score: 85": "one complete JSON value",
    good("85"): "score: Input should be a valid number",
    good(0.85): "is 0.85 meant on a scale from 0 to 1?",
    good(1.0): "is 1.0 meant on a scale from 0 to 1?",
    good(100.01): "score: Input should be less than or equal to 100",
    good(1, "…"): "reason: must be a text with words",
    '{"score": 85}': "reason: Field required",
    '{"score": 85, "reason": "It is.", "sure": 1}': "sure: Extra inputs are not permitted",
}


@pytest.mark.parametrize("reply", UNREAD)
def test_anything_else_is_asked_again_and_then_unscored(reply: str, tmp_path: Path) -> None:
    found, client, lines = measured("clair", tmp_path, [reply] * 3)
    (result,) = found.results
    assert (result.scored, result.captioned) == (0, 1)
    assert result.summaries["clair"].value is None
    assert UNREAD[reply] in result.unscored["1"]
    assert len(client.requests) == lines["1"].usage.calls == 3
    row = json.loads((tmp_path / "metrics.jsonl").read_text("utf-8"))
    assert row["value"] is None
    # The model is shown the fault.
    assert UNREAD[reply] in client.requests[1].messages[-1]["content"]


def test_only_an_empty_caption_is_0_without_a_call(tmp_path: Path) -> None:
    captions = {"1": "", "2": " \u200b\n", "3": "."}
    found, client, lines = measured("clair", tmp_path, [good(60)], captions)
    assert found.results[0].summaries["clair"].value == 0.6 / 3
    assert len(client.requests) == 1
    assert [lines[index].values["clair"] for index in captions] == [0, 0, 0.6]


def test_a_failure_is_no_part_of_the_mean(tmp_path: Path) -> None:
    captions = {"1": "a good one", "2": "a refused one", "3": "a bad one", "4": "good too"}

    def script(request: ChatRequest) -> Any:
        prompt = request.messages[0]["content"]
        if "refused" in prompt:
            return RequestRefused("it is not allowed")
        return "0" if "bad" in prompt else good(50 if "too" in prompt else 100)

    found, _, lines = measured("clair", tmp_path, script, captions)
    (result,) = found.results
    assert result.summaries["clair"].value == 0.75
    assert (result.scored, result.captioned) == (2, 4)
    assert result.unscored["2"] == "it is not allowed"
    assert lines["3"].usage.calls == 3
    # The next run only asks what failed.
    found, client, _ = measured("clair", tmp_path, [good(0), good(10)], captions)
    assert len(client.requests) == 2
    assert found.results[0].summaries["clair"].value == (1 + 0.5 + 0 + 0.1) / 4


def test_the_wording_is_part_of_the_signature(tmp_path: Path) -> None:
    found, client, _ = measured("clair", tmp_path, [good(10)])
    video = found.results[0].metric.signature
    assert "describes that same video" in client.requests[0].messages[0]["content"]
    (tmp_path / "capeval.toml").write_text('[metrics.clair]\nwording = "image"\n', "utf-8")
    with chdir(tmp_path):
        found, client, _ = measured("clair", tmp_path, [good(20)])
    image = found.results[0].metric.signature
    assert "describes that same image" in client.requests[0].messages[0]["content"]
    assert "video" not in client.requests[0].messages[0]["content"]
    assert found.results[0].summaries["clair"].value == 0.2
    assert "|wording:video|prompts:clair-v1@" in video
    assert "|wording:image|prompts:clair-v1@" in image
    assert "|judge:model-1|" in video
    assert video.split("|")[3] != image.split("|")[3]
