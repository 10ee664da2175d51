import io
import json

from rich.console import Console

from capeval.show.result import Format, Result
from capeval.show.table import (
    Cell,
    Column,
    Kind,
    Page,
    Row,
    Table,
    as_text,
    columns,
    one_screen,
    print_table,
)


class Shown(Result):
    def __init__(self, *pages: Page) -> None:
        self._pages = [*pages]

    def headline(self) -> str:
        return ""

    def pages(self, *, full: bool = False) -> list[Page]:
        return self._pages


def rendered(pages: list[Page], form: Format) -> str:
    return Shown(*pages).rendered(form)


def printed(table: Table, width: int) -> str:
    out = io.StringIO()
    print_table(table, Console(file=out, width=width, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def test_a_table_wider_than_the_terminal_keeps_every_number() -> None:
    table = Table("t", columns("Name", *"abcdef"), [["x", *["1" * 9] * 6], ["head"]], note="Read.")
    assert printed(table, 40).count("1" * 9) == 6
    table = Table("t", columns("Name", "n"), [["a-very-long-name-of-a-run", "1,000"]])
    assert max(map(len, printed(table, 24).splitlines())) == 24


def test_csv_has_no_control_characters() -> None:
    assert rendered([Page([Table("t", columns("Run"), [["\x1b[2Jx"]])])], "csv") == "Run\n\\x1b[2Jx"


def test_the_tables_of_a_screen_share_its_lines() -> None:
    pages = [Page([Table("t", columns("a"), [[str(n)] for n in range(30)])] * 2)]
    assert [len(table.rows) for table in one_screen(pages)[0].tables] == [16, 16]


def test_marks_of_a_cell_are_those_of_the_format() -> None:
    kind = Kind(lambda v: f"{v[1]}", lambda v: f"{v[0]}/", lambda _: " [59, 62]", _named)
    found = [Column("Run", words=True), Column("F1", kind=kind, key="f1")]
    rows: list[Row] = [
        ["a", Cell((80.1, 61.3), place=1)],
        ["b", Cell((50.0, 60.0), place=2)],
        ["c", None],
    ]
    pages = [Page([Table("t", found, rows)])]
    assert "80.1/61.3 [59, 62]" in rendered(pages, "table")
    assert "80.1/**61.3** \\[59, 62\\]" in rendered(pages, "markdown")
    latex = rendered(pages, "latex")
    assert r"80.1/\textbf{61.3} [59, 62]" in latex
    assert r"\underline{60.0}" in latex
    assert r"c & -- \\" in latex
    assert json.loads(rendered(pages, "json")) == [
        {"Run": "a", "f1_p": 80.1, "f1": 61.3},
        {"Run": "b", "f1_p": 50.0, "f1": 60.0},
        {"Run": "c", "f1": None},
    ]
    assert rendered(pages, "csv") == "Run,f1_p,f1\na,80.1,61.3\nb,50.0,60.0\nc,,"


def _named(value: tuple[float, float]) -> dict[str, float]:
    return {"_p": value[0], "": value[1]}


def test_latex_takes_no_cell_for_an_option_and_no_name_for_a_command() -> None:
    table = Table(
        r"a_b & \c", columns("*", "x"), [["[2] -0.5", "-0.5 [-1.0, 2]"], ["a|b>c", "gpt-4"]]
    )
    text = rendered([Page([table], notes=["100%"])], "latex")
    assert "{*} & x" in text
    assert r"{[}2] $-$0.5 & $-$0.5 [$-$1.0, 2] \\" in text
    assert r"a\textbar{}b\textgreater{}c & gpt-4 \\" in text
    assert r"\caption{a\_b \& \textbackslash{}c}" in text
    assert text.startswith("% 100%\n")


def test_markup_in_names_stays_text() -> None:
    text = as_text([Page([Table("[b]t[/b]", columns("[i]"), [["[red]x"]])])])
    assert text.splitlines()[::3] == ["[b]t[/b]", "[red]x"]
    page = Page([Table("t", columns("a"), [["**b** <b> @you"]])])
    assert r"\*\*b\*\* \<b\> &#64;you" in rendered([page], "markdown")


def test_a_shortened_page_says_how_many_rows_are_left_out() -> None:
    table = Table("t", columns("a"), [[str(n)] * 1 for n in range(30)], note="Read.")
    (short,) = Page([table]).shortened(25).tables
    assert (len(short.rows), short.note) == (25, "Read. 5 more rows: --full")
    (one,) = Page([table]).shortened(29).tables
    assert one.note == "Read. 1 more row: --full"
    assert Page([table]).shortened(30).tables == [table]
