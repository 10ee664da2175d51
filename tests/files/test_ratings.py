import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capeval.errors import InputError
from capeval.files.ratings import LabelTable, RatingTable, load_human, load_metrics
from tests.files.making import save_workbook

pytestmark = pytest.mark.usefixtures("alone")


def written(text: str, name: str = "human.csv") -> Path:
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


def ratings(path: Path, *metrics: str, **asked: Any) -> RatingTable:
    table = load_human(path, metrics, **asked)
    assert isinstance(table, RatingTable)
    return table


def labels(path: Path) -> LabelTable:
    table = load_human(path)
    assert isinstance(table, LabelTable)
    return table


def test_a_column_for_each_rater_may_have_gaps() -> None:
    table = ratings(written("video_id,human,human_2,human_3\nv1,1,2,\nv2,,4,\n"))
    assert list(table.keys) == [("v1", None), ("v2", None)]
    assert table.raters == ("human", "human_2")
    np.testing.assert_array_equal(table.ratings, [[1, np.nan], [2, 4]])
    assert table.warnings == (
        'human.csv: the column "human_3" is empty in every row: this rater is left out',
    )


def test_labels_of_elements_are_three_way_or_binary() -> None:
    text = "video_id,system,element_id,label\nv1,a,1.1,entailment\nv1,a,1.2,lack\n"
    table = labels(written(text))
    assert (table.scale, table.binary().labels) == ("three-way", ["covered", "not covered"])
    rows = [["video_id", "element_id", "label"], ["v", 1.1, 1], ["v", 2.1, 0.0]]
    table = labels(save_workbook(Path("labels.xlsx"), rows))
    assert (table.scale, table.labels) == ("binary", ["covered", "not covered"])
    assert table.elements == ["1.1", "2.1"]


@pytest.mark.parametrize(
    ("text", "metrics", "message"),
    [
        ("video_id,score\nv,1\nw,2\nv,3\n", [], "line 4: video_id, system: v is duplicated"),
        ("video_id,rater,score\nv,a,1\nv,a,2\n", [], "line 3: .*: v, a is duplicated"),
        ("vidoe_id,score\nv,1\n", [], 'has no column video_id.*; did you mean "vidoe_id"'),
        ("video_id,score\nv,NA\n", [], 'no row has a rating in "score"'),
        ("video_id,score\n ,1\n", [], "line 2: video_id: is empty"),
        ("video_id,element_id,label\nv,1.1,entailed\n", [], 'line 2: label: .* mean "entailm'),
        ("video_id,element_id,label\nv,1.1,lack\nv,1.2,1\n", [], "line 3: label: .*another sc"),
        ("video_id,element_id,label\nv,1.1,1\nv,1.1,0\n", [], "line 3: .*: v, 1.1, human is d"),
        ("SYS,SID,RAW.SCR\nUPC,7.5,1\n", [], 'line 2: SID: "7.5" is not a line number'),
        ("video_id,score,bleu\nv,1,2\n", ["blue"], 'no column "blue"; did you mean "bleu"'),
        ("video_id,element_id,label,m\nv,1.1,1,2\n", ["m"], "has labels of elements"),
        ("video_id,rater,score,m\nv,x,1,0.5\nv,y,2,0.6\n", ["m"], r"line 3: m: 0\.6 differs"),
        ("video_id,score,caption_hash\nv,1,1.2E+11\n", [], 'line 2: caption_hash: "1.2E.* as text'),
        (
            "video_id,rater,score,caption_hash\nv,x,1,abcdef012345\nv,y,1,bbcdef012345\n",
            [],
            "line 3: caption_hash: differs from an earlier row",
        ),
    ],
)
def test_mistakes_are_named_with_line_and_column(
    text: str, metrics: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load_human(written(text), metrics)


@pytest.mark.parametrize("mark", [" ", "n/a", "NaN", "None", "-"])
@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("video_id,rater,score", ("v,a,1", "w,a,{}", "x,a,2")),
        ("video_id,human,human_2", ("v,1,{}", "w,{},{}", "x,2,2")),
        ("video_id,element_id,label", ("v,1.1,1", "w,1.1,{}", "x,1.1,1")),
        ("SID,SYS,RAW.SCR", ("1,a,1", "2,a,{}", "3,a,2")),
    ],
)
def test_rows_without_a_rating_are_left_out_with_a_warning(
    header: str, rows: tuple[str, ...], mark: str
) -> None:
    path = written("\n".join([header, *(row.replace("{}", mark) for row in rows), ""]))
    found = load_human(path, missing="drop")
    assert len(found.keys) == 2
    assert found.warnings == (f"{path}: 1 row without a rating is left out (the first is line 3)",)
    with pytest.raises(InputError, match=r"line 3: .*; leave unrated rows out with --missing drop"):
        load_human(path)


def test_columns_of_raters_can_be_mapped() -> None:
    path = written("clip,score,mos,note\nv,1,2,x\n")
    wide = ratings(path, columns={"video_id": "clip", "human": "mos", "human_2": "score"})
    assert wide.ratings.tolist() == [[2], [1]]


def test_metrics_of_the_human_file_are_by_caption() -> None:
    text = "video_id,rater,score,bleu\nv,x,1,0.5\nv,y,2,0.5\nw,x,3,\n"
    np.testing.assert_array_equal(ratings(written(text), "bleu").metrics["bleu"], [0.5, np.nan])


@pytest.mark.parametrize(
    ("mapped", "scores"), [({}, [17.5, 9]), ({"score": "Z.SCR"}, [-0.49, 0.25])]
)
def test_direct_assessments_are_read_as_published(
    mapped: dict[str, str], scores: list[float]
) -> None:
    rows = "UPC,07,17.5,-0.49,17\nCCNY,0,31.4,-0.2,16\nDCU,3,9,0.25,15\n"
    found = ratings(written(f"SYS,SID,RAW.SCR,Z.SCR,N\n{rows}"), "N", columns=mapped)
    assert list(found.keys) == [("7", "UPC"), ("3", "DCU")]
    assert found.ratings.tolist() == [scores]
    assert found.metrics["N"].tolist() == [17, 15]
    (warning,) = found.warnings
    assert warning.startswith("human.csv: line 3: SID is 0 and lines count from 1, so this row of")


def test_a_metric_is_the_column_of_its_name_or_the_score() -> None:
    path = written("video_id,system,score,bleu\nv1,a,9,0.5\nv2,a,NA,\n")
    (bleu,), (other,) = load_metrics(path, "bleu").metrics, load_metrics(path, "other").metrics
    assert (bleu.scores, [*bleu.missing]) == ({("v1", "a"): 0.5}, [("v2", "a")])
    assert other.scores == {("v1", "a"): 9}
    with pytest.raises(InputError, match="has no column score; name it with --columns"):
        load_metrics(written("video_id,rating\nv,1\n"), "mine")


def test_metrics_of_a_jsonl_keep_reasons_and_signatures() -> None:
    lines = [
        {"index": "v1", "system": "a", "metric": "m", "value": 0.5, "signature": "m|v:1"},
        {"index": "v2", "system": "a", "metric": "m", "value": None, "reason": "no reply"},
        {"index": "v1", "system": "a", "metric": "k", "value": 2},
    ]
    path = written("".join(json.dumps(line) + "\n" for line in lines), "metrics.jsonl")
    first, second = load_metrics(path, "mine").metrics
    assert (first.name, second.name) == ("mine:m", "mine:k")
    assert first.scores == {("v1", "a"): 0.5}
    assert first.missing == {("v2", "a"): "no reply"}
    assert first.signatures == ["m|v:1"]
