"""Captions files of other programs: which caption belongs to which video, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

from capeval.errors import CapevalError, InputError
from capeval.files.captions import captions_in_memory, read_captions
from capeval.schema import Annotation
from tests.files.making import annotated
from tests.files.workbooks import save_workbook

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
    "lmms-eval, one line": ("s.jsonl", lines(nested(5, "A sits.", target="a")), {"a": "A sits."}),
    "lmms-eval, an empty reply and reasoning": (
        "s.jsonl",
        lines(nested(0, "", target="a"), nested(1, "<think>Hm.</think> B runs.", target="b")),
        {"b": "B runs."},
    ),
    "TUNA's converter": (
        "submission.json",
        '{"0": "A sits.", "1": NaN, "2": "C jumps."}',
        {"a": "A sits.", "c": "C jumps."},
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
    rows = [["index", "video", "prediction"], [0, "a", "x" * length], [1, "b", "y"]]
    found = read_captions(save_workbook(tmp_path / "p.xlsx", rows), videos("a", "b"))

    assert [len(one.caption) for one in found.captions] == [length, 1]
    assert any("may be cut" in notice for notice in found.notices) == is_named


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


WRITERS: dict[str, Callable[[pandas.DataFrame, Path], object]] = {
    "c.json": lambda frame, path: frame.to_json(path, orient="records"),
    "c.jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "c.csv": lambda frame, path: frame.to_csv(path, index=False),
    "c.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "c.xlsx": lambda frame, path: frame.to_excel(path, index=False),
    "c.parquet": lambda frame, path: frame.to_parquet(path, index=False),
}
RIGHT = {"a": "A sits.", "b": "B runs."}
THOUGHT = "<think>The events: a dog runs.</think> A sits."
# The columns of a file of the videos a, b and c, and its captions, or what the refusal says.
ROWS: dict[str, tuple[dict[str, list[Any]], dict[str, str] | str]] = {
    "own": ({"index": ["a", "b"], "caption": [*RIGHT.values()]}, RIGHT),
    "reordered": ({"text": ["B runs.", "A sits."], "Video ID": ["b", "a"]}, RIGHT),
    "id": ({"id": ["a", "b"], "n": [1, 2], "pred": [*RIGHT.values()]}, RIGHT),
    "names of files": ({"video": ["a.mp4", "clips/b.mp4"], "output": [*RIGHT.values()]}, RIGHT),
    "row numbers": ({"index": [0, 1], "video": ["a", "b"], "text": [*RIGHT.values()]}, RIGHT),
    "index and its file": (
        {"video": ["clips/a.mp4", "b.mp4"], "index": ["a", "b"], "caption": [*RIGHT.values()]},
        RIGHT,
    ),
    "index and another file": (
        {"index": ["a", "b"], "video": ["b", "a"], "caption": [*RIGHT.values()]},
        'index "a" and video "b" name different videos; choose one, as in --columns index=index',
    ),
    "two captions": (
        {"index": ["a", "b"], "caption": ["Reference.", "Reference."], "response": ["A.", "B."]},
        '"caption", "response" can each be the caption, .* as in --columns caption=response',
    ),
    "VLMEvalKit's, with references": (
        {
            "index": [0, 1],
            "video": ["a", "b"],
            "caption": ["Reference."] * 2,
            "prediction": [*RIGHT.values()],
        },
        RIGHT,
    ),
    "VLMEvalKit's, an empty reply": (
        {"index": [0, 1, 2], "video": ["a", "b", "c"], "prediction": [*RIGHT.values(), ""]},
        RIGHT,
    ),
    "two models": (
        {"index": ["a", "b"], "caption": [*RIGHT.values()], "model": ["m", "n"]},
        r"model: has captions of 2 models \(m, n\); give each its own file",
    ),
    "two systems": (
        {"index": ["a", "b"], "caption": [*RIGHT.values()], "system": ["m", "n"]},
        "system: has captions of 2 models",
    ),
    "one video twice": ({"index": ["a", "a.mp4"], "caption": ["x", "y"]}, "is duplicated"),
    "no caption": ({"index": ["a", "b"], "caption": [None, None]}, "has no caption"),
    "an index as a file": (
        {"index": ["clips/a.mp4", "b.mkv"], "caption": [*RIGHT.values()]},
        RIGHT,
    ),
    "a failed call": ({"index": ["a", "b", "c"], "caption": [*RIGHT.values(), FAILED]}, RIGHT),
    "missing, as text": (
        {"index": ["a", "b", "c"], "caption": ["A sits.", "nan", "<think>Hm.</think>nan"]},
        {"a": "A sits."},
    ),
    "annotations": (
        {"index": ["a"], "video": ["a"], "caption": ["Reference."], "events": ["[]"]},
        "its captions are the references",
    ),
    "reasoning": (
        {"index": ["a", "b", "c"], "caption": [THOUGHT, "B runs.", "<think>Perhaps"]},
        RIGHT,
    ),
    "a formula that a spreadsheet program could not compute": (
        {"index": ["a", "b"], "caption": ["A sits.", "#NAME?"]},
        "caption: #NAME. is a formula to the spreadsheet program",
    ),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("case", ROWS)
def test_the_same_rows_are_read_alike_from_every_format(
    case: str, name: str, tmp_path: Path
) -> None:
    columns, expected = ROWS[case]
    WRITERS[name](pandas.DataFrame(columns), tmp_path / name)
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            read_captions(tmp_path / name, videos("a", "b", "c"))
    else:
        found = read_captions(tmp_path / name, videos("a", "b", "c"))
        assert {one.index: one.caption for one in found.captions} == expected


def test_notices_name_columns_and_removed_reasoning(tmp_path: Path) -> None:
    rows = {"video_id": ["a", "b"], "text": [THOUGHT, "<think>Perhaps"]}
    file = tmp_path / "c.csv"
    pandas.DataFrame(rows).to_csv(file, index=False)
    assert read_captions(file, videos("a", "b")).notices == (
        f'{file}: the index is "video_id", the caption "text"',
        f"{file}: the model's reasoning was removed from 1 caption",
        f"{file}: b has reasoning without an end, or no caption after it; counted as not captioned",
    )
    in_memory = captions_in_memory(dict(zip(*rows.values(), strict=True)))
    assert [one.caption for one in in_memory.captions] == ["A sits."]
    assert len(in_memory.notices) == 2


IN_CELLS: dict[str, tuple[list[list[Any]], str]] = {
    "a formula": (
        [["index", "caption"], ["a", "A sits."], ["b", "=== Scene 1"]],
        'sheet "Ratings", row 3: caption: is a formula to the spreadsheet program',
    ),
    "an index 1.10": (
        [["index", "caption"], [1.1, "A sits."]],
        "index: has numbers or dates, and 1.10 became 1.1; format the column as text",
    ),
    "an index that is a formula": (
        [["index", "caption"], ["=1+1", "A sits."]],
        'sheet "Ratings", row 2: index: is empty, or a formula without a stored result',
    ),
}


@pytest.mark.parametrize("case", IN_CELLS)
def test_what_a_spreadsheet_program_changed_is_refused_with_its_cell(
    case: str, tmp_path: Path
) -> None:
    rows, message = IN_CELLS[case]
    path = save_workbook(tmp_path / "c.xlsx", rows)
    with pytest.raises(InputError, match=message):
        read_captions(path, videos("a", "b", "1.1"))


def test_numbers_in_another_format_are_text_only_in_tables(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("index,caption\na,5\n")
    assert read_captions(tmp_path / "c.csv", videos("a")).captions[0].caption == "5"
    (tmp_path / "c.json").write_text('{"a": 5}')
    with pytest.raises(InputError, match="caption: Input should be a valid string, not 5"):
        read_captions(tmp_path / "c.json", videos("a"))


def test_names_of_videos_come_before_indexes_of_others(tmp_path: Path) -> None:
    known = [
        one.model_copy(update={"video": video})
        for one, video in zip(annotated("1", "2", "3"), "312", strict=True)
    ]
    (tmp_path / "p.json").write_text(json.dumps(predictions(("3", "three"), ("1", "one"))))
    found = read_captions(tmp_path / "p.json", known).captions
    assert {one.index: one.caption for one in found} == {"1": "three", "2": "one"}
