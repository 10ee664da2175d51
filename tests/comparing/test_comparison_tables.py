"""Tables of comparisons, compared with golden files.

`CAPEVAL_GOLDEN=1 pytest tests/comparing` writes them anew; look at the difference.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from capeval.comparing.comparison import Comparison, LeftOut, Matrix
from capeval.show.formats import Format
from capeval.version import __version__
from tests.comparing.making import comparison, matrix
from tests.latex import PDFLATEX, typeset

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = "[red]x|y[/red]_\\&%${}#~^<script>\x1b[31m\n`"


def shown(
    found: Comparison | Matrix, width: int = 120, *, full: bool = True, form: Format = "table"
) -> str:
    if form != "table":
        return found.rendered(form)
    out = io.StringIO()
    found.show(Console(file=out, width=width, color_system=None), full=full)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def example() -> Comparison:
    """Two runs of unlike data, one of which lacks a video."""
    found = comparison("base", "[b]new[/b] & <x>", value=0.0123, low=-0.0345)
    left = LeftOut(index="d", reason="unscored in base: the judge refused")
    return found.model_copy(
        update={
            "comparable": False,
            "unlike": ("data 0a1b2c@3 vs. 0a1b2d@3",),
            "notes": ("nothing says who judged base",),
            "second": found.second.model_copy(
                update={"left_out": (left,), "scored": 4, "signature": "capeval:other"}
            ),
        }
    )


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("comparison.txt", example()),
        ("comparison-matrix.txt", matrix("low", "[b]high[/b]", "also low")),
    ],
)
def test_tables_are_the_golden_ones(name: str, found: Comparison | Matrix) -> None:
    golden = GOLDEN / name
    text = shown(found, 80).replace(f"|v:{__version__}", "")
    if os.environ.get("CAPEVAL_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_first_line_is_a_sentence_to_paste_and_the_rest_is_short() -> None:
    found = comparison(value=0.032, low=0.011, high=0.053, p=0.004)
    lines = shown(found, full=False).splitlines()
    assert lines[0] == (
        "B is 3.2 points of F1 better than A (95% CI 1.1 to 5.3, p = 0.004) over the 8 videos "
        "scored in both runs."
    )
    assert len(lines) <= 40
    assert not any(line.startswith(("By number", "Flipped")) for line in lines)
    assert "5 of 24 verdicts flipped: 3 elements are entailed only in B, 1 only in A." in lines


@pytest.mark.parametrize(
    ("more", "printed"),
    [
        (
            {"value": -0.05, "low": -0.08, "high": 0.01, "p": 0.2},
            "A is 5.0 points of F1 better than B (95% CI -1.0 to 8.0, p = 0.200, not significant)",
        ),
        ({"value": -0.05, "p": 0.2}, ", p = 0.200, not significant) over the"),
        ({"value": 0.0001, "p": 0.9}, "B has the same F1 as A ("),
    ],
)
def test_headline_does_not_overstate(more: Any, printed: str) -> None:
    assert printed in comparison(**more).headline()


@pytest.mark.parametrize("form", ["table", "markdown", "latex"])
@pytest.mark.parametrize("make", [comparison, matrix])
def test_hostile_names_stay_text(form: Format, make: Any) -> None:
    if make is matrix:
        found = matrix(HOSTILE, "B", "C")
    else:
        base = comparison(HOSTILE, "B")
        left = LeftOut(index=HOSTILE, reason=HOSTILE)
        element = base.flips.elements[0].model_copy(update={"content": HOSTILE, "index": HOSTILE})
        found = base.model_copy(
            update={
                "unlike": (HOSTILE,),
                "comparable": False,
                "notes": (HOSTILE,),
                "first": base.first.model_copy(update={"left_out": (left,), "signature": HOSTILE}),
                "videos": {HOSTILE: next(iter(base.videos.values()))},
                "flips": base.flips.model_copy(update={"elements": (element,)}),
            }
        )
    text = shown(found, 200, form=form)
    assert "\x1b" not in text
    assert "[red]" in text or r"\[red\]" in text
    if form == "latex":
        lines = [line for line in text.splitlines() if not line.startswith("%")]
        assert "<script" not in "".join(lines).replace(r"\textless{}script", "")
        # LaTeX would take a bracket after a line break or a rule as an option.
        assert not any(line.startswith("[") for line in lines)


@pytest.mark.skipif(PDFLATEX is None, reason="no TeX is installed")
@pytest.mark.parametrize("found", [example(), matrix("low", "high", "same")])
def test_tables_of_a_paper_fit_its_text(tmp_path: Path, found: Comparison | Matrix) -> None:
    body = shown(found, form="latex")
    printed = typeset(tmp_path, body)
    assert "Overfull \\hbox" not in printed


def test_full_says_which_difference_can_be_detected_and_why_an_interval_is_missing() -> None:
    found = example()
    assert "Smallest detectable difference: needs at least 10 videos." in shown(found)
    found = found.model_copy(update={"detectable": 0.0312})
    assert "difference in F1: 3.1 points, found at p <= 0.05 " in shown(found).replace("\n", " ")
    assert "detectable" not in shown(found, full=False)
    note = "no interval, fewer than 8 videos"
    assert note not in shown(comparison(), full=False)
    for form in ("table", "markdown", "latex"):
        # In LaTeX not as a comment: a reader of the paper must see it.
        lines = shown(comparison(low=None), form=form).splitlines()
        assert sum(note in line for line in lines if not line.startswith("%")) >= 1


def flipped(*given: tuple[str, int], moved: dict[str, float]) -> Comparison:
    base = comparison()
    flip, move = base.flips.elements[0], next(iter(base.videos.values()))
    elements = tuple(
        flip.model_copy(update={"index": index, "weight": weight, "element_id": f"{n}.1"})
        for n, (index, weight) in enumerate(given, start=1)
    )
    f1 = {index: move.f1.model_copy(update={"value": value}) for index, value in moved.items()}
    return base.model_copy(
        update={
            "flips": base.flips.model_copy(update={"elements": elements}),
            "videos": {index: move.model_copy(update={"f1": one}) for index, one in f1.items()},
        }
    )


def test_flips_are_of_the_videos_that_moved_furthest_two_of_each_first() -> None:
    found = flipped(
        ("a", 3), ("b", 1), ("b", 2), ("b", 3), ("c", 1), moved={"a": 0.1, "b": -0.5, "c": 0.2}
    )  # fmt: skip
    (table,) = [s for s in found.pages(full=True)[0].tables if s.title.startswith("Flipped")]
    assert [(str(row[0])[0], row[-1]) for row in table.rows] == [
        ("b", "3"), ("b", "2"), ("c", "1"), ("a", "3"), ("b", "1")
    ]  # fmt: skip


def test_every_table_of_a_paper_says_what_it_is_of_and_what_to_beware_of() -> None:
    tables = shown(example(), form="latex").split(r"\begin{table}")[1:]
    for table in tables:
        seen = [line for line in table.splitlines() if not line.startswith("%")]
        (caption,) = [line for line in seen if line.startswith(r"\caption")]
        assert "A base, B [b]new[/" in caption
        assert "judge unknown" in caption
        assert any("NOT COMPARABLE: data 0a1b2c@3 vs. 0a1b2d@3." in one for one in seen)
        assert any(one.startswith("nothing says who judged base.") for one in seen)
        assert r"\centering" in seen
