"""How well raters agree, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from capeval.rating.agreement import Agreement
from capeval.rating.merging import RatedFile
from capeval.reporting.numbers import coefficient, share, thousands
from capeval.reporting.text_table import Sheet
from capeval.schema import RELATIONS, ElementType
from capeval.stats.values import Missing, Value
from capeval.text import one_line


def agreement_sheets(
    raters: Sequence[RatedFile], found: Agreement, by_type: Mapping[ElementType, Agreement]
) -> list[Sheet]:
    """Return the labels that each rater gave, and the agreement of each two raters."""
    sheets = [Sheet("Labels", ["Rater", "given", *RELATIONS])]
    for file in raters:
        counts = Counter(file.labels.values())
        given = len(file.labels)
        sheets[0].rows.append(
            [
                one_line(file.rater, 40),
                share(given, given + len(file.missing)),
                *(thousands(counts[label]) for label in RELATIONS),
            ]
        )
    if not found.pairs:
        return sheets
    pairs = Sheet(
        "Agreement of each two raters",
        ["Raters", "n", "same", "kappa", "AC1"],
        note="kappa: Cohen's; AC1: Gwet's; same: the share of equal labels; n: elements that both "
        "labelled.",
    )
    for at, pair in enumerate(found.pairs):
        both = f"{one_line(pair.first, 30)} – {one_line(pair.second, 30)}"
        if by_type:
            pairs.rows.append([both])
        named = [("all" if by_type else both, found), *by_type.items()]
        for name, of in named:
            one = of.pairs[at]
            figures = map(_number, (one.accuracy, one.kappa, one.ac1))
            pairs.rows.append([name, thousands(one.n), *figures])
    return [*sheets, pairs]


def agreement_line(found: Agreement, by_type: Mapping[ElementType, Agreement]) -> str:
    """Return how all raters agree, in a line or two."""
    if not found.pairs:
        return "One rater alone: there is no agreement to report."
    reason = f" ({found.alpha.reason})" if isinstance(found.alpha, Missing) else ""
    told = (
        f"Krippendorff's alpha (nominal): {_number(found.alpha)}{reason}, of "
        f"{thousands(found.n)} elements that two or more labelled"
    )
    if not by_type:
        return told
    each = (f"{kind} {_number(of.alpha)} of {thousands(of.n)}" for kind, of in by_type.items())
    return f"{told}\nBy type: {', '.join(each)}"


def _number(value: Value) -> str:
    return coefficient(None if isinstance(value, Missing) else value)
