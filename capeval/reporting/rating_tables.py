"""The agreement of human raters, as tables and in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console

from capeval.correlation.result import Coefficient
from capeval.rating.agreement import Agreement
from capeval.rating.merging import RatedFile
from capeval.schema import RELATIONS, ElementType
from capeval.show.numbers import bounded, thousands
from capeval.show.table import BOUNDED, COUNT, SHARE, Kind, Page, Table, columns
from capeval.show.terminal import print_pages
from capeval.stats.agreement import Estimate
from capeval.stats.values import Missing
from capeval.text import counted, one_line


def print_agreement(
    raters: Sequence[RatedFile],
    found: Agreement,
    by_type: Mapping[ElementType, Agreement],
    console: Console,
) -> None:
    """Print how all raters agree, the labels that each gave, and the agreement of each pair."""
    counts = ((label, COUNT) for label in RELATIONS)
    given = Table("Labels", columns(("Rater", _RATER), ("given", SHARE), *counts))
    for file in raters:
        number, labels = len(file.labels), Counter(file.labels.values())
        whole = number + len(file.missing)
        given.rows.append([file.rater, (number, whole), *(labels[one] for one in RELATIONS)])
    pairs = Table(
        "Agreement of each pair of raters",
        columns("Raters", ("n", COUNT), ("kappa [95%]", BOUNDED)),
        note="kappa: Cohen's; n: elements that both labelled. Intervals leave out one video at a "
        "time.",
    )
    for at, pair in enumerate(found.pairs):
        both = f"{one_line(pair.first, 30)} – {one_line(pair.second, 30)}"
        if by_type:
            pairs.rows.append([both])
        for name, of in [("all" if by_type else both, found), *by_type.items()]:
            one = of.pairs[at]
            pairs.rows.append([name, one.n, _coefficient(one.kappa)])
    page = Page([given, pairs] if found.pairs else [given])
    print_pages([page], console, headline=agreement_line(found, by_type))


def agreement_line(found: Agreement, by_type: Mapping[ElementType, Agreement]) -> str:
    """Return how all raters agree, in a line or two."""
    if not found.pairs:
        return "There is one rater only, so there is no agreement to report."
    value = found.alpha.value
    reason = f" ({value.reason})" if isinstance(value, Missing) else ""
    text = (
        f"Krippendorff's alpha (nominal): {bounded(_coefficient(found.alpha))}{reason}, over "
        f"{counted(found.n, 'element')} that two or more raters labelled"
    )
    if not by_type:
        return text
    each = (
        f"{kind} {bounded(_coefficient(of.alpha))} over {thousands(of.n)}"
        for kind, of in by_type.items()
    )
    return f"{text}\nBy type: {', '.join(each)}"


def _coefficient(found: Estimate) -> Coefficient:
    return Coefficient.of(found.value, found.interval)


_RATER = Kind(lambda name: one_line(name, 40))
