"""The leaderboard's tables in every format."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from capeval.comparing.caption_board import caption_board
from capeval.comparing.question_board import question_board
from capeval.comparing.sections import Leaderboard, Section
from capeval.errors import InputError
from capeval.schema import Provenance
from capeval.scoring import Estimate, TypeScores
from capeval.scoring.scores import OVERALL, VIEWS, ScoreRow, score_tables
from capeval.show.formats import Format
from capeval.show.table import Page, Table
from tests.judged_runs import make_run, write_annotations
from tests.latex import PDFLATEX, typeset


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Leaderboard:
    """Runs of two judges, two of them equally good, one of part of the videos."""
    monkeypatch.chdir(tmp_path)
    write_annotations(Path("a.json"))
    big = {"model": "Qwen/Qwen2-VL-72B-Instruct", "frames": "2fps"}
    make_run("qwen", "+++ ++0 | +++ | ++ +", generation=big)
    make_run("a-checkpoint-of-a-long-training-2026-01-31", "+++ ++0 | +0+ | ++ +")
    make_run("as-good", "+++ ++0 | +++ | ++ +", generation={"model": "own", "frames": "auto@64"})
    make_run("part", "+++ +++ | +++", captioned=2)
    words = Provenance(judge="lexical-2", prompts=None, baseline=True)
    make_run("words", "+0- 0++ | 0+- | 00 +", by=words)
    return caption_board()


def means(f1: float | None, n: int = 7) -> TypeScores:
    value = Estimate(value=f1, low=None, high=None)
    return TypeScores(precision=value, recall=value, f1=value, n=n)


def section(*rows: ScoreRow) -> Section:
    tables: dict[str, Table] = {view: table for view in VIEWS for table in score_tables(view, rows)}
    return Section(rows, tables, Page([], title="Runs"), {}, headline="The best")


def printed(board: Leaderboard, width: int, *, by: str = "overall", full: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None)
    replace(board, by=by).show(console, full=full)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def test_published_tables_fit_eighty_columns_and_have_every_number(tmp_path: Path) -> None:
    paper = caption_board(runs=tmp_path, published=True)
    text = printed(paper, 80, by="all", full=True)
    assert max(map(len, text.splitlines()[1:])) <= 80
    for form in ("markdown", "latex", "table"):
        text = replace(paper, by="all").rendered(form)
        text = text.replace("**", "").replace(r"\textbf{", "").replace(r"\underline{", "")
        assert "capeval:tuna-cap|" not in text.replace("\\", "")
        for row in paper.sections[0].entries:
            assert isinstance(row, ScoreRow)
            for value in row.cells.values():
                assert f"{100 * (value.f1.value or 0):.1f}" in text


@pytest.mark.parametrize("width", [80, 100, 140])
def test_runs_beside_published_rows_fit_a_screen(tmp_path: Path, width: int) -> None:
    paper = caption_board(runs=tmp_path, published=True).sections
    own = section(*(ScoreRow(f"r{n}", {OVERALL: means(0.5)}, 10, 10, 10) for n in range(40)))
    text = printed(Leaderboard((own, *paper)), width)
    assert len(text.splitlines()) <= 40
    assert "more rows: --full" in text
    # A remark goes with its row.
    assert ("LLaVA-OV-72B:" in text) == ("LLaVA-OV-72B†" in text)
    assert "r39" in printed(Leaderboard((own, *paper)), width, full=True)
    questions = question_board(runs=tmp_path, published=True).sections[:1]
    assert len(printed(Leaderboard(questions), width).splitlines()) <= 40


def test_latex_says_under_each_table_what_its_marks_mean(
    board: Leaderboard, tmp_path: Path
) -> None:
    own, baseline = replace(board, by="types").rendered("latex").split("% 2. Runs")
    assert own.count("\nNot ranked, fewer than 99\\% of the videos are scored: part (cap") == 2
    assert baseline.count("\nThese are scores of a baseline judge") == 2
    paper = caption_board(runs=tmp_path / "none", published=True)
    tables = replace(paper, by="all").rendered("latex").split(r"\begin{table}")[1:]
    assert len(tables) == 5
    for table in tables:
        assert "\n\\dag{} published, not computed here: Kong et al." in table
        assert "LLaVA-OV-72B: the mix of 34\\%" in table


def test_buckets_say_of_how_many_videos_they_are(board: Leaderboard) -> None:
    # The part lacks videos that the others have, and the words are alone.
    text = printed(board, 120, by="characteristics", full=True)
    assert ["n", "1–4", "1–6", "1–4", "0–2"] in [line.split() for line in text.splitlines()]
    assert ["n", "4", "6", "4", "2"] in [line.split() for line in text.splitlines()]
    markdown = replace(board, by="characteristics").rendered("markdown")
    assert "| Low-Dynamic (n 1–4) |" in markdown


@pytest.mark.parametrize("form", ["table", "markdown", "latex"])
def test_what_is_not_there_is_explained(board: Leaderboard, form: Format) -> None:
    text = replace(board, by="complexity").rendered(form)
    bare = text.replace("\\", "").replace("{[}--]", "[–]").replace("\n--:", "\n–:")
    # Of the two sections, only the first has a run of fewer than eight videos.
    assert bare.count("[–]: no interval, fewer than 8 videos") == 1
    assert bare.count("–: no scored video") == 4


@pytest.mark.parametrize(
    ("values", "bold", "underlined"),
    [
        ([0.5, 0.5, 0.3], ["50.0", "50.0"], ["30.0"]),
        ([0.5, 0.4, 0.4], ["50.0"], ["40.0", "40.0"]),
        ([0.5, 0.49999, 0.4], ["50.0", "50.0"], ["40.0"]),  # as printed, they are equal
        ([0.1, 0.09], ["10.0"], ["9.0"]),  # numbers, not words
        ([0.5, None], ["50.0"], []),
        ([0.5], [], []),  # alone it leads nobody
    ],
)
def test_ties_share_their_mark(
    values: list[float | None], bold: list[str], underlined: list[str]
) -> None:
    rows = [
        ScoreRow(f"r{n}", {} if value is None else {OVERALL: means(value)}, 10, 10, 10, rank=1)
        for n, value in enumerate(values)
    ]
    if len(rows) > 1:  # what is not ranked has no mark, however good it is
        rows.append(ScoreRow("part", {OVERALL: means(values[0])}, 2, 2, 10))
    text = Leaderboard((section(*rows),)).rendered("latex")

    def marked(command: str) -> list[str]:
        return [part.split("}")[0] for part in text.split(f"\\{command}{{")[1:]]

    assert marked("textbf") == bold
    assert marked("underline") == underlined


def test_headline_is_of_the_first_section_with_a_value() -> None:
    one = section(ScoreRow("a", {OVERALL: means(0.5)}, 10, 10, 10))
    none = replace(one, headline="")
    assert Leaderboard((none, one)).headline() == "The best (section 2 of 2)."
    assert Leaderboard((none,)).headline() == "No run has a score: 1 run."
    assert Leaderboard((), ((Path("x"), InputError("damaged")),)).headline() == (
        "No run can be shown: 1 left out."
    )


@pytest.mark.skipif(PDFLATEX is None, reason="no TeX is installed")
def test_latex_compiles_and_fits_the_page(tmp_path: Path, board: Leaderboard) -> None:
    sections = caption_board(runs=tmp_path / "none", published=True).sections
    sections += question_board(runs=tmp_path / "none", published=True).sections
    body = Leaderboard(board.sections + sections, by="all").rendered("latex")
    assert "Overfull \\hbox" not in typeset(tmp_path, body)
