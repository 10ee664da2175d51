"""Captions files of other programs: which caption belongs to which video, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

from capeval.errors import CapevalError
from capeval.files.caption_layouts import read_captions
from capeval.schema import Annotation
from tests.files.making import annotated

FAILED = "Failed to obtain answer via API. "
QUOTED = 'A sign says "Failed to obtain answer".'
LMMS_FAILED = "[LMMS_EVAL_REQUEST_FAILED after 5 retries] timeout"


def videos(*indexes: str) -> list[Annotation]:
    """Annotated videos whose files are in a folder, as many data sets name them."""
    known = annotated(*indexes)
    return [one.model_copy(update={"video": f"clips/{one.index}.mp4"}) for one in known]


def predictions(*rows: tuple[str, object]) -> list[dict[str, object]]:
    return [
        {"index": n, "video": video, "domain": "Film", "prediction": text}
        for n, (video, text) in enumerate(rows)
    ]


def lines(*records: object) -> str:
    return "\n".join(map(json.dumps, records))


def nested(doc_id: int, reply: str, **fields: object) -> dict[str, object]:
    return {"doc_id": doc_id, "resps": [[reply]], "filtered_resps": [reply], **fields}


def columns(rows: list[dict[str, Any]], separator: str) -> str:
    cells = [[*rows[0]], *([str(cell) for cell in row.values()] for row in rows)]
    quoted = [['"' + cell.replace('"', '""') + '"' for cell in row] for row in cells]
    return "\n".join(map(separator.join, quoted))


VLMEVALKIT = predictions(("b", "B runs."), ("./video/a.mp4", QUOTED), ("c", FAILED))
RECOGNISED = {
    "VLMEvalKit tsv": ("p.tsv", columns(VLMEVALKIT, "\t"), {"b": "B runs.", "a": QUOTED}),
    "VLMEvalKit json": (
        "p.json",
        json.dumps([*VLMEVALKIT[:2], {**VLMEVALKIT[2], "prediction": float("nan")}]),
        {"b": "B runs.", "a": QUOTED},
    ),
    "VLMEvalKit json, empty reply": (
        "p.json",
        json.dumps(predictions(("a", ""), ("b", "B runs."))),
        {"b": "B runs."},
    ),
    "lmms-eval, nested, video in a metric": (
        "s.jsonl",
        lines(
            nested(0, "B runs.", target="", gpt={"video_name": "b.mp4", "pred": "B runs."}),
            nested(1, "A sits.", target="", gpt={"video_name": "a.mp4", "pred": "A sits."}),
            nested(2, LMMS_FAILED, target="", gpt={"video_name": "c.mp4", "pred": LMMS_FAILED}),
        ),
        {"b": "B runs.", "a": "A sits."},
    ),
    "lmms-eval, flat, doc_id": (
        "s.jsonl",
        lines(
            {"doc_id": 2, "filtered_resps": "C jumps.", "target": "", "input": "Describe."},
            {"doc_id": 0, "filtered_resps": "A sits.", "target": "", "input": "Describe."},
            {"doc_id": 1, "resps": [QUOTED], "filtered_resps": QUOTED, "input": "Describe."},
        ),
        {"c": "C jumps.", "a": "A sits.", "b": QUOTED},
    ),
    "lmms-eval, one object": (
        "log.json",
        json.dumps(
            {
                "args": {"model": "m"},
                "logs": [
                    nested(7, "C jumps.", doc={"video": "c"}),
                    nested(9, "A.", doc={"video": "a"}),
                ],
            }
        ),
        {"c": "C jumps.", "a": "A."},
    ),
    "lmms-eval, one line": (
        "s.jsonl",
        lines(nested(5, "A sits.", target="a")),
        {"a": "A sits."},
    ),
    "TUNA's converter": (
        "submission.json",
        '{"0": "A sits.", "1": NaN, "2": "C jumps."}',
        {"a": "A sits.", "c": "C jumps."},
    ),
    "capeval's own, with file names": (
        "c.jsonl",
        lines(
            {"index": "clips/b.mp4", "caption": "B runs."}, {"index": "a.mkv", "caption": "A sits."}
        ),
        {"b": "B runs.", "a": "A sits."},
    ),
    "video for index": (
        "c.jsonl",
        lines({"video": "b.mp4", "caption": "B runs."}, {"video": "a", "caption": None}),
        {"b": "B runs."},
    ),
    "CSV with capeval's names": ("c.csv", "Index,Caption\nb,=1+1\na,\n", {"b": "=1+1"}),
}


@pytest.mark.parametrize("case", RECOGNISED)
def test_layouts_are_recognised(case: str, tmp_path: Path) -> None:
    name, text, expected = RECOGNISED[case]
    (tmp_path / name).write_text(text, encoding="utf-8")

    found = read_captions(tmp_path / name, videos("a", "b", "c"))

    assert {one.index: one.caption for one in found.captions} == expected
    if case.startswith(("VLM", "lmms", "TUNA")):
        assert case.split(maxsplit=1)[0].strip(",") in found.notices[0]


def test_notices_say_how_captions_are_joined_and_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text(columns(VLMEVALKIT, "\t"))

    found = read_captions(tmp_path / "p.tsv", videos("a", "b", "c"))

    assert found.notices == (
        f"{tmp_path}/p.tsv: VLMEvalKit's predictions, joined by video",
        f"{tmp_path}/p.tsv: 1 video without a caption; counted as not captioned",
    )


@pytest.mark.parametrize(("length", "is_named"), [(32_600, False), (32_767, True)])
def test_a_workbook_may_have_cut_a_caption(tmp_path: Path, length: int, is_named: bool) -> None:
    book = Workbook()
    for row in (["index", "video", "prediction"], [0, "a", "x" * length], [1, "b", "y"]):
        book.active.append(row)
    book.save(tmp_path / "p.xlsx")

    found = read_captions(tmp_path / "p.xlsx", videos("a", "b"))

    assert [len(one.caption) for one in found.captions] == [length, 1]
    assert any("may be cut" in notice for notice in found.notices) == is_named


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.csv", "video_id,system,text\n1,m,One runs.\n2,m,\n"),
        (
            "c.jsonl",
            '{"video_id": 1, "text": "One runs.", "x": 0}\n{"video_id": 2, "text": null}',
        ),
    ],
)
def test_columns_are_named_by_the_user(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)

    found = read_captions(
        tmp_path / name, videos("1", "2"), {"index": "video_id", "caption": "text"}
    )

    assert [(one.index, one.caption) for one in found.captions] == [("1", "One runs.")]


def test_one_text_for_all_videos_is_suspicious(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("index,caption\na,Describe.\nb,Describe.\nc,Describe.\n")

    found = read_captions(tmp_path / "c.csv", videos("a", "b", "c"))

    assert found.notices == (f"{tmp_path}/c.csv: all 3 captions are the same text",)


FOLDERS = [
    one.model_copy(update={"index": index, "video": f"{index}/video.mp4"})
    for one, index in zip(annotated("x", "y"), ("0002", "0001"), strict=True)
]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(predictions(("0001/video.mp4", "First."), ("0002/video", "Second."))),
        lines(
            nested(0, "First.", doc={"video": "0001/video.mp4"}),
            nested(1, "Second.", doc={"video": "0002/video.mp4"}),
        ),
        "index,video,caption\n0,0001/video.mp4,First.\n1,0002/video.mp4,Second.\n",
        json.dumps({"./0001/video.mp4": "First.", "data/0002/video.mp4": "Second."}),
    ],
)
def test_folders_tell_videos_of_one_name_apart(text: str, tmp_path: Path) -> None:
    file = tmp_path / "c"
    file.write_text(text)
    found = read_captions(file, FOLDERS)
    assert {one.index: one.caption for one in found.captions} == {
        "0001": "First.",
        "0002": "Second.",
    }


def test_another_folder_is_another_video(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps(predictions(("sports/a", "x"))))
    (known,) = annotated("film/a")
    (one,) = read_captions(tmp_path / "p.json", [known]).captions
    assert one.index == "sports/a"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.jsonl", lines({"index": "a", "caption": FAILED}, {"index": "b", "caption": "B."})),
        ("c.csv", f"index,caption\na,{FAILED}\nb,B.\n"),
        ("c.json", json.dumps({"a": FAILED, "b": "B."})),
    ],
)
def test_a_failed_call_is_no_caption_in_any_layout(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    found = read_captions(tmp_path / name, videos("a", "b"))
    assert [one.index for one in found.captions] == ["b"]
    assert "1 video without a caption" in found.notices[0]


def test_references_beside_predictions_are_not_judged(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("index\tvideo\tcaption\tprediction\n0\ta\tRight.\tWrong.\n")
    (one,) = read_captions(tmp_path / "p.tsv", videos("a", "b")).captions
    assert one.caption == "Wrong."


REFUSED = {
    "some numbers are indexes": (
        "s.json",
        b'{"0": "x", "1": "y"}',
        None,
        "2 rows cannot be joined",
    ),
    "pickle": ("p.pkl", b"\x80\x04.", None, "is a pickle"),
    "other fields": (
        "c.jsonl",
        b'{"clip": "a", "text": "x"}\n{"clip": "b", "text": "x"}',
        None,
        'has "clip", "text"',
    ),
    "named column missing": ("c.csv", b"clip,text\na,x\n", {"index": "video"}, "no such column"),
    "unknown name": ("c.csv", b"clip,text\na,x\n", {"id": "clip"}, '"id" is not a column'),
    "numbers of other rows": ("s.json", b'{"0": "a", "1": "b"}', None, "2 rows cannot be joined"),
    "doc_id of other rows": (
        "s.jsonl",
        lines(nested(0, "x"), nested(5, "y")).encode(),
        None,
        "names of the annotated videos",
    ),
    "two rows of one video": (
        "p.json",
        json.dumps(predictions(("a", "x"), ("a.mp4", "y"))).encode(),
        None,
        "is duplicated",
    ),
    "every call failed": (
        "p.json",
        json.dumps(predictions(("a", FAILED))).encode(),
        None,
        "no cap",
    ),
    "a caption that is no text": (
        "p.json",
        json.dumps(predictions(("a", ["x"]))).encode(),
        None,
        "valid string",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_joined_is_refused(case: str, tmp_path: Path) -> None:
    name, data, mapped, message = REFUSED[case]
    (tmp_path / name).write_bytes(data)

    with pytest.raises(CapevalError, match=message) as error:
        read_captions(tmp_path / name, videos(*("12" if "some" in case else "abc")), mapped)

    assert "\n" not in str(error.value)
    assert name in str(error.value) or mapped
