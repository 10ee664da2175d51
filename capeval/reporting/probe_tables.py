"""How a judge agrees with certain verdicts: one sentence about the worst kind, and a table."""

from __future__ import annotations

from rich.console import Console

from capeval.files.jsonl import dumps
from capeval.reporting.numbers import percent, share
from capeval.reporting.table import Format, Page, Table, columns, print_pages, rendered
from capeval.text import counted, one_line
from capeval.trust.probing import Agreement, Probing

_COLUMNS = ("Probe", "Right", "Share, % [95%]", "Unscored")


def print_probing(found: Probing, console: Console) -> None:
    """Print the headline and the table."""
    print_pages([_page(found)], console, headline=probing_headline(found))


def rendered_probing(found: Probing, form: Format) -> str:
    """Return the result as text; JSON has everything, nothing rounded."""
    if form == "json":
        return dumps(found.model_dump(mode="json"), indent=1)
    return rendered([_page(found)], form, headline=probing_headline(found))


def probing_headline(found: Probing) -> str:
    """Return the worst kind and its share of right verdicts, in a sentence."""
    kind, worst = next(iter(found.kinds.items()))
    if found.judge is None or worst.value is None:
        return f"No verdict on {counted(found.captions, 'caption')} yet."
    left = f"; {share(found.unscored, found.captions)} captions unscored" if found.unscored else ""
    return (
        f"{one_line(found.judge)}: worst on {kind}, {_share(worst, unit='%')} of "
        f"{counted(worst.n, 'certain verdict')} right (probes of "
        f"{counted(found.videos, 'video')}{left})."
    )


def _page(found: Probing) -> Page:
    table = Table("Certain verdicts, worst kind first", columns(*_COLUMNS))
    for kind, one in found.kinds.items():
        unscored = share(one.unscored, one.captions)
        table.rows.append([kind, share(one.right, one.n), _share(one), unscored])
    where = f"Captions and certain verdicts: captions.jsonl and labels.csv in {found.folder}."
    return Page([table], notes=[where])


def _share(one: Agreement, unit: str = "") -> str:
    if one.value is None:
        return percent(None)
    return f"{percent(one.value)}{unit} [{percent(one.low)}, {percent(one.high)}]"
