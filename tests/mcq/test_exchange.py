"""`capeval mcq import` and `export`, and the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import InputError, UsageError
from tests.cli_runs import run
from tests.mcq.graded_files import line, write

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
    out = tmp_path / "responses.jsonl"
    found = capeval.mcq_import([results], out=out, on_notice=notices.append)
    assert [one.id for one in found.responses][:3] == ["count/0", "count/1", "count/2"]
    assert found.responses[0].tags == {"reasoning_type": "count", "demonstration_type": "human"}
    assert any("--questions" in text or "questions" in text for text in notices)
    assert found.responses[0].call == {"model": "some-model"}
    written = capeval.mcq_export(out, to="tomato", out=tmp_path / "again")
    assert (written.responses, written.failed) == (4, 2)
    for file in written.files:
        before = results / file.relative_to(tmp_path / "again")
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
    found = capeval.mcq_import([results], out=tmp_path / "r.jsonl", questions=questions)
    assert found.responses[1].video == "human/01"
    assert found.responses[1].tags["zoom"] == 1
    graded = capeval.mcq_grade(results, questions=questions)
    assert graded.counts.missing == 2
    assert (graded.overall.correct, graded.overall.n) == (2, 4)


def test_results_of_several_models_are_refused(results: Path, tmp_path: Path) -> None:
    write(results / "count+human/16/other.jsonl", [tomato_line(0, "C")])
    with pytest.raises(InputError, match="2 models"):
        capeval.mcq_import([results], out=tmp_path / "r.jsonl")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"all_choices": ["B", "A", "C"]}, "all_choices"),
        ({"all_choices": "ABC"}, "all_choices"),
        ({"index2ans": {"A": "2"}}, "index2ans"),
        ({"gt": "3"}, "gt"),
        ({"gt": "D. 4"}, "gt"),
        ({"gt": "A. 3"}, "gt"),
        ({"response": 3}, "response"),
        ({"index2ans": {"A": "2", "B": " ", "C": "3"}}, r"index2ans\.B: is empty"),
        ({"question": {"a": 1}}, "question: must be a text"),
        ({"id": ""}, "id: is empty"),
        ({"id": None}, "id: must be a number or a text, not null"),
        ({"id": "1\x1b[31m"}, "id: .* has a control character"),
    ],
)
def test_malformed_results_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    file = write(tmp_path / "model.jsonl", [tomato_line(0, "C") | changes])
    with pytest.raises(InputError, match=f"line 1: {message}"):
        capeval.mcq_import([file], out=tmp_path / "r.jsonl")


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
    source = write(tmp_path / "responses.jsonl", lines)
    notices: list[str] = []
    out = tmp_path / "submission.json"
    capeval.mcq_export(source, to="video-mme", out=out, on_notice=notices.append)
    assert any("1 failed call" in text for text in notices)
    videos = json.loads(out.read_text())
    assert [len(video["questions"]) for video in videos] == [3, 1]
    first = videos[0]["questions"][0]
    assert (first["options"][2], first["response"]) == ("C. Berries.", "C")
    back = capeval.mcq_import([out], out=tmp_path / "back.jsonl")
    assert [one.reply for one in back.responses] == ["C", "", "", "D. Ribbons."]
    assert back.responses[0].options == tuple(lines[0]["options"])


def test_responses_to_other_questions_are_not_exported(tmp_path: Path) -> None:
    source = write(tmp_path / "responses.jsonl", [line(1, "C")])
    with pytest.raises(InputError, match="Video-MME"):
        capeval.mcq_export(source, to="video-mme", out=tmp_path / "x.json")
    with pytest.raises(InputError, match="TOMATO"):
        capeval.mcq_export(source, to="tomato", out=tmp_path / "x", model="m")
    with pytest.raises(UsageError, match="model"):
        capeval.mcq_export(source, to="tomato", out=tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"domain": "Sports"}, 'id "001-2": domain: "Sports" is not what an earlier question says'),
        ({"video_id": ["001"]}, 'id "001-2": video_id: must be a text or a number'),
    ],
)
def test_questions_about_one_video_agree_on_it(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    lines = [line(0, "C", id=f"001-{n}", benchmark="video-mme") | TAGS for n in (1, 2)]
    source = write(tmp_path / "r.jsonl", [lines[0], lines[1] | changes])
    with pytest.raises(InputError, match=message):
        capeval.mcq_export(source, to="video-mme", out=tmp_path / "x.json")
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "../../elsewhere/1"}, "cannot be a part of a folder's name"),
        ({"id": "/elsewhere/1"}, "cannot be a part of a folder's name"),
        ({"id": "count\0/1"}, "cannot be a part of a folder's name"),
        ({"id": "a+b/1"}, "cannot be a part of a folder's name"),
        ({"demonstration_type": "../elsewhere"}, "cannot be a part of a folder's name"),
        ({"demonstration_type": ["human"]}, "cannot be a part of a folder's name"),
        ({"frames": {"number": "../elsewhere"}}, r"frames\.number: must be a number"),
        ({"frames": {"number": True}}, r"frames\.number: must be a number"),
        ({"frames": {"number": 1.5}}, r"frames\.number: must be a number"),
    ],
)
def test_no_response_leads_out_of_the_folder_of_results(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    made = line(1, "C", id="count/1", demonstration_type="human") | changes
    source = write(tmp_path / "r.jsonl", [made])
    with pytest.raises(InputError, match=message):
        capeval.mcq_export(source, to="tomato", out=tmp_path / "deep" / "out", model="m")
    assert {path.name for path in tmp_path.rglob("*")} == {"r.jsonl"}


@pytest.mark.parametrize("model", ["", ".", "..", "../m", "a/b", "a\\b", "a\x1b[31m"])
def test_a_model_is_the_name_of_a_file(tmp_path: Path, model: str) -> None:
    source = write(tmp_path / "r.jsonl", [line(1, "C", id="count/1", demonstration_type="human")])
    with pytest.raises(UsageError, match="model"):
        capeval.mcq_export(source, to="tomato", out=tmp_path / "out", model=model)


def test_other_files_are_not_replaced_by_an_export(tmp_path: Path) -> None:
    source = write(tmp_path / "r.jsonl", [line(1, "C", id="count/1", demonstration_type="human")])
    file = tmp_path / "out/count+human/3/m.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("dear data")
    with pytest.raises(UsageError, match="other contents"):
        capeval.mcq_export(source, to="tomato", out=tmp_path / "out", model="m")
    assert file.read_text() == "dear data"
    capeval.mcq_export(source, to="tomato", out=tmp_path / "out", model="m", force=True)
    capeval.mcq_export(source, to="tomato", out=tmp_path / "out", model="m")


def test_files_with_the_same_questions_are_refused(results: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="duplicated"):
        capeval.mcq_import([results, results], out=tmp_path / "r.jsonl")
    assert not (tmp_path / "r.jsonl").exists()


def test_other_responses_are_not_replaced(results: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    write(out, [line(1, "C")])
    with pytest.raises(UsageError, match="other contents"):
        capeval.mcq_import([results], out=out)
    capeval.mcq_import([results], out=out, force=True)
    capeval.mcq_import([results], out=out)


def test_command_prints_a_headline_and_at_most_a_screen(tmp_path: Path) -> None:
    lines = [line(n, "C" if n % 3 else "B", kind=f"k{n % 30:02}") for n in range(120)]
    write(tmp_path / "responses.jsonl", [*lines, line(200, None)])
    done = run(tmp_path, "mcq", "grade", "responses.jsonl")
    assert done.code == 0, done.err
    first = done.out.splitlines()[0]
    assert "accuracy 66.7%" in first
    assert "80/120 replies (exact)" in first
    assert "1 response unscored" in first
    assert len(done.out.splitlines()) <= 41
    assert "By chance: 0" in done.out
    full = run(tmp_path, "mcq", "grade", "responses.jsonl", "--full")
    assert "k29" in full.out
    assert "k29" not in done.out
    latex = run(tmp_path, "mcq", "grade", "responses.jsonl", "--format", "latex")
    assert r"\begin{table}" in latex.out
    answer = run(tmp_path, "mcq", "grade", "responses.jsonl", "--json", "--as", "tuna")
    assert json.loads(answer.out)["settings"]["as"] == "tuna"
    wrong = run(tmp_path, "mcq", "grade", "responses.jsonl", "--as", "mmmu")
    assert wrong.code == 2


def test_names_from_files_cannot_act_on_a_terminal(tmp_path: Path) -> None:
    hostile = "\x1b[31mred\x07"
    lines = [line(n, "C", benchmark=hostile, kind=[hostile, "b"][n % 2]) for n in range(6)]
    write(tmp_path / "responses.jsonl", lines)
    done = run(tmp_path, "mcq", "grade", "responses.jsonl")
    assert done.code == 0, done.err
    assert "\x1b" not in done.out
    assert "\x07" not in done.out


def test_commands_import_and_export(results: Path, tmp_path: Path) -> None:
    done = run(tmp_path, "mcq", "import", "results", "--out", "r.jsonl")
    assert (done.code, "6 responses, 2 of them failed calls" in done.out) == (0, True), done.err
    more = ("--to", "tomato", "--out", "again", "--model", "m")
    done = run(tmp_path, "mcq", "export", "r.jsonl", *more)
    assert done.code == 0, done.err
    assert (tmp_path / "again/count+human/16/m.jsonl").exists()
