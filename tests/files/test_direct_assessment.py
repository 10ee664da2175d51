from __future__ import annotations

from pathlib import Path

import pytest

from capeval.errors import InputError
from capeval.files.columns import Choice
from capeval.files.direct_assessment import is_direct_assessment, ratings_of
from capeval.files.ratings import RatingTable, load_human
from capeval.files.table_reading import read_table
from capeval.files.tables import InputTable
from tests.correlation.making import ROOT

HEADER = "SYS,SID,RAW.SCR,Z.SCR,N,HIT\n"
REAL = ROOT.parent / "shared" / "data" / "trecvid2017" / "ad-seg-scores-en-en.csv"


def table(folder: Path, text: str) -> InputTable:
    path = folder / "ad.csv"
    path.write_text(HEADER + text, encoding="utf-8")
    return read_table(path)


def test_a_row_with_line_number_0_is_skipped_with_a_warning(tmp_path: Path) -> None:
    given = table(tmp_path, "UPC,07,17.5,-0.49,17,0\nCCNY,0,31.4,-0.2,16,12\nDCU,3,9,0,15,1\n")
    assert is_direct_assessment(given)
    chosen, warnings = ratings_of(given)
    ratings = chosen.read()
    assert ratings.columns == {
        "system": ["UPC", "DCU"],
        "video_id": ["7", "3"],
        "score": ["17.5", "9"],
    }
    assert list(ratings.lines) == [2, 4]
    (warning,) = warnings
    assert warning.endswith(
        "ad.csv: line 3: SID is 0 and lines count from 1, so this row of CCNY rates no caption: "
        "skipped"
    )


def test_a_column_of_a_metric_is_kept_in_the_same_rows(tmp_path: Path) -> None:
    rows = "UPC,7,17.5,-0.49,17,0\nUPC,0,1,2,3,4\nUPC,8,3,0.5,15,0\n"
    found = load_human(table(tmp_path, rows).file, ["N"])
    assert isinstance(found, RatingTable)
    assert found.metrics["N"].tolist() == [17, 15]
    assert found.notices == ()


@pytest.mark.parametrize(
    ("mapped", "zmean", "scores"),
    [
        ({}, False, [17.5, 9]),
        ({}, True, [-0.49, 0.25]),
        ({"score": "Z.SCR"}, False, [-0.49, 0.25]),
        ({"score": "Z.SCR"}, True, [-0.49, 0.25]),
        ({"score": "RAW.SCR"}, False, [17.5, 9]),
    ],
)
def test_the_standardised_scores_are_read_for_zmean_or_by_name(
    tmp_path: Path, mapped: dict[str, str], zmean: bool, scores: list[float]
) -> None:
    path = table(tmp_path, "UPC,7,17.5,-0.49,17,0\nDCU,3,9,0.25,15,1\n").file
    found = load_human(path, choice=Choice(mapped), standardised=zmean)
    assert isinstance(found, RatingTable)
    assert found.ratings.tolist() == [scores]
    told = [f'{path}: reads "Z.SCR" as score'] if scores[0] < 0 else []
    assert [*found.notices] == told


@pytest.mark.parametrize(
    ("header", "mapped", "message"),
    [
        ("SYS,SID,RAW.SCR", {}, "it needs the column Z.SCR, or use --raters mean"),
        (
            "SYS,SID,RAW.SCR,Z.SCR",
            {"score": "RAW.SCR"},
            "it needs the column Z.SCR; omit --columns score=RAW.SCR, or use --raters mean",
        ),
    ],
)
def test_zmean_never_leaves_scores_raw(
    tmp_path: Path, header: str, mapped: dict[str, str], message: str
) -> None:
    path = tmp_path / "ad.csv"
    path.write_text(f"{header}\nUPC,7,17.5{',1' * (header.count(',') - 2)}\n", encoding="utf-8")
    with pytest.raises(InputError, match="has the mean of several raters") as raised:
        load_human(path, choice=Choice(mapped), standardised=True)
    assert str(raised.value).endswith(message)


def test_files_of_wmt_have_spaces(tmp_path: Path) -> None:
    path = tmp_path / "ad.csv"
    path.write_text("SYS SID RAW.SCR Z.SCR N\nUPC 7 17.5 -0.49 1\nUPC 8 1 0.5 1\n", "utf-8")
    found = load_human(path, standardised=True)
    assert isinstance(found, RatingTable)
    assert list(found.keys) == [("7", "UPC"), ("8", "UPC")]
    assert found.ratings.tolist() == [[-0.49, 0.5]]


def test_other_layouts_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "human.csv"
    path.write_text("video_id,system,score\na,b,1\n", encoding="utf-8")
    assert not is_direct_assessment(read_table(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("UPC,7.5,1,1,1,1\n", 'line 2: SID: "7.5" is not a line number'),
        ("UPC,-1,1,1,1,1\n", 'line 2: SID: "-1" is not a line number'),
        ("UPC,0,1,1,1,1\n", "SID: no row has a line number above 0"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ratings_of(table(tmp_path, text))


def test_the_published_file_has_one_such_row() -> None:
    if not REAL.is_file():
        pytest.skip(f"{REAL} is not here")
    chosen, warnings = ratings_of(read_table(REAL))
    ratings = chosen.read()
    assert len(ratings) == 1539
    (warning,) = warnings
    assert "SID is 0" in warning
    assert "row of CCNY" in warning
    assert len(set(ratings.columns["video_id"])) == len(set(map(int, ratings.columns["video_id"])))
