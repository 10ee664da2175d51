"""Files of the benchmarks' own code: graded, and written by `capeval mcq grade --layout`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import InputError, UsageError
from tests.mcq.graded_files import line, write
from tests.typed import typed

OPTIONS = ["2", "1", "3"]


def tomato_line(number: int, response: str | None) -> dict[str, Any]:
    return {
        "id": str(number),
        "question": "How many?",
        "response": response,
        "all_choices": ["A", "B", "C"],
        "index2ans": dict(zip("ABC", OPTIONS, strict=True)),
        "gt": "C. 3",
    }


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of results as TOMATO's code writes it."""
    for folder in ("count+human", "rotation+object"):
        place = tmp_path / "results" / folder / "16"
        place.mkdir(parents=True)
        lines = [tomato_line(0, "C"), tomato_line(1, "The answer is A."), tomato_line(2, None)]
        write(place / "some-model.jsonl", lines)
    return tmp_path / "results"


def test_results_of_tomato_come_back_as_they_were(results: Path, tmp_path: Path) -> None:
    notices: list[str] = []
    again = tmp_path / "again"
    found = capeval.mcq_grade(results, layout="tomato", out=again, on_notice=notices.append)
    assert [item.id for item in found.items][:3] == ["count/0", "count/1", "count/2"]
    assert found.items[0].tags == {"reasoning_type": "count", "demonstration_type": "human"}
    assert any("questions" in text for text in notices)
    assert found.settings["model"] == "some-model"
    files = [file for file in again.rglob("*") if file.is_file()]
    assert len(files) == 2
    for file in files:
        before = results / file.relative_to(again)
        lines = [json.loads(text) for text in before.read_text().splitlines()]
        kept = [one for one in lines if one["response"] is not None]
        assert [json.loads(text) for text in file.read_text().splitlines()] == kept


def test_questions_give_videos_and_tags(results: Path, tmp_path: Path) -> None:
    questions = tmp_path / "data"
    questions.mkdir()
    for name in ("count", "rotation"):
        records = {
            str(n): {
                "question": "How many?",
                "options": OPTIONS,
                "answer": 2,
                "key": f"0{n}",
                "motion_type": name,
                "demonstration_type": "human",
                "variation": {"zoom": n % 2},
            }
            for n in range(4)
        }
        (questions / f"{name}.json").write_text(json.dumps(records))
    graded = capeval.mcq_grade(results, questions=questions)
    assert graded.items[1].video == "human/01"
    assert graded.items[1].tags["zoom"] == 1
    assert graded.counts.missing == 2
    assert (graded.overall.correct, graded.overall.n) == (2, 4)


def test_results_of_several_models_are_refused(results: Path) -> None:
    write(results / "count+human/16/other.jsonl", [tomato_line(0, "C")])
    with pytest.raises(InputError, match="2 models"):
        capeval.mcq_grade(results)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"all_choices": ["B", "A", "C"]}, "all_choices"),
        ({"index2ans": {"A": "2"}}, "index2ans"),
        ({"gt": "A. 3"}, "gt"),
        ({"response": 3}, "response"),
        ({"question": {"a": 1}}, "question"),
        ({"id": ""}, "id: is empty"),
        ({"id": "1\x1b[31m"}, "id: .* has a control character"),
    ],
)
def test_malformed_results_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    file = write(tmp_path / "model.jsonl", [tomato_line(0, "C") | changes])
    with pytest.raises(InputError, match=f"line 1: {message}"):
        capeval.mcq_grade(file)


TAGS = {
    "duration": "short",
    "domain": "Knowledge",
    "sub_category": "Law",
    "task_type": "OCR Problems",
}


def test_template_of_video_mme_comes_back_as_it_was(tmp_path: Path) -> None:
    lines = [
        line(0, reply, id=f"00{n // 3}-{n % 3}", benchmark="video-mme", video=f"00{n // 3}") | TAGS
        for n, reply in enumerate(["C", "", None, "D. Ribbons."])
    ]
    write(tmp_path / "responses.jsonl", lines)
    layout = ("--layout", "video-mme", "--out", "submission.json")
    done = typed(tmp_path, "mcq", "grade", "responses.jsonl", *layout)
    assert done.code == 0
    assert done.out.splitlines()[-2:] == ["grades.json", "submission.json"]
    videos = json.loads((tmp_path / "submission.json").read_text())
    assert [len(video["questions"]) for video in videos] == [3, 1]
    first = videos[0]["questions"][0]
    assert (first["options"][2], first["response"]) == ("C. Berries.", "C")
    back = capeval.mcq_grade(tmp_path / "submission.json")
    assert [item.reply for item in back.items] == ["C", "", "", "D. Ribbons."]
    assert (tmp_path / "grades.json").exists()


def test_an_empty_cell_is_no_response(tmp_path: Path) -> None:
    rows = ["videoID,question_id,question,options,answer,response"]
    rows += [f"v,{n},Q,\"['A. l', 'B. r']\",A,{reply}" for n, reply in enumerate(["A", "B", ""])]
    (tmp_path / "filled.csv").write_text("\n".join(rows) + "\n")
    found = capeval.mcq_grade(tmp_path / "filled.csv")
    assert [item.reply for item in found.items] == ["A", "B", None]


@pytest.mark.parametrize(
    ("layout", "changes", "message"),
    [
        ("video-mme", {}, "Video-MME"),
        ("tomato", {}, "TOMATO"),
        ("tomato", {"id": "../../elsewhere/1"}, "TOMATO"),
        ("tomato", {"id": "a+b/1"}, "TOMATO"),
        ("tomato", {"demonstration_type": "../elsewhere"}, "TOMATO"),
    ],
)
def test_what_a_layout_cannot_say_is_refused(
    tmp_path: Path, layout: Any, changes: dict[str, Any], message: str
) -> None:
    made = line(1, "C", demonstration_type="human") | changes
    source = write(tmp_path / "r.jsonl", [made])
    with pytest.raises(InputError, match=message):
        capeval.mcq_grade(source, layout=layout, out=tmp_path / "deep" / "out", model="m")
    assert {path.name for path in tmp_path.rglob("*")} == {"r.jsonl"}


@pytest.mark.parametrize("model", [None, "..", "../m", "a/b", "a\x1b[31m"])
def test_a_model_is_the_name_of_a_file(tmp_path: Path, model: str | None) -> None:
    source = write(tmp_path / "r.jsonl", [line(1, "C", id="count/1", demonstration_type="human")])
    with pytest.raises(UsageError, match="model"):
        capeval.mcq_grade(source, layout="tomato", out=tmp_path / "out", model=model)
    with pytest.raises(UsageError, match="out"):
        capeval.mcq_grade(source, layout="tomato", model="m")


def test_names_from_files_cannot_act_on_a_terminal(tmp_path: Path) -> None:
    hostile = "\x1b[31mred\x07"
    lines = [line(n, "C", benchmark=hostile, kind=[hostile, "b"][n % 2]) for n in range(6)]
    write(tmp_path / "responses.jsonl", lines)
    done = typed(tmp_path, "mcq", "grade", "responses.jsonl")
    assert done.code == 0, done.err
    assert "\x1b" not in done.out
    assert "\x07" not in done.out
