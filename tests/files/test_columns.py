"""Which columns are meant: their names, synonyms with fitting values, and those that are mapped."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capeval.errors import InputError, UsageError
from capeval.files.columns import Choice, Known
from capeval.files.metrics import load_metrics
from capeval.files.ratings import LabelTable, RatingTable, load_human

MISSING: tuple[Literal["error", "drop"], ...] = ("error", "drop")
KNOWN = Known({"v1", "v2", "1", "2"}, {"a", "b"})
EXTRA = " (to read one as a metric: --metric-columns COLUMN)"


def written(folder: Path, text: str) -> Path:
    path = folder / "human.csv"
    path.write_text(text, encoding="utf-8")
    return path


def table_of(header: str, *rows: str) -> str:
    return "\n".join([header, *rows, ""])


ROWS = ("v1,a,x,1", "v1,a,y,2", "v2,a,x,3.5")


@pytest.mark.parametrize(
    "header",
    [
        "video_id,system,rater,score",
        "Video ID,System,RATER,Score",
        "index,model,annotator,rating",
        "Index,MODEL,Annotator ID,MOS",
        "clip,captioner,worker_id,overall",
        "video,Model Name,user,human score",
        "seg_id,SYS,coder,Quality",
    ],
)
def test_synonyms_are_read_where_their_values_join(tmp_path: Path, header: str) -> None:
    choice = Choice(known=lambda: KNOWN)
    found = load_human(written(tmp_path, table_of(header, *ROWS)), choice=choice)
    assert isinstance(found, RatingTable)
    assert list(found.keys) == [("v1", "a"), ("v2", "a")]
    assert found.raters == ("x", "y")
    np.testing.assert_array_equal(found.ratings, [[1, 3.5], [2, np.nan]])
    renamed = [name for name in header.split(",") if name not in found.columns]
    assert [*found.columns.values()] != [*found.columns] or not renamed
    assert all(f'"{name}" as' in found.notices[0] for name in renamed)


@pytest.mark.parametrize(
    ("header", "read"),
    [
        ("human,Human 2", ("human", "Human 2")),
        ("Human_1,HUMAN 2", ("Human_1", "HUMAN 2")),
        ("rater 1,Rater2", ("rater 1", "Rater2")),
        ("annotator_2,annotator_1", ("annotator_1", "annotator_2")),
    ],
)
def test_a_column_for_each_rater_may_be_numbered(
    tmp_path: Path, header: str, read: tuple[str, str]
) -> None:
    found = load_human(written(tmp_path, table_of(f"video_id,{header}", "v,1,2", "w,3,")))
    assert isinstance(found, RatingTable)
    assert found.raters == read
    first = [[1, 3], [2, np.nan]]
    expected = first if header.split(",", maxsplit=1)[0] == read[0] else first[::-1]
    np.testing.assert_array_equal(found.ratings, expected)


@pytest.mark.parametrize("header", ["clip,model,element,verdict", "VIDEO,sys,Element ID,LABEL"])
def test_labels_of_elements_have_synonyms_too(tmp_path: Path, header: str) -> None:
    path = written(tmp_path, table_of(header, "v1,a,1.1,lack", "v1,a,1.2,entailment"))
    found = load_human(path, choice=Choice(known=lambda: KNOWN))
    assert isinstance(found, LabelTable)
    assert (found.elements, found.labels) == (["1.1", "1.2"], ["lack", "entailment"])
    assert next(iter(found.keys)) == ("v1", "a")


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        # The values decide which of two synonyms is meant, and whether one is.
        (table_of("index,clip,score", "0,v2,1", "1,v1,2"), [("v2", None), ("v1", None)]),
        (table_of("index,clip,score", "v2,x,1", "v1,y,2"), [("v2", None), ("v1", None)]),
        (table_of("video_id,model,score", "v1,gpt,1", "v2,gpt,2"), [("v1", None), ("v2", None)]),
        (table_of("video_id,model,run,score", "v1,gpt,a,1"), [("v1", "a")]),
        # A column that capeval names is read, whatever another one has.
        (table_of("video_id,clip,score", "x,v1,1"), [("x", None)]),
        # Numbers of rows are ids only if they are those of all videos.
        (table_of("index,system,score", "1,a,1", "2,a,2"), None),
        (table_of("index,system,score", "1,a,1", "1,b,2"), [("1", "a"), ("1", "b")]),
        (table_of("clip,video,score", "v1,v2,1"), None),
        (table_of("clip,score", "v7,1"), None),
    ],
)
def test_only_columns_that_join_are_read(
    tmp_path: Path, text: str, keys: list[tuple[str, str | None]] | None
) -> None:
    path = written(tmp_path, text)
    choice = Choice(known=lambda: KNOWN)
    if keys is not None:
        assert list(load_human(path, choice=choice).keys) == keys
        return
    with pytest.raises(InputError, match=r"did you mean --columns video_id=(index|clip)\?"):
        load_human(path, choice=choice)


@pytest.mark.parametrize(
    ("header", "rows", "told"),
    [
        (
            "video_id,model,score",
            ("v1,gpt,1", "v2,llama,2"),
            (
                'the column "model" may be the system, but the metrics are of a, b; if it is, name '
                "it with --columns system=model"
            ),
        ),
        ("video_id,model,score", ("v1,A,1", "v2,B,2"), '; "A" and "a" differ only in case'),
        ("video_id,model,captioner,score", ("v1,a,b,1", "v2,b,a,2"), "--columns system=model"),
    ],
)
def test_several_systems_are_never_taken_as_one(
    tmp_path: Path, header: str, rows: tuple[str, ...], told: str
) -> None:
    with pytest.raises(InputError) as raised:
        load_human(written(tmp_path, table_of(header, *rows)), choice=Choice(known=lambda: KNOWN))
    assert told in str(raised.value)


def test_why_a_column_does_not_join_is_explained(tmp_path: Path) -> None:
    path = written(tmp_path, table_of("clip,score", "v1.mp4,1", "v2.mp4,2"))
    with pytest.raises(InputError) as raised:
        load_human(path, choice=Choice(known=lambda: KNOWN))
    assert (
        'line 1: the column "clip" may be the video_id, but its ids are in no other file; "v1.mp4" '
        'and "v1" differ only in suffix: write the ids alike in both files'
    ) in str(raised.value)
    path = written(tmp_path, table_of("clip,score", "x,1", "y,2"))
    with pytest.raises(
        InputError, match=r'clip\?\); its values, such as "x", are in no other file;'
    ):
        load_human(path, choice=Choice(known=lambda: KNOWN))


def test_numbers_of_rows_are_read_if_they_are_all_known_ids(tmp_path: Path) -> None:
    path = written(tmp_path, table_of("index,score", "1,5", "2,4"))
    found = load_human(path, choice=Choice(known=lambda: Known({"1", "2"})))
    assert list(found.keys) == [("1", None), ("2", None)]


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("video_id,rating,overall", "v,1,2"),
        ("video_id,rating", "v,good"),
        ("id,score", "v,1"),
    ],
)
def test_what_remains_unclear_is_suggested(tmp_path: Path, header: str, row: str) -> None:
    with pytest.raises(
        InputError, match=r" \(did you mean --columns (score=rating|video_id=id)\?\);"
    ):
        load_human(written(tmp_path, table_of(header, row)))


@pytest.mark.parametrize(
    ("header", "mapped", "scores"),
    [
        ("video_id,score,mos", {"score": "mos"}, [2.0]),
        ("v,x,y", {"video_id": "v", "score": "y"}, [2.0]),
        ("clip,video,score", {"video_id": "clip"}, None),
        ("id,a b,c=d", {"video_id": "id", "human": "a b", "human_2": "c=d"}, [1.0, 2.0]),
    ],
)
def test_mapped_columns_come_first(
    tmp_path: Path, header: str, mapped: dict[str, str], scores: list[float] | None
) -> None:
    found = load_human(written(tmp_path, table_of(header, "v,1,2")), choice=Choice(mapped))
    assert isinstance(found, RatingTable)
    assert list(found.keys) == [("v", None)]
    assert found.ratings[:, 0].tolist() == (scores or [2.0])
    assert {role: found.columns[role] for role in mapped} == mapped


@pytest.mark.parametrize(
    ("mapped", "told"),
    [
        (
            {"score": "moss"},
            (
                '--columns score=moss: no such column in {path}; found "clip", "mos"; did you mean '
                '"mos"?'
            ),
        ),
        (
            {"sytem": "clip"},
            (
                '--columns: "sytem" is not a column that capeval reads; one of video_id, system, '
                "rater, score, element_id, label, human, human_2, … as in video_id=COLUMN; did you "
                "mean system?"
            ),
        ),
        ({"video_id": "clip", "system": "clip"}, '--columns: "clip" is mapped twice'),
    ],
)
def test_mistakes_in_a_mapping_are_named(tmp_path: Path, mapped: dict[str, str], told: str) -> None:
    path = written(tmp_path, table_of("clip,mos", "v,1"))
    with pytest.raises(UsageError) as raised:
        load_human(path, choice=Choice(mapped))
    assert str(raised.value) == told.replace("{path}", str(path))


def test_an_error_names_the_column_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, table_of("clip,MOS", "v,1", "v,2", "w,3"))
    with pytest.raises(InputError, match="line 3: clip, system: v is duplicated"):
        load_human(path)
    with pytest.raises(InputError, match='line 2: MOS: "1e400" is too large'):
        load_human(written(tmp_path, table_of("clip,MOS", "v,1e400")))


@pytest.mark.parametrize(
    ("header", "row", "ignored"),
    [
        ("video_id,score,bleu", "v,1,2", ' "bleu"' + EXTRA),
        ("video_id,score,b,c,c", "v,1,2,3,4", 's "b", "c"' + EXTRA),
        (",video_id,score", "0,v,1", " one without a name"),
        (",video_id,score,", ",v,1,", None),
        ("video_id,score,sytem", "v,1,a", ' "sytem" (to read it: --columns system=sytem)' + EXTRA),
    ],
)
def test_other_columns_are_ignored_with_one_notice(
    tmp_path: Path, header: str, row: str, ignored: str | None
) -> None:
    path = written(tmp_path, table_of(header, row))
    told = () if ignored is None else (f"{path}: ignores the column{ignored}",)
    assert load_human(path).notices == told


def test_four_of_twelve_columns_of_metrics_are_read(tmp_path: Path) -> None:
    names = [f"m{n}" for n in range(12)]
    rows = [f"v{row},{row}," + ",".join(str(row * n) for n in range(12)) for row in range(3)]
    path = written(tmp_path, table_of("clip,mos," + ",".join(names), *rows))
    found = load_human(path, ["m3", "m5", "m7", "m11"])
    assert isinstance(found, RatingTable)
    assert {name: values.tolist() for name, values in found.metrics.items()} == {
        f"m{n}": [0, n, 2 * n] for n in (3, 5, 7, 11)
    }
    (notice,) = found.notices
    assert notice.endswith(
        'ignores the columns "m0", "m1", "m2", "m4", "m6", "m8", "m9", "m10"' + EXTRA
    )


@pytest.mark.parametrize("mark", ["", " ", "NA", "n/a", "NaN", "null", "None", "-"])
@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("video_id,score", ("v,1", "w,{}", "x,2")),
        ("video_id,rater,score", ("v,a,1", "w,a,{}", "x,a,2")),
        ("video_id,human", ("v,1", "w,{}", "x,2")),
        ("video_id,human,human_2", ("v,1,{}", "w,{},{}", "x,2,2")),
        ("video_id,element_id,label", ("v,1.1,1", "w,1.1,{}", "x,1.1,1")),
        ("SID,SYS,RAW.SCR", ("1,a,1", "2,a,{}", "3,a,2")),
    ],
)
def test_rows_without_a_rating_are_left_out_with_a_warning(
    tmp_path: Path, header: str, rows: tuple[str, ...], mark: str
) -> None:
    path = written(tmp_path, table_of(header, *(row.replace("{}", mark) for row in rows)))
    found = load_human(path, missing="drop")
    assert len(found.keys) == 2
    (warning,) = found.warnings
    assert warning == f"{path}: 1 row without a rating is left out (the first is line 3)"
    with pytest.raises(InputError, match=r"line 3: .*; leave unrated rows out with --missing drop"):
        load_human(path)


def test_no_row_with_a_rating_is_an_error_either_way(tmp_path: Path) -> None:
    path = written(tmp_path, table_of("video_id,mos", "v,NA", "w,"))
    for missing in MISSING:
        with pytest.raises(InputError, match='the column "mos" is empty in every row'):
            load_human(path, choice=Choice({"score": "mos"}), missing=missing)


def test_a_metric_is_read_from_the_column_of_its_name(tmp_path: Path) -> None:
    path = written(tmp_path, table_of("clip,model,score,bleu,rating", "v1,a,9,0.5,7"))
    choice = Choice(known=lambda: KNOWN)
    bleu, other = load_metrics(path, "bleu", choice), load_metrics(path, "other", choice)
    assert bleu.metrics[0].scores == {("v1", "a"): 0.5}
    assert other.metrics[0].scores == {("v1", "a"): 9}
    (notice,) = bleu.notices
    assert notice == (
        f'{path}: reads "clip" as video_id, "model" as system; ignores the columns "score", '
        '"rating" (to read one as a metric: --metric COLUMN=FILE)'
    )


def test_a_human_score_is_never_taken_for_a_metric(tmp_path: Path) -> None:
    path = written(tmp_path, table_of("video_id,rating,bleu", "v1,7,0.5"))
    with pytest.raises(InputError) as raised:
        load_metrics(path, "mine")
    assert str(raised.value) == (
        f'{path}: line 1: the column "score" is missing; name it with --columns score=COLUMN; or '
        "name the metric like its column: --metric COLUMN=FILE; expected video_id, score, system?; "
        'found "video_id", "rating", "bleu"'
    )


HEADERS = (
    *("video_id", "Clip", "index", "system", "model", "rater", "score", "MOS", "rating", "human"),
    *("Human_2", "label", "element_id", "verdict", "SYS", "SID", "RAW.SCR", "Z.SCR", "", "x"),
)
NAMES = st.sampled_from(HEADERS)
CELLS = st.sampled_from(["v1", "2", "", "NA", "1.1", "lack", "'=a", "1e999", "\x1b[2J"])


@given(data=st.data(), header=st.lists(NAMES, min_size=1, max_size=5))
@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_any_header_is_read_or_refused_in_one_line(
    tmp_path: Path, data: st.DataObject, header: list[str]
) -> None:
    row = st.lists(CELLS, min_size=len(header), max_size=len(header))
    rows = data.draw(st.lists(row, max_size=3))
    path = written(tmp_path, table_of(*(",".join(cells) for cells in (header, *rows))))
    told = ""
    try:
        table = load_human(path, choice=Choice(known=lambda: KNOWN), missing="drop")
    except InputError as error:
        told = str(error)
    else:
        assert len(table.keys) <= len(rows)
        assert len(table.notices) <= 1
    assert told.startswith(f"{path}: " if told else "")
    assert told.isprintable()


def test_one_bad_cell_of_a_synonym_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, table_of("video_id,MOS", "v1,4", "v2,n.d.", "v3,3"))
    with pytest.raises(InputError, match=r'line 3: MOS: "n\.d\." is not a number'):
        load_human(path)
    words = written(tmp_path, table_of("video_id,MOS", "v1,good", "v2,bad", "v3,3"))
    with pytest.raises(InputError, match='the column "score" is missing'):
        load_human(words)


def test_columns_that_join_are_suggested_as_they_are_typed(tmp_path: Path) -> None:
    choice = Choice(known=lambda: KNOWN)
    path = written(tmp_path, table_of("Picture Name,note,score", "v1,x,1", "v2,y,2"))
    with pytest.raises(InputError) as raised:
        load_human(path, choice=choice)
    assert '(did you mean --columns "video_id=Picture Name"?); expected' in str(raised.value)
    for header in ("Image ID,score", "Segment,RAW.SCR"):
        found = load_human(written(tmp_path, table_of(header, "v1,1", "v2,2")), choice=choice)
        assert list(found.keys) == [("v1", None), ("v2", None)]
