import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

from capeval.errors import CapevalError, InputError
from capeval.files.captions import (
    captions_hash,
    captions_in_memory,
    known_captions,
    load_captions,
    read_captions,
)
from capeval.schema import Annotation, Caption
from tests.files.making import annotated, save_workbook

pytestmark = pytest.mark.usefixtures("alone")

FILE = Path("c.jsonl")
FAILED = "Failed to obtain answer via API. "
QUOTED = 'A sign says "Failed to obtain answer".'
LMMS_FAILED = "[LMMS_EVAL_REQUEST_FAILED after 5 retries] timeout"
THOUGHT = "<think>The events: a dog runs.</think> A sits."
RIGHT = {"a": "A sits.", "b": "B runs."}


def videos(*indexes: str) -> list[Annotation]:
    """Annotated videos whose files are in a folder, as many data sets name them."""
    known = annotated(*indexes)
    return [one.model_copy(update={"video": f"clips/{one.index}.mp4"}) for one in known]


def read(name: str, data: str | bytes, *indexes: str, **columns: str) -> dict[str, str]:
    Path(name).write_bytes(data if isinstance(data, bytes) else data.encode())
    found = read_captions(Path(name), videos(*indexes), columns or None).captions
    return {one.index: one.caption for one in found}


def predictions(*rows: tuple[str, object]) -> list[dict[str, object]]:
    return [
        {"index": n, "video": video, "domain": "Film", "prediction": text}
        for n, (video, text) in enumerate(rows)
    ]


def lines(*records: object) -> str:
    return "\n".join(map(json.dumps, records))


def nested(doc_id: int, reply: str, **fields: object) -> dict[str, object]:
    return {"doc_id": doc_id, "resps": [[reply]], "filtered_resps": [reply], **fields}


CAPTIONS = {"b": "A dog\u2028runs. \u0085", "a": "", "c": "狗 \ud800 \x00 \x1b[31m ```"}
LINES = [json.dumps({"index": index, "caption": text}) for index, text in CAPTIONS.items()]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(LINES) + "\n",
        "\n\n".join(["", *LINES, ""]),
        "\ufeff" + "\n".join(LINES),
        f"[{','.join(LINES)}]",
        json.dumps(CAPTIONS),
        json.dumps(CAPTIONS).replace('"a"', '\n"a"'),
    ],
)
def test_every_layout_loads_the_same(text: str) -> None:
    found = read("c.jsonl", text)
    assert (found, [*found]) == (CAPTIONS, [*CAPTIONS])
    loaded = read_captions(Path("c.jsonl"), ()).captions
    assert captions_hash(loaded[::-1]) == captions_hash(loaded) != captions_hash(loaded[1:])


@pytest.mark.parametrize("captions", [{"index": "A dog."}, {"index": "A dog.", "v": "A cat."}])
def test_submission_may_have_the_index_index(captions: dict[str, str]) -> None:
    assert read("c.json", json.dumps(captions)) == captions


def test_other_fields_are_kept() -> None:
    line = {"index": "v", "caption": "a", "model": "m", "frames": {"n": 8}}
    FILE.write_text(json.dumps(line, indent=1))
    assert read_captions(FILE, ()).captions[0].model_dump() == line


VLMEVALKIT = predictions(("b", "B runs."), ("./video/a.mp4", QUOTED), ("c", FAILED))
RECOGNISED = {
    "VLMEvalKit tsv": (
        "p.tsv",
        pandas.DataFrame(VLMEVALKIT).to_csv(index=False, sep="\t"),
        {"b": "B runs.", "a": QUOTED},
    ),
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
        RIGHT,
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
}


@pytest.mark.parametrize("case", RECOGNISED)
def test_layouts_of_other_programs_are_recognised(case: str) -> None:
    name, text, expected = RECOGNISED[case]
    assert read(name, text, "a", "b", "c") == expected
    notice = read_captions(Path(name), videos("a", "b", "c")).notices[0]
    assert case.split(maxsplit=1)[0].strip(",") in notice


