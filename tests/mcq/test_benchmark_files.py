"""Files of the benchmarks' own code: graded by `capeval mcq grade`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

import capeval
from capeval.errors import InputError
from tests.mcq import question_files
from tests.world import write_lines

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
    for folder in ("count+human", "rotation+object"):
        place = tmp_path / "results" / folder / "16"
        place.mkdir(parents=True)
        lines = [tomato_line(0, "C"), tomato_line(1, "The answer is A."), tomato_line(2, None)]
        write_lines(place / "some-model.jsonl", lines)
    return tmp_path / "results"


def test_results_of_tomato_are_graded(results: Path) -> None:
    notices: list[str] = []
    found = capeval.mcq_grade(results, on_notice=notices.append)
    assert [item.id for item in found.items][:3] == ["count/0", "count/1", "count/2"]
    assert found.items[0].tags == {"reasoning_type": "count", "demonstration_type": "human"}
    assert any("questions" in text for text in notices)
    assert found.settings["model"] == "some-model"
    assert [item.reply for item in found.items] == ["C", "The answer is A.", None] * 2
    write_lines(results / "count+human/16/other.jsonl", [tomato_line(0, "C")])
    with pytest.raises(InputError, match="2 models"):
        capeval.mcq_grade(results)


def test_questions_give_videos_and_tags(results: Path, tmp_path: Path) -> None:
    questions = tmp_path / "data"
    questions.mkdir()
    for name in ("count", "rotation"):
        about: dict[str, Any] = {"question": "How many?", "options": OPTIONS, "motion_type": name}
        about["demonstration_type"] = "human"
        records = {
            str(n): question_files.tomato(key=f"0{n}", variation={"zoom": n % 2}, **about)
            for n in range(4)
        }
        (questions / f"{name}.json").write_text(json.dumps(records))
    graded = capeval.mcq_grade(results, questions=questions)
    assert graded.items[1].video == "human/01"
    assert graded.items[1].tags["zoom"] == 1
    assert graded.counts.missing == 2
    assert (graded.overall.correct, graded.overall.n) == (2, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"all_choices": ["B", "A", "C"]}, "all_choices, index2ans, gt: "),
        ({"index2ans": {"A": "2"}}, "all_choices, index2ans, gt: "),
        ({"gt": "A. 3"}, "all_choices, index2ans, gt: "),
        ({"response": 3}, "response"),
        ({"id": "1\x1b[31m"}, "id: .* has a control character"),
    ],
)
def test_malformed_results_are_refused(changes: dict[str, Any], message: str) -> None:
    file = write_lines(Path("model.jsonl"), [tomato_line(0, "C") | changes])
    with pytest.raises(InputError, match=f"line 1: {message}"):
        capeval.mcq_grade(file)


TAGS = {
    "duration": "short",
    "domain": "Knowledge",
    "sub_category": "Law",
    "task_type": "OCR Problems",
}


def test_an_empty_response_of_a_template_is_an_empty_reply(tmp_path: Path) -> None:
    videos = [
        {
            **question_files.video_mme(question_id=f"00{n}-1"),
            "video_id": f"00{n}",
            "response": reply,
        }
        for n, reply in enumerate(["C", ""])
    ]
    (tmp_path / "filled.json").write_text(json.dumps(videos))
    assert [item.reply for item in capeval.mcq_grade(tmp_path / "filled.json").items] == ["C", ""]


def test_an_empty_cell_is_no_response(tmp_path: Path) -> None:
    rows = ["videoID,question_id,question,options,answer,response"]
    rows += [f"v,{n},Q,\"['A. l', 'B. r']\",A,{reply}" for n, reply in enumerate(["A", "B", ""])]
    (tmp_path / "filled.csv").write_text("\n".join(rows) + "\n")
    found = capeval.mcq_grade(tmp_path / "filled.csv")
    assert [item.reply for item in found.items] == ["A", "B", None]


FAILED = "Failed to obtain answer via API."
REPLIES = ["B", "The answer is D.", FAILED]
VIDEO_MME = [
    question_files.video_mme(question_id=f"001-{n}", question=f"How many boats are in {n}?")
    for n in (1, 2, 3)
]
TUNA = [question_files.tuna(index=n, video=f"clip_{n}") for n in range(3)]
TOMATO = [question_files.harness(id=f"visual_cues_{n}", answer=1) for n in range(3)]


def of_vlmevalkit(benchmark: str) -> pandas.DataFrame:
    if benchmark == "tuna":
        frame = pandas.DataFrame(TUNA)
        frame["answer"] = "right"
        more = ["video_index", "visual_characteristic", "skill", "task"]
    else:
        frame = pandas.DataFrame(VIDEO_MME).assign(index=range(3), answer="B")
        frame["video"], frame["candidates"] = frame["videoID"], frame["options"]
        frame["subtitle_path"] = frame["videoID"].map("./subtitle/{}.srt".format)
        more = ["duration", "domain", "sub_category", "task_type", "subtitle_path"]
    frame["video_path"] = frame["video"].map("./video/{}.mp4".format)
    frame = frame[["index", "video", "video_path", *more, "question", "answer", "candidates"]]
    return frame.assign(prediction=REPLIES)


@pytest.mark.parametrize("benchmark", ["tuna", "video-mme"])
def test_predictions_of_vlmevalkit_are_graded(benchmark: str) -> None:
    of_vlmevalkit(benchmark).to_excel("p.xlsx", index=False)
    notices: list[str] = []
    found = capeval.mcq_grade("p.xlsx", on_notice=notices.append)
    assert f"p.xlsx: VLMEvalKit's predictions for {benchmark}" in notices
    assert (found.counts.failed, found.overall.n, found.overall.correct) == (1, 2, 1)
    assert {one.benchmark for one in found.items} == {benchmark}
    assert not {"prediction", "video_path", "subtitle_path"} & {*found.items[0].tags}


def test_rows_of_vlmevalkit_are_joined_to_the_published_questions() -> None:
    of_vlmevalkit("video-mme")[1:].to_excel("p.xlsx", index=False)
    asked = [one | {"answer": "B"} for one in VIDEO_MME]
    questions = question_files.write(Path("q.json"), asked)
    found = capeval.mcq_grade("p.xlsx", questions=questions)
    assert [one.id for one in found.items] == ["001-2", "001-3"]
    assert found.counts.missing == 1


def in_log(benchmark: str, number: int) -> dict[str, Any]:
    """Return what lmms-eval logs of a question besides the reply."""
    if benchmark == "tomato":
        about = {"question_id": TOMATO[number]["id"], "reason_type": "visual cues"}
        metric = about | {"score": 0.0, "demonstration_type": "object"}
        return {"target": "utils.tomato_doc_to_target", "tomato_score": metric}
    if benchmark == "tuna":
        return {"target": "right", "exact_match": 0.0}
    metric = {"question_id": VIDEO_MME[number]["question_id"], "pred_answer": "B", "answer": "C"}
    return {"target": "C", "videomme_perception_score": metric | {"duration": "short"}}


LOGS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "flat.jsonl": lambda samples: "".join(json.dumps(one) + "\n" for one in samples),
    "nested.jsonl": lambda samples: "".join(
        json.dumps(one | {"resps": [["C"]], "filtered_resps": ["C"]}) + "\n" for one in samples
    ),
    "logs.json": lambda samples: json.dumps({"args": {}, "logs": samples, "time": "0"}),
}
ASKED = {"tuna": TUNA, "tomato": TOMATO, "video-mme": VIDEO_MME}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("benchmark", ASKED)
def test_logs_of_lmms_eval_are_graded_with_the_questions(
    benchmark: str, name: str, tmp_path: Path
) -> None:
    samples = [{"doc_id": n, "filtered_resps": "C", **in_log(benchmark, n)} for n in range(3)]
    (tmp_path / name).write_text(LOGS[name](samples))
    questions = question_files.write(tmp_path / "q.json", ASKED[benchmark])
    found = capeval.mcq_grade(tmp_path / name, questions=questions)
    assert [(one.benchmark, one.reply) for one in found.items] == [(benchmark, "C")] * 3
    assert found.overall.correct == (3 if benchmark == "video-mme" else 0)
    with pytest.raises(InputError, match="name the questions with --questions"):
        capeval.mcq_grade(tmp_path / name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"doc_id": 9}, "doc_id: must be a number from 0 to 2"),
        ({"target": "left"}, 'target: "left" is not the answer of question 1, row 1'),
        ({"tomato_score": {"question_id": "7", "reason_type": "count"}}, "not among the questions"),
    ],
)
def test_a_log_of_other_questions_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    sample = {"doc_id": 1, "target": "right", "filtered_resps": "B"} | changes
    write_lines(tmp_path / "log.jsonl", [sample])
    (tmp_path / "q.json").write_text(json.dumps(TUNA))
    with pytest.raises(InputError, match=message):
        capeval.mcq_grade(tmp_path / "log.jsonl", questions=tmp_path / "q.json")
