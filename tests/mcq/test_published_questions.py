"""The benchmarks' own files, which are not part of the project."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from capeval.mcq.question_files import load_questions, with_tags
from capeval.mcq.responses import predictions

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TOMATO = DATA / "tomato"
TEMPLATE = DATA / "videomme_output_template.json"


def _needs(path: Path) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not path.exists(), reason=f"{path.name} is not here")


@_needs(TOMATO)
def test_all_of_tomato_loads() -> None:
    notices: list[str] = []
    questions = load_questions(TOMATO, notices.append)
    assert notices == []
    assert len(questions) == 1484
    assert len({question.video for question in questions}) == 1397
    assert len({question.tags["key"] for question in questions}) < 1397
    # The counts of the paper's table 7.
    assert Counter(question.id.partition("/")[0] for question in questions) == {
        "count": 292,
        "direction": 403,
        "rotation": 286,
        "shape&trend": 223,
        "velocity&frequency": 210,
        "visual_cues": 70,
    }
    assert Counter(question.tags["demonstration_type"] for question in questions) == {
        "human": 595,
        "object": 656,
        "simulated": 233,
    }
    assert {len(question.options) for question in questions} == {3, 4, 5, 6, 7}
    assert len(with_tags(questions, ["motion_type=visual cues"])) == 70
    assert len(with_tags(questions, ["composite=1", "demonstration_type=human"])) < 490


@_needs(TEMPLATE)
def test_the_template_of_video_mme_loads_with_its_responses() -> None:
    notices: list[str] = []
    responses = predictions(TEMPLATE, on_notice=notices.append)
    assert len(notices) == 1
    assert "trailing commas" in notices[0]
    assert len(responses) == 9
    right = [r.id for r in responses if (r.reply or "").removeprefix("Answer: ")[:1] == r.answer]
    assert len(right) == 7
    assert responses[0].options[0] == "Apples."
