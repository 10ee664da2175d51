"""The published accuracies are complete, and each footnote follows from the cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from capeval.errors import InputError
from capeval.reporting.leaderboard.published import read_published
from capeval.reporting.mcq_leaderboard.published import (
    TABLE,
    PublishedNote,
    PublishedRow,
    PublishedTable,
    read_published_accuracies,
)

TUNA, TOMATO, STRATEGIES, CHANCE = read_published_accuracies()
# Half of the last printed digit, as fractions; printed halves may be rounded either way.
HALF = 0.0005 + 1e-9


def counts_of(cell: float, questions: int) -> range:
    """Return the numbers of correct answers that are printed as a cell."""
    return range(math.ceil((cell - HALF) * questions), math.floor((cell + HALF) * questions) + 1)


def fits(row: PublishedRow, questions: Sequence[int]) -> bool:
    """Return whether all cells are shares of so many questions, and the overall is theirs."""
    correct = [counts_of(cell, n) for cell, n in zip(row.cells, questions, strict=True)]
    if not all(correct):
        return False
    assert row.overall is not None
    least, most = sum(map(min, correct)), sum(map(max, correct))
    total = sum(questions)
    return least / total - HALF <= row.overall <= most / total + HALF


def overall_fits(row: PublishedRow, questions: Sequence[int]) -> bool:
    """Return whether the overall accuracy is the weighted mean of the cells as printed."""
    assert row.overall is not None
    mean = sum(c * n for c, n in zip(row.cells, questions, strict=True)) / sum(questions)
    return abs(mean - row.overall) <= 2 * HALF


def noted(table: PublishedTable) -> set[str]:
    return {note.model for note in table.footnotes}


def row_of(table: PublishedTable, model: str) -> PublishedRow:
    return next(row for row in table.rows if row.model == model)


def test_sizes() -> None:
    assert [len(table.rows) for table in (TUNA, TOMATO, STRATEGIES, CHANCE)] == [21, 36, 5, 10]
    assert [row.baseline for row in TOMATO.rows].count(True) == 5
    assert sum(TUNA.questions) == 1432
    assert sum(TOMATO.questions) == 1484


def test_headlines() -> None:
    assert max(TUNA.rows, key=lambda row: row.overall or 0).model == "Gemini 1.5 Pro"
    models = [row for row in TOMATO.rows if not row.baseline]
    best = max(models, key=lambda row: row.overall or 0)
    assert (best.model, best.overall) == ("Qwen2-VL-72B", 0.379)
    human = row_of(TOMATO, "Human (videos)")
    assert human.overall is not None
    assert round(human.overall - (best.overall or 0), 3) == 0.573


def test_frames_of_tuna_are_those_of_its_table_7() -> None:
    assert {row.model: row.frames for row in TUNA.rows} == {
        row.name: row.frames for row in read_published().rows
    }


@pytest.mark.parametrize("row", TUNA.rows, ids=lambda row: row.model)
def test_tuna_row_fits_its_questions_unless_a_footnote_says_otherwise(row: PublishedRow) -> None:
    assert fits(row, TUNA.questions) == (row.model not in noted(TUNA))


def test_tuna_questions_are_the_only_ones_that_fit() -> None:
    """Figure 12 has no numbers: each column has one number of questions within the total."""
    rows = [row for row in TUNA.rows if row.model not in noted(TUNA)]
    possible = [
        [n for n in range(20, 433) if all(counts_of(row.cells[at], n) for row in rows)]
        for at in range(len(TUNA.columns))
    ]
    least = sum(map(min, possible))
    # Multiples of a number fit as well, but the smallest ones already add up to all questions.
    assert least == TUNA.overall_questions
    assert tuple(map(min, possible)) == TUNA.questions


@pytest.mark.parametrize("note", TUNA.footnotes, ids=lambda note: note.model)
def test_footnoted_tuna_row_fits_the_questions_of_its_footnote(note: PublishedNote) -> None:
    assert fits(row_of(TUNA, note.model), note.questions)
    changed = {
        column
        for column, ours, theirs in zip(TUNA.columns, TUNA.questions, note.questions, strict=True)
        if ours != theirs
    }
    assert changed == {*note.columns}


def test_one_other_split_of_the_attribute_tasks_fits_four_rows() -> None:
    rows = [row_of(TUNA, note.model) for note in TUNA.footnotes if "Gemini" not in note.model]
    found = [
        (first, second, 352 - first - second)
        for first in range(20, 300)
        for second in range(20, 332 - first)
        if all(
            fits(row, (*TUNA.questions[:7], first, second, 352 - first - second)) for row in rows
        )
    ]
    assert found == [(163, 147, 42)]


@pytest.mark.parametrize("model", ["Gemini 1.5 Flash", "Gemini 1.5 Pro"])
def test_five_is_the_fewest_questions_without_a_response_that_fit_gemini(model: str) -> None:
    row = row_of(TUNA, model)
    cells = [*zip(row.cells, TUNA.questions, strict=True)]
    possible = [[left for left in range(6) if counts_of(c, n - left)] for c, n in cells]
    found = [
        left
        for left in product(*possible)
        if sum(left) <= 5
        and fits(row, [n - gone for n, gone in zip(TUNA.questions, left, strict=True)])
    ]
    assert found == [(1, 1, 0, 0, 1, 1, 0, 0, 1, 0)]


@pytest.mark.parametrize("row", TOMATO.rows, ids=lambda row: row.model)
def test_tomato_overall_is_the_mean_weighted_by_questions(row: PublishedRow) -> None:
    assert overall_fits(row, TOMATO.questions) == (row.model not in noted(TOMATO))


def test_tomato_models_are_shares_of_questions_but_one_cell() -> None:
    odd = {
        (row.model, column)
        for row in TOMATO.rows
        for column, cell, n in zip(TOMATO.columns, row.cells, TOMATO.questions, strict=True)
        if not counts_of(cell, n) and not row.baseline
    }
    assert odd == {("LLaVA-Video-7B", "rotation")}


def test_tomato_footnotes_give_the_means_of_the_cells() -> None:
    for note, mean in zip(TOMATO.footnotes, (0.247, 0.199), strict=True):
        cells = row_of(TOMATO, note.model).cells
        weighted = sum(c * n for c, n in zip(cells, TOMATO.questions, strict=True)) / 1484
        assert round(weighted, 3) == mean
        assert f"the cells give {100 * mean:.1f} overall" in note.text


def test_study_cells_are_shares_of_its_questions() -> None:
    for row in STRATEGIES.rows:
        for cell in row.cells:
            assert abs(round(cell * 1730) / 1730 - cell) <= 0.00005 + 1e-9


def test_study_strategies_differ_by_no_more_than_the_replies_decided_by_chance() -> None:
    chance = {row.model: row.cells[0] for row in CHANCE.rows}
    for row in STRATEGIES.rows:
        random, *_, symbol_text, symbol = row.cells
        for other in (symbol_text, symbol):
            assert abs(other - random) * 1730 <= chance[row.model] + 0.5


FAULTS = [
    ("[[tables]]\n", "is missing; install capeval again"),
    ("tables = 3\n", "install capeval again"),
    ("[[tables]", "not valid TOML"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_broken_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "published.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_published_accuracies(file)


CHANGES = [
    ("questions = [256,", "questions = [255,", "sum of all questions"),
    ('"PLLaVA-7B" = [29.7, ', '"PLLaVA-7B" = [', "must be 11 numbers"),
    ('"PLLaVA-7B" = [29.7, ', '"PLLaVA-7B" = [129.7, ', "from 0 to 100"),
    ('model = "Kangaroo"', 'model = "Kangoroo"', "names no row"),
]


@pytest.mark.parametrize(("old", "new", "message"), CHANGES)
def test_slip_in_the_file_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = TABLE.read_text(encoding="utf-8")
    assert old in text
    file = tmp_path / "published.toml"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_published_accuracies(file)
