"""The leaderboard in every format, held against golden files.

`CAPEVAL_GOLDEN=1 pytest tests/reporting` writes them anew; look at the difference.
"""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

import pytest
from rich.console import Console

from capeval.reporting.formats import Format
from capeval.reporting.leaderboard.board import Leaderboard, Section, make_leaderboard
from capeval.reporting.leaderboard.stored import Entry
from capeval.reporting.leaderboard.tables import By, print_leaderboard, rendered_leaderboard
from capeval.reporting.score_tables import OVERALL, Means, Place
from capeval.schema import Provenance
from tests.judged_runs import make_run, write_annotations
from tests.latex import PDFLATEX, typeset

GOLDEN = Path(__file__).parents[1] / "golden"
HOSTILE = "[red]x[/red] $50 & a_b #1 100% {z} ~^\\input{x} | --- **b** <b>"


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Leaderboard:
    """Runs of two judges, one of part of the videos, one with a name that would be markup."""
    monkeypatch.chdir(tmp_path)
    write_annotations(Path("a.json"))
    big = {"model": "Qwen/Qwen2-VL-72B-Instruct", "frames": "2fps"}
    make_run("qwen", "+++ ++0 | +++ | ++ +", generation=big)
    make_run("a-checkpoint-of-a-long-training-2026-01-31", "+++ ++0 | +0+ | ++ +")
    make_run("as-good", "+++ ++0 | +++ | ++ +", generation={"model": "own", "frames": "auto@64"})
    make_run("part", "+++ +++ | +++", captioned=2)
    make_run(
        "words",
        "+0- 0++ | 0+- | 00 +",
        by=Provenance(judge="lexical-1", prompts=None, baseline=True),
    )
    made = make_leaderboard()
    own, *others = made.sections
    entries = tuple(
        Entry(**{**vars(entry), "name": HOSTILE}) if entry.name == "as-good" else entry
        for entry in own.entries
    )
    return Leaderboard((Section(**{**vars(own), "entries": entries}), *others), made.left_out)