WRITERS: dict[str, Callable[[pandas.DataFrame, Path], object]] = {
    "c.json": lambda frame, path: frame.to_json(path, orient="records"),
    "c.jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "c.csv": lambda frame, path: frame.to_csv(path, index=False),
    "c.xlsx": lambda frame, path: frame.to_excel(path, index=False),
    "c.parquet": lambda frame, path: frame.to_parquet(path, index=False),
}
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
    "VLMEvalKit's, with references and an empty reply": (
        {
            "index": [0, 1, 2],
            "video": ["a", "b", "c"],
            "caption": ["Reference."] * 3,
            "prediction": [*RIGHT.values(), ""],
        },
        RIGHT,
    ),
    "two models": (
        {"index": ["a", "b"], "caption": [*RIGHT.values()], "model": ["m", "n"]},
        r"model: has captions of 2 models \(m, n\); give each its own file",
    ),
    "one video twice": ({"index": ["a", "a.mp4"], "caption": ["x", "y"]}, "is duplicated"),
    "no caption": ({"index": ["a", "b"], "caption": [None, None]}, "has no caption"),
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
    "text that is a formula to a spreadsheet program": (
        {"index": ["a"], "caption": ["=== Scene 1"]},
        {"a": "=== Scene 1"},
    ),
    "a formula that a spreadsheet program could not compute": (
        {"index": ["a", "b"], "caption": ["A sits.", "#NAME?"]},
        "caption: #NAME. is a spreadsheet program",
    ),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("case", ROWS)
def test_the_same_rows_are_read_alike_from_every_format(case: str, name: str) -> None:
    columns, expected = ROWS[case]
    WRITERS[name](pandas.DataFrame(columns), Path(name))
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            read_captions(Path(name), videos("a", "b", "c"))
    else:
        found = read_captions(Path(name), videos("a", "b", "c"))
        assert {one.index: one.caption for one in found.captions} == expected


def test_notices_name_columns_missing_captions_and_removed_reasoning() -> None:
    rows = {"video_id": ["a", "b", "c"], "text": [THOUGHT, "<think>Perhaps", ""]}
    pandas.DataFrame(rows).to_csv("c.csv", index=False)
    assert read_captions("c.csv", videos("a", "b", "c")).notices == (
        'c.csv: the index is "video_id", the caption "text"',
        "c.csv: 1 video without a caption; counted as not captioned",
        "c.csv: the model's reasoning was removed from 1 caption",
        "c.csv: b has unfinished reasoning, or no caption after it; counted as not captioned",
    )
    in_memory = captions_in_memory({"a": THOUGHT, "b": "<think>Perhaps"})
    assert [one.caption for one in in_memory.captions] == ["A sits."]
    assert len(in_memory.notices) == 2
    same = lines(*({"index": index, "caption": "Describe."} for index in "abc"))
    FILE.write_text(same)
    assert read_captions(FILE, ()).notices == ("c.jsonl: all 3 captions are the same text",)


def test_an_index_that_a_workbook_has_as_a_number_is_refused() -> None:
    path = save_workbook(Path("c.xlsx"), [["index", "caption"], [1.1, "A sits."]])
    with pytest.raises(InputError, match="index: has numbers or dates"):
        read_captions(path, videos("1.1"))


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
def test_folders_tell_videos_of_one_name_apart(text: str) -> None:
    FILE.write_text(text)
    found = {one.index: one.caption for one in read_captions(FILE, FOLDERS).captions}
    assert found == {"0001": "First.", "0002": "Second."}


def test_names_of_videos_come_before_indexes_of_others() -> None:
    known = [
        one.model_copy(update={"video": video})
        for one, video in zip(annotated("1", "2", "3"), "312", strict=True)
    ]
    FILE.write_text(json.dumps(predictions(("3", "three"), ("1", "one"))))
    found = read_captions(FILE, known).captions
    assert {one.index: one.caption for one in found} == {"1": "three", "2": "one"}


