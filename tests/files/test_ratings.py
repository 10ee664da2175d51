"""Human files and files of metrics: layouts told by header, and every mistake named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from capeval.errors import InputError
from capeval.files.metrics import load_metrics
from capeval.files.ratings import LabelTable, RatingTable, load_human


def written(folder: Path, text: str, name: str = "human.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


OPEN = "a quote that opens here is never closed"
DOUBLED = "a quote inside a quoted cell must be doubled"
DROP = "; leave unrated rows out with --missing drop"
EXPECTED = "expected video_id, score, system?, rater?"
LARGE = "is too large to compute with (above 1e100); rescale the column"
LONG_NAME = "x" * 200_000
KEY = '"' + "x" * 58 + "…"

LONG = "video_id,system,rater,score\nv1,a,x,1\nv1,a,y,2\nv2,a,x,3.5\n"


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        LONG.replace(",", "\t"),
        LONG.replace(",", ";"),
        LONG.replace(",", ";").replace("v1", '"v1"'),
        LONG.replace("\n", "\r\n"),
        "\ufeff" + LONG,
        LONG + "\n\n",
        "\n\n" + LONG,
        LONG.replace("v1", '"v1"'),
        "".join(
            json.dumps({"video_id": v, "system": "a", "rater": r, "score": s}) + "\n"
            for v, r, s in (("v1", "x", 1), ("v1", "y", 2), ("v2", "x", 3.5))
        ),
    ],
    ids=[
        "csv",
        "tsv",
        "semicolons",
        "semicolons quoted",
        "crlf",
        "bom",
        "blank lines",
        "blank lines first",
        "quoted",
        "jsonl",
    ],
)
def test_one_rating_a_row_is_read_alike_from_every_layout(tmp_path: Path, text: str) -> None:
    table = load_human(written(tmp_path, text))
    assert isinstance(table, RatingTable)
    assert list(table.keys) == [("v1", "a"), ("v2", "a")]
    assert table.raters == ("x", "y")
    np.testing.assert_array_equal(table.ratings, [[1, 3.5], [2, np.nan]])


def test_a_column_for_each_person_may_have_gaps(tmp_path: Path) -> None:
    table = load_human(written(tmp_path, "video_id,human,human_2\nv1,1,2\nv2,,4\n"))
    assert isinstance(table, RatingTable)
    assert list(table.keys) == [("v1", None), ("v2", None)]
    np.testing.assert_array_equal(table.ratings, [[1, np.nan], [2, 4]])


@pytest.mark.parametrize(
    ("labels", "scale", "read"),
    [
        (("entailment", "lack"), "three-way", ["entailment", "lack"]),
        (("1", "0"), "binary", ["covered", "not covered"]),
    ],
)
def test_labels_of_elements_are_three_way_or_binary(
    tmp_path: Path, labels: tuple[str, str], scale: str, read: list[str]
) -> None:
    rows = "".join(f"v1,a,1.{n},{label}\n" for n, label in enumerate(labels, start=1))
    table = load_human(written(tmp_path, "video_id,system,element_id,label\n" + rows))
    assert isinstance(table, LabelTable)
    assert (table.scale, table.labels, table.elements) == (scale, read, ["1.1", "1.2"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "video_id,sytem,score\nv,a,1\nv,b,2\n",
            (
                "line 3: video_id, system: v is duplicated (line 2 and this line); "
                '"sytem" may be the system: --columns system=sytem'
            ),
        ),
        (
            "vidoe_id,score\nv,1\n",
            (
                'line 1: the column "video_id" is missing (did you mean --columns '
                f'video_id=vidoe_id?); {EXPECTED}; found "vidoe_id", "score"'
            ),
        ),
        (
            "video_id\nv\n",
            (
                'line 1: the column "score" is missing; name it with --columns score=COLUMN; '
                f'{EXPECTED}; found "video_id"'
            ),
        ),
        (
            "video_id,score\nv,1\nw,2\nv,3\n",
            "line 4: video_id, system: v is duplicated (line 2 and this line)",
        ),
        ("video_id,score\nv,1\nw,good\n", 'line 3: score: "good" is not a number'),
        ("video_id,score\nv,1_000\n", 'line 2: score: "1_000" is not a number'),
        ("video_id,score\nv,nan\n", 'line 1: the column "score" is empty in every row'),
        ("video_id,score\nu,1\nv,NaN\n", f'line 3: score: "NaN" is not a rating{DROP}'),
        ("video_id,score\nv,1\n\nw,-inf\n", 'line 4: score: "-inf" is not finite'),
        ("\n\nvideo_id,score\nv,high\n", 'line 4: score: "high" is not a number'),
        ("video_id,score\nu,1\nv,\n", f"line 3: score: is empty{DROP}"),
        ("video_id,human,human_2\nu,1,2\nv,,\n", f"line 3: human, human_2: is empty{DROP}"),
        ("video_id,element_id,label\nu,1.1,1\nu,1.2,\n", f"line 3: label: is empty{DROP}"),
        ("video_id,score\n ,1\n", "line 2: video_id: is empty"),
        ("video_id,score\nv,1,2\n", "line 2: has 3 fields where the header has 2"),
        ("video_id,score,score\nv,1,2\n", 'line 1: the column "score" is duplicated'),
        ("video_id,score\n", "has no rows below its header"),
        ('video_id,score\n"v,1\n', "line 2: is not CSV (a quote that opens here is never closed)"),
        (
            "video_id,element_id,label\nv,1.1,entailed\n",
            (
                'line 2: label: "entailed" is unknown; one of entailment, lack, contradiction, 1, '
                '0; did you mean "entailment"?'
            ),
        ),
        (
            "video_id,element_id,label\nv,1.1,lack\nv,1.2,1\n",
            'line 3: label: "1" is on another scale than "lack" above',
        ),
        (
            "video_id,element_id\nv,1.1\n",
            (
                'line 1: the column "label" is missing; name it with --columns label=COLUMN; '
                "expected video_id, element_id, label, system?, rater?; found "
                '"video_id", "element_id"'
            ),
        ),
        (
            "video_id,element_id,label\nv,1.1,1\nv,1.1,0\n",
            (
                "line 3: video_id, system, element_id: v, 1.1, human is duplicated "
                "(line 2 and this line)"
            ),
        ),
        ('video_id,score\nv,"\n1"\nw,"\nx"\n', r'line 4: score: "\nx" is not a number'),
        ('video_id,score\nu,1\n"v,1\nw,2\n', f"line 3: is not CSV ({OPEN})"),
        ('video_id,score\nu,1\n"v,1\n"w",2\n', f"line 3: is not CSV ({DOUBLED})"),
        (f'video_id,score\n"{LONG_NAME}",x\n', 'line 2: score: "x" is not a number'),
        (
            f"video_id,score\n{LONG_NAME},1\n{LONG_NAME},2\n",
            f"line 3: video_id, system: {LONG_NAME[:59]}… is duplicated (line 2 and this line)",
        ),
        (
            f'{{"video_id": "v", "{LONG_NAME}": 1, "{LONG_NAME}": 2}}',
            f"line 1: the key {KEY} is duplicated",
        ),
        (
            "video_id;score\nv;0,5\n",
            'line 2: score: "0,5" is not a number; write decimals with a point',
        ),
        (
            "video_id,score\nv,\u0661\n",
            'line 2: score: "\u0661" is not a number; use only the digits 0 to 9',
        ),
        (
            "video_id,score\nv,\uff11\n",
            'line 2: score: "\uff11" is not a number; use only the digits 0 to 9',
        ),
        (
            "video_id,score\nv,\u00a01\n",
            'line 2: score: " 1" is not a number; use only the digits 0 to 9',
        ),
        ("video_id,score\nv,2e100\n", f'line 2: score: "2e100" {LARGE}'),
        ("video_id,score\nv,-1.5e308\n", f'line 2: score: "-1.5e308" {LARGE}'),
        ("video_id,score\nv,1e999\n", f'line 2: score: "1e999" {LARGE}'),
        (f'{{"video_id": "v", "score": {"1" * 310}}}', f"line 1: score: {'1' * 59}… {LARGE}"),
        (f'{{"video_id": "v", "score": {"1" * 4000}}}', f"line 1: score: {'1' * 59}… {LARGE}"),
        ('{"video_id": "v", "score": 1e200}', f"line 1: score: 1e+200 {LARGE}"),
        (
            f'{{"video_id": "v", "score": 1}}\n{{"video_id": "w", "score": {"1" * 5001}}}',
            "line 2: has a number of more than 4,300 digits",
        ),
        (
            "video_id,score\n\u0000v,1\n",
            r'line 2: video_id: "\u0000v" has a control character, which names must not have',
        ),
        (
            '[{"video_id": "v", "score": 1},\n\n{"video_id": "w\\u001b[2J", "score": 1}]',
            r'line 3: video_id: "w\u001b[2J" has a control character, which names must not have',
        ),
        (
            "video_id,sco\x1bre\nv,1\n",
            r'line 1: the column "sco\u001bre" has a control character in its name',
        ),
        (
            '[\n {"video_id": "v",\n  "score": 1},\n {"video_id": "w",\n  "score": "x"}]',
            'line 4: score: "x" is not a number',
        ),
        ('[{"video_id": "v"},\n 7]', "line 2: must be a JSON object, not 7"),
        (
            '{"video_id": "v"}',
            (
                'the column "score" is missing; name it with --columns score=COLUMN; '
                f'{EXPECTED}; found "video_id"'
            ),
        ),
        (
            '{\n"video_id": "v"\n}',
            "is one JSON object over several lines; records must be JSON lines, a JSON list or CSV",
        ),
        (
            "\n\nvideo_id,humen\nv,1\n",
            (
                'line 3: the column "score" is missing (did you mean --columns score=humen?); '
                f'{EXPECTED}; found "video_id", "humen"'
            ),
        ),
        (
            "video,clip,scores,zzz\nv,v,1,2\n",
            (
                'line 1: the columns "video_id" ("video" or "clip"?), "score" are missing (did you '
                f"mean --columns video_id=video,score=scores?); {EXPECTED}; found "
                '"video", "clip", "scores", "zzz"'
            ),
        ),
        (
            "rater\nx\n",
            (
                'line 1: the columns "video_id", "score" are missing; name them with --columns '
                f'video_id=COLUMN,score=COLUMN; {EXPECTED}; found "rater"'
            ),
        ),
        (
            "video_id,human,human_2\nv,,\n",
            'line 1: the columns "human", "human_2" are empty in every row',
        ),
        ('{"video_id": "v", "score": true}\n', "line 1: score: true is not a number"),
        ('{"video_id": 7, "score": 1}\n', "line 1: video_id: must be a name, not 7"),
        ('{"video_id": "v", "score": 1}\n[1]\n', "line 2: must be a JSON object, not [1]"),
        ("", "is empty"),
    ],
)
def test_mistakes_are_named_with_file_line_and_column(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as error:
        load_human(path)
    assert str(error.value) == f"{path}: {told}"


@pytest.mark.parametrize(
    ("text", "columns", "told"),
    [
        ("video_id,human,m\nv,1,2\n", ["human"], '"human" has human ratings; --metric-columns'),
        ("video_id,score,m\nv,1,2\n", ["m", "score"], '"score" has human ratings'),
        ("video_id,score\nv,1\n", ["video_id"], '"video_id" has names; --metric-columns takes'),
        (
            "video_id,score,bleu\nv,1,2\n",
            ["blue", "rouge"],
            r'the columns "blue" \(did you mean "bleu"\?\), "rouge" are missing',
        ),
        (
            '{"video_id": "v", "score": 1}',
            ["x"],
            r'human.csv: the column "x" is missing; found "video_id", "score"$',
        ),
        (
            "video_id,score,bleu\nv,1,2\n",
            ["x"],
            r'line 1: .*; found "video_id", "score", "bleu" \(this is read as the header\)$',
        ),
        ("video_id,mos,m\nv,1,2\n", ["m", "mos"], 'the column "score" is missing'),
        ("video_id,Score,m,m\nv,1,2,3\n", ["m"], 'the column "m" is duplicated'),
    ],
)
def test_columns_of_metrics_must_be_metrics(
    tmp_path: Path, text: str, columns: list[str], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        load_human(written(tmp_path, text), columns)


def test_a_rater_who_gave_nothing_is_left_out_and_named(tmp_path: Path) -> None:
    path = written(tmp_path, "video_id,human,human_2,human_3\nv,1,,2\nw,,,3\n")
    table = load_human(path)
    assert isinstance(table, RatingTable)
    assert table.raters == ("human", "human_3")
    np.testing.assert_array_equal(table.ratings, [[1, np.nan], [2, 3]])
    assert table.warnings == (
        f'{path}: the column "human_2" is empty in every row: this rater is left out',
    )


def test_an_apostrophe_that_keeps_a_name_from_running_is_no_part_of_it(tmp_path: Path) -> None:
    text = "video_id,system,score\n'=v,'tis,1\n\"'-w\",''@x,2\n"
    assert list(load_human(written(tmp_path, text)).keys) == [("=v", "'tis"), ("-w", "'@x")]
    lines = '{"video_id": "\'=v", "score": 1}'
    assert list(load_human(written(tmp_path, lines)).keys) == [("'=v", None)]


def test_large_but_possible_numbers_are_read(tmp_path: Path) -> None:
    table = load_human(written(tmp_path, "video_id,score\nu,1e100\nv,-1E+100\nw, +.5 \n"))
    assert isinstance(table, RatingTable)
    assert table.ratings.tolist() == [[1e100, -1e100, 0.5]]


def test_a_metric_of_the_human_file_is_one_for_all_raters_of_a_caption(tmp_path: Path) -> None:
    text = "video_id,rater,score,bleu\nv,x,1,0.5\nv,y,2,{}\n"
    table = load_human(written(tmp_path, text.format("0.5")), ["bleu"])
    assert isinstance(table, RatingTable)
    assert table.metrics["bleu"].tolist() == [0.5]
    with pytest.raises(InputError, match=r"line 3: bleu: 0\.6 differs"):
        load_human(written(tmp_path, text.format("0.6")), ["bleu"])


def test_metrics_of_a_jsonl_keep_reasons_and_signatures(tmp_path: Path) -> None:
    lines = [
        {"index": "v1", "system": "a", "metric": "m", "value": 0.5, "signature": "m|v:1"},
        {"index": "v2", "system": "a", "metric": "m", "value": None, "reason": "no reply"},
        {"index": "v1", "system": "a", "metric": "k", "value": 2},
    ]
    path = written(tmp_path, "".join(json.dumps(line) + "\n" for line in lines), "metrics.jsonl")
    first, second = load_metrics(path, "mine").metrics
    assert (first.name, second.name) == ("mine:m", "mine:k")
    assert first.scores == {("v1", "a"): 0.5}
    assert first.missing == {("v2", "a"): "no reply"}
    assert first.signatures == ["m|v:1"]
