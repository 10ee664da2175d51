"""The paper's tables as transcribed are complete, and its footnotes follow from them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from capeval.captioners.catalogue import read_catalogue
from capeval.errors import InputError
from capeval.reporting.leaderboard.published import TABLE, read_published
from capeval.reporting.score_tables import (
    CHARACTERISTIC_PLACES,
    ELEMENT_PLACES,
    EVENT_PLACES,
    OVERALL,
    TYPE_PLACES,
    Means,
)
from tests.reporting.leaderboard.misprints import (
    Row,
    Tables,
    misprints,
    mixing_share,
    read_tables,
)

PUBLISHED = read_published()
PAPER = read_tables()
ROWS = {row.model: row for row in PAPER.rows}
SEED = Path(__file__).resolve().parents[4] / "shared" / "seeds" / "002_132a9a00419a23aa.txt"


def with_row(row: Row) -> Tables:
    return PAPER._replace(rows=tuple(row if r.model == row.model else r for r in PAPER.rows))


def test_all_models_of_the_catalogue_that_the_paper_has_are_there_with_their_frames() -> None:
    catalogue = {name: entry for name, entry in read_catalogue().items() if entry.paper}
    # The table says how many frames a second, the catalogue whose code takes them.
    in_table = {"qwen-2fps": "2fps", "tuna-auto": "auto"}
    assert {row.model: row.frames for row in PUBLISHED.rows} == {
        name: in_table.get(entry.frames, entry.frames) for name, entry in catalogue.items()
    }
    assert len(PAPER.rows) == 21


def test_best_row_is_the_papers_headline() -> None:
    cells = next(row.cells for row in PUBLISHED.rows if row.name == "GPT-4o")
    assert cells[OVERALL] == Means(0.777, 0.482, 0.585)
    assert cells["type", "camera"] == Means(0.801, 0.533, 0.613)
    assert cells["visual_characteristic", "Multi-Subject"] == Means(0.768, 0.444, 0.555)
    assert cells["events", ">=9"] == Means(None, None, 0.413)
    assert set(cells) == {
        OVERALL,
        *TYPE_PLACES,
        *CHARACTERISTIC_PLACES,
        *EVENT_PLACES,
        *ELEMENT_PLACES,
    }


@pytest.mark.skipif(not SEED.is_file(), reason="the paper's text is not at hand")
@pytest.mark.parametrize("table", [8, 9, 10])
def test_every_number_is_the_printed_one(table: int) -> None:
    lines = SEED.read_text(encoding="utf-8").split("\n")
    end = next(at for at, line in enumerate(lines) if line.startswith(f"Table {table}:"))
    printed = {}
    for line in reversed(lines[:end]):
        if line.startswith("Table "):
            break
        name, *cells = (cell.strip() for cell in line.rstrip("| ").split("|"))
        if cells and all(re.fullmatch(r"\d+\.\d", cell) for cell in cells):
            printed[name] = [float(cell) for cell in cells]
    ours = {
        row.model: {
            8: [value for triple in row.table8 for value in triple],
            9: [value for triple in row.table9 for value in triple],
            10: list(row.table10),
        }[table]
        for row in PAPER.rows
    }
    assert ours == printed


def test_share_of_low_dynamic_videos_that_fits_all_rows_is_that_of_the_papers_table_5() -> None:
    share = PAPER.characteristics["Low-Dynamic"] / PAPER.videos
    assert share == 0.34
    assert PAPER.characteristics["High-Dynamic"] == 660
    assert mixing_share(PAPER.rows) == pytest.approx(share, abs=0.002)


def test_footnotes_are_the_cells_that_disagree() -> None:
    found = [(note.model, note.table, note.places, note.text) for note in PUBLISHED.footnotes]
    assert found == misprints(PAPER)


def test_overall_that_differs_between_tables_is_found() -> None:
    row = ROWS["Kangaroo"]
    found = misprints(with_row(row._replace(table10=(*row.table10[:-1], 43.7))))
    told = [d for d in found if d.model == "Kangaroo"]
    assert "F1 42.7 in table 8, 43.7 in table 10" in told[0].text
    # Table 10's own buckets then disagree with its Overall too, in both of its ways.
    assert [d.table for d in told] == [8, 10, 10]


@pytest.mark.parametrize(("f1", "wrong"), [(44.1, False), (36.3, True), (47.0, True)])
def test_f1_that_no_mean_over_videos_can_have_is_found(f1: float, wrong: bool) -> None:
    row = ROWS["Kangaroo"]
    changed = row._replace(table8=((65.2, 36.5, f1), *row.table8[1:]))
    told = [d.text for d in misprints(with_row(changed)) if d.model == "Kangaroo"]
    assert bool(told) == wrong
    assert not wrong or "lies from 36.5 to 46.8" in told[0]


def test_average_that_is_not_its_rows_is_found() -> None:
    models, values = PAPER.averages["small"]
    changed = PAPER._replace(averages={**PAPER.averages, "small": (models, (46.2, *values[1:]))})
    told = [d.text for d in misprints(changed) if d.model is None]
    assert told == ["the mean of the small models in <=2 events is 45.2, printed 46.2"]


def test_averages_name_every_model_once_and_lack_only_what_the_copy_lost() -> None:
    groups = [PAPER.averages[name][0] for name in ("small", "large", "closed")]
    assert sorted(m for group in groups for m in group) == sorted(ROWS)
    assert sorted(PAPER.averages["total"][0]) == sorted(ROWS)
    lost = [
        (name, at)
        for name, (_, values) in PAPER.averages.items()
        for at, value in enumerate(values)
        if math.isnan(value)
    ]
    assert lost == [("closed", 4)]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("judge = ", "judge ! ", "not valid TOML"),
        ("citation = ", "cite = ", "'citation': is missing"),
        ('"GPT-4o" = [60.9, ', '"GPT-4o" = [', "must be 11 percentages"),
        ('"GPT-4o" = [60.9, ', '"GPT-4o" = [609.0, ', "must be 11 percentages"),
        ('"GPT-4o" = [80.1, ', '"GPT4-o" = [80.1, ', "'GPT-4o': is missing"),
    ],
)
def test_damaged_table_is_one_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    file = tmp_path / "published.toml"
    text = TABLE.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=r"published\.toml") as fault:
        read_published(file)
    assert told in str(fault.value)