REFUSED: list[tuple[str, str | bytes, dict[str, str], str]] = [
    (
        "c.jsonl",
        lines({"index": "a", "captoin": "x"}, {"index": "b", "caption": "x"}),
        {},
        'c.jsonl: line 1: index "a": caption: is missing',
    ),
    ("c.jsonl", '{"caption": "x"}', {}, "no column of the index .index, video_id, id, video."),
    (
        "c.jsonl",
        '{"index": "v", "captoin": "x"}',
        {},
        'it has "index", "captoin"; name it with --columns caption=NAME; did you mean "captoin"',
    ),
    ("c.jsonl", '{"index": "", "caption": "x"}', {}, 'line 1: index "": index: is blank'),
    (
        "c.jsonl",
        '{"index": "a", "caption": "x"}\n\n{"index": "a", "caption": "x"}',
        {},
        r'line 3: index "a": index: is duplicated \(see line 1\)',
    ),
    ("c.json", '{"v": "a",\n"w": "A do', {}, "line 2: broken JSON at column 6"),
    ("c.json", '{"a": 5}', {}, "caption: must be text, not 5"),
    ("p.json", json.dumps(predictions(("a", ["x"]))), {}, "caption: must be text"),
    ("p.json", json.dumps(predictions(("a", FAILED))), {}, "has no caption"),
    ("p.pkl", b"\x80\x04.", {}, "is a pickle"),
    ("s.json", '{"0": "a", "1": "b"}', {}, "2 rows cannot be joined"),
    ("s.jsonl", lines(nested(0, "x"), nested(5, "y")), {}, "names of the annotated videos"),
    ("c.csv", "clip,text\na,x\n", {"index": "video"}, "no such column"),
    ("c.csv", "clip,text\na,x\n", {"id": "clip"}, '"id" is not a column'),
]


@pytest.mark.parametrize(("name", "data", "columns", "message"), REFUSED)
def test_wrong_captions_are_refused_in_one_line(
    name: str, data: str | bytes, columns: dict[str, str], message: str
) -> None:
    with pytest.raises(CapevalError, match=message) as error:
        read(name, data, "a", "b", "c", **columns)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)


def of(*indexes: str) -> list[Caption]:
    return [Caption(index=index, caption="A dog.") for index in indexes]


@pytest.mark.parametrize(
    ("captions", "message"),
    [
        (
            of("TUNA_1", "TUNA_0002"),
            'index "TUNA_1": index: is not in the annotations; "TUNA_1" and "TUNA_0001" look',
        ),
        (of("TUNA_0001", "x", "y"), 'index "x": index: is not in the annotations .2 captions.'),
        (of("x", "y"), "no caption is in the annotations .* name the matching --annotations"),
        ([], "there are no captions"),
    ],
)
def test_captions_that_do_not_belong_to_the_annotations_are_refused(
    captions: list[Caption], message: str
) -> None:
    with pytest.raises(InputError, match=f"c.jsonl: {message}"):
        known_captions(captions, annotated("TUNA_0001", "TUNA_0002"), file=FILE)


def test_unknown_captions_are_skipped_on_demand_but_not_all_of_them() -> None:
    annotations = annotated("a", "b", "c")
    known = known_captions(of("x", "c", "a"), annotations, file=FILE, ignore_unknown=True)
    assert [caption.index for caption in known] == ["a", "c"]
    with pytest.raises(InputError, match="no caption is in the annotations"):
        known_captions(of("x"), annotations, file=FILE, ignore_unknown=True)


def test_torn_last_line_of_an_unfinished_run_is_passed_over() -> None:
    FILE.write_text('{"index": "a", "caption": "x"}\n{"index": "b", "capt')
    assert [caption.index for caption in load_captions(FILE)] == ["a"]