def terminal(board: Leaderboard, width: int, by: By) -> str:
    out = io.StringIO()
    print_leaderboard(board, Console(file=out, width=width, color_system=None), by=by, full=True)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def held(name: str, text: str) -> None:
    golden = GOLDEN / name
    if os.environ.get("CAPEVAL_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert _short(text) == _short(golden.read_text(encoding="utf-8"))


def _short(text: str) -> str:
    # Processors differ in the last digits.
    return re.sub(r"(\.\d{10})\d+", r"\1", text)


def test_terminal_tables_are_the_golden_ones(board: Leaderboard) -> None:
    held("leaderboard.txt", terminal(board, 80, "all"))


def test_csv_is_the_golden_one(board: Leaderboard) -> None:
    held("leaderboard.csv", rendered_leaderboard(board, "csv") + "\n")


def test_json_is_the_golden_one(board: Leaderboard) -> None:
    # Its buckets are those of scores.json, which is tested elsewhere.
    content = json.loads(rendered_leaderboard(board, "json"))
    for section in content["sections"]:
        for each in section["entries"]:
            del each["by"]
    held("leaderboard.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def test_published_csv_is_the_golden_one(tmp_path: Path) -> None:
    paper = make_leaderboard(runs=tmp_path, published=True)
    held("leaderboard-published.csv", rendered_leaderboard(paper, "csv") + "\n")


def test_published_tables_fit_eighty_columns_and_cut_no_number(tmp_path: Path) -> None:
    paper = make_leaderboard(runs=tmp_path, published=True)
    held("leaderboard-published.txt", terminal(paper, 80, "all"))
    tables = terminal(paper, 80, "all").split("¹ ")[0].splitlines()[1:]
    assert max(map(len, tables)) <= 80


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_other_formats_have_every_number(tmp_path: Path, form: Format) -> None:
    paper = make_leaderboard(runs=tmp_path, published=True)
    text = rendered_leaderboard(paper, form, by="all")
    text = text.replace("**", "").replace(r"\textbf{", "").replace(r"\underline{", "")
    for entry in paper.sections[0].entries:
        for value in entry.cells.values():
            assert f"{100 * (value.f1 or 0):.1f}" in text


def test_a_long_leaderboard_is_shortened_to_a_screen() -> None:
    entries = tuple(entry(f"r{n}", 0.5 - n / 1000, n + 1) for n in range(40))
    signature = dict.fromkeys(("capeval", "judge", "prompts", "repeats", "avg", "data"), "x")
    long = Leaderboard((Section(signature, entries),), ())
    out = io.StringIO()
    print_leaderboard(long, Console(file=out, width=80, color_system=None))
    lines = out.getvalue().splitlines()
    assert lines[0] == ("r0: F1 50.0 [–] over all 10 videos, the highest of 40 runs, judged by x.")
    assert len(lines) <= 40
    assert "11 more rows: --full" in out.getvalue()
    out.truncate(0)
    print_leaderboard(long, Console(file=out, width=80, color_system=None), full=True)
    assert "r39 " in out.getvalue()


@pytest.mark.parametrize("width", [10, 40, 60, 80, 100, 200])
def test_numbers_are_never_cut_and_names_only_broken_at_hyphens(
    board: Leaderboard, width: int
) -> None:
    text = terminal(board, width, "types")
    assert "…" not in text
    assert text.count("100.0/100.0/100.0") >= 4
    for piece in ("checkpoint-", "long-", "training-", "2026-", "01-", "31"):
        assert piece in text


def test_only_a_format_decides_how_leaders_are_marked(board: Leaderboard) -> None:
    latex = rendered_leaderboard(board, "latex", by="types")
    # Two are best of all ranked, and the one after them is second; the part is neither.
    overall = latex.split(r"\end{tabular}")[0]
    assert overall.count(r"\textbf{") == 2
    assert overall.count(r"\underline{") == 1
    assert r"part & -- & -- & 2/10 & 2/2" in overall.replace("\n", " ")
    assert r"\textbf" not in overall.split("part &")[1]
    markdown = rendered_leaderboard(board, "markdown", by="types")
    assert markdown.count("**96.4**") == 2
    assert "underline" not in markdown
    assert "\x1b" not in rendered_leaderboard(board, "table", by="types")


def test_latex_says_under_each_table_what_its_marks_mean(
    board: Leaderboard, tmp_path: Path
) -> None:
    own, baseline = rendered_leaderboard(board, "latex", by="types").split("% 2. Runs")
    assert own.count("\nNot ranked, fewer than 99\\% of the videos are scored: part (cap") == 3
    assert baseline.count("\nThese are scores of a baseline judge") == 2
    paper = make_leaderboard(runs=tmp_path / "none", published=True)
    tables = rendered_leaderboard(paper, "latex", by="all").split(r"\begin{table}")[1:]
    assert len(tables) == 5
    for table in tables:
        assert "\n\\dag{} published, not computed here: Kong et al." in table
    doubted = [n for n, table in enumerate(tables) if "printed 49.6" in table]
    assert doubted == [0, 2]


def test_buckets_say_of_how_many_videos_they_are(board: Leaderboard) -> None:
    # The part lacks videos that the others have, and the words are alone.
    text = terminal(board, 120, "characteristics")
    assert ["n", "1–4", "1–6", "1–4", "0–2"] in [line.split() for line in text.splitlines()]
    assert ["n", "4", "6", "4", "2"] in [line.split() for line in text.splitlines()]
    latex = rendered_leaderboard(board, "latex", by="characteristics")
    assert "Run & Low-Dynamic & High-Dynamic & Multi-Scene \\\\\nn & 1--4 & 1--6 &" in latex
    markdown = rendered_leaderboard(board, "markdown", by="characteristics")
    assert "| Low-Dynamic (n 1–4) |" in markdown


@pytest.mark.parametrize("width", [80, 100, 140])
def test_runs_beside_the_papers_models_fit_a_screen(tmp_path: Path, width: int) -> None:
    (paper,) = make_leaderboard(runs=tmp_path, published=True).sections
    entries = tuple(entry(f"r{n}", 0.5 - n / 1000, n + 1) for n in range(5))
    signature = dict.fromkeys(("capeval", "judge", "prompts", "repeats", "avg", "data"), "x")
    both = Leaderboard((Section(signature, entries), paper), ())
    out = io.StringIO()
    print_leaderboard(both, Console(file=out, width=width, color_system=None))
    assert len(out.getvalue().splitlines()) <= 40
    # A footnote goes with its row.
    assert ("¹ LLaVA-OV-72B" in out.getvalue()) == ("49.6¹" in out.getvalue())


@pytest.mark.parametrize("form", ["table", "markdown", "latex"])
def test_what_is_not_there_is_explained(board: Leaderboard, form: Format) -> None:
    text = rendered_leaderboard(board, form, by="complexity")
    bare = text.replace("\\", "").replace("{[}--]", "[–]").replace("\n--:", "\n–:")
    # Of the two sections, only the first has a run of fewer than eight videos.
    assert bare.count("[–]: no interval, fewer than 8 videos") == 1
    assert bare.count("–: no scored video") == 4


def test_the_papers_section_shows_nothing_like_a_signature(tmp_path: Path) -> None:
    paper = make_leaderboard(runs=tmp_path, published=True)
    for form in ("table", "markdown", "latex"):
        text = rendered_leaderboard(paper, form, by="all")
        assert "capeval:tuna-cap|" not in text.replace("\\", "")
        assert "the paper's own judge (GPT-4o), prompts and data" in text
        assert "one repeat; no signature" in text


@pytest.mark.parametrize(("form", "tables"), [("table", 2), ("markdown", 1), ("latex", 2)])
def test_domains_are_parted_where_they_do_not_fit(form: Format, tables: int) -> None:
    cells: dict[Place, Means] = {
        ("domain", f"A Long Domain {letter}"): Means(0.5, 0.5, 0.5, 7) for letter in "ABCDEFGH"
    }
    only = Entry(
        "run", None, None, None, 10, 10, 10, cells | {OVERALL: Means(0.5, 0.5, 0.5)}, rank=1
    )
    signature = dict.fromkeys(("capeval", "judge", "prompts", "repeats", "avg", "data"), "x")
    text = rendered_leaderboard(Leaderboard((Section(signature, (only,)),), ()), form, by="domain")
    assert text.count("By domain: F1") == tables
    assert text.count("(continued)") == tables - 1


def entry(name: str, f1: float | None, rank: int | None = 1) -> Entry:
    cells: dict[Place, Means] = {} if f1 is None else {OVERALL: Means(f1, f1, f1)}
    return Entry(name, None, None, None, 10, 10, 10, cells, rank=rank)


@pytest.mark.parametrize(
    ("values", "bold", "underlined"),
    [
        ([0.5, 0.4, 0.3], ["50.0"], ["40.0"]),
        ([0.5, 0.5, 0.3], ["50.0", "50.0"], ["30.0"]),
        ([0.5, 0.4, 0.4], ["50.0"], ["40.0", "40.0"]),
        ([0.5, 0.49999, 0.4], ["50.0", "50.0"], ["40.0"]),  # as printed, they are equal
        ([0.1, 0.09], ["10.0"], ["9.0"]),  # numbers, not words
        ([0.5, None], ["50.0"], []),
        ([None, None], [], []),
        ([0.5], [], []),  # alone it leads nobody
    ],
)
def test_ties_share_their_mark(
    values: list[float | None], bold: list[str], underlined: list[str]
) -> None:
    entries = tuple(entry(f"r{n}", value) for n, value in enumerate(values))
    signature = dict.fromkeys(("capeval", "judge", "prompts", "repeats", "avg", "data"), "x")
    text = rendered_leaderboard(Leaderboard((Section(signature, entries),), ()), "latex")

    def marked(command: str) -> list[str]:
        return [part.split("}")[0] for part in text.split(f"\\{command}{{")[1:]]

    assert marked("textbf") == bold
    assert marked("underline") == underlined


@pytest.mark.skipif(PDFLATEX is None, reason="no TeX is installed")
def test_latex_compiles_and_fits_the_page(tmp_path: Path, board: Leaderboard) -> None:
    paper = make_leaderboard(runs=tmp_path / "none", published=True)
    both = Leaderboard(board.sections + paper.sections, ())
    body = rendered_leaderboard(both, "latex", by="all")
    assert "Overfull \\hbox" not in typeset(tmp_path, body)
