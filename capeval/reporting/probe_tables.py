"""How a judge agrees with certain verdicts: one sentence about the worst kind, and a table."""

from __future__ import annotations

from rich.console import Console

from capeval.files.jsonl import dumps
from capeval.show.formats import Format, rendered
from capeval.show.numbers import percent, share
from capeval.show.table import INTERVAL, SHARE, Page, Table, columns
from capeval.show.terminal import print_pages
from capeval.text import counted, one_line
from capeval.trust.probing import Probing

_COLUMNS = columns("Probe", ("Right", SHARE), ("Share, % [95%]", INTERVAL), ("Unscored", SHARE))


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
    ends = f"[{percent(worst.low)}, {percent(worst.high)}]"
    return (
        f"{one_line(found.judge)}: worst on {kind}, {percent(worst.value)}% {ends} of "
        f"{counted(worst.n, 'certain verdict')} right (probes of "
        f"{counted(found.videos, 'video')}{left})."
    )


def _page(found: Probing) -> Page:
    table = Table("Certain verdicts, worst kind first", _COLUMNS)
    for kind, one in found.kinds.items():
        table.rows.append([kind, (one.right, one.n), one, (one.unscored, one.captions)])
    where = f"Captions and certain verdicts: captions.jsonl and labels.csv in {found.folder}."
    return Page([table], notes=[where])
