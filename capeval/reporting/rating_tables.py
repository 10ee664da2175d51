"""The agreement of human raters, as tables and in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console

from capeval.rating.agreement import Agreement
from capeval.rating.merging import RatedFile
from capeval.reporting.numbers import coefficient, plain_number, share, thousands
from capeval.reporting.table import Page, Table, columns
from capeval.reporting.terminal import print_pages
from capeval.schema import RELATIONS, ElementType
from capeval.stats.calibration import FEW_LABELLED, FEWEST_LABELLED
from capeval.stats.values import Missing, Value
from capeval.text import counted, one_line
from capeval.trust.label_plan import LabelPlan


def print_agreement(
    raters: Sequence[RatedFile],
    found: Agreement,
    by_type: Mapping[ElementType, Agreement],
    console: Console,
) -> None:
    """Print how all raters agree, the labels that each gave, and the agreement of each pair."""
    given = Table("Labels", columns("Rater", "given", *RELATIONS))
    for file in raters:
        counts = Counter(file.labels.values())
        number = len(file.labels)
        labels = (thousands(counts[label]) for label in RELATIONS)
        given.rows.append(
            [one_line(file.rater, 40), share(number, number + len(file.missing)), *labels]
        )
    pairs = Table(
        "Agreement of each pair of raters",
        columns("Raters", "n", "same", "kappa", "AC1"),
        note="kappa: Cohen's; AC1: Gwet's; same: the share of equal labels; n: elements that both "
        "labelled.",
    )
    for at, pair in enumerate(found.pairs):
        both = f"{one_line(pair.first, 30)} – {one_line(pair.second, 30)}"
        if by_type:
            pairs.rows.append([both])
        for name, of in [("all" if by_type else both, found), *by_type.items()]:
            one = of.pairs[at]
            numbers = map(_number, (one.accuracy, one.kappa, one.ac1))
            pairs.rows.append([name, thousands(one.n), *numbers])
    page = Page([given, pairs] if found.pairs else [given])
    print_pages([page], console, headline=agreement_line(found, by_type))


def agreement_line(found: Agreement, by_type: Mapping[ElementType, Agreement]) -> str:
    """Return how all raters agree, in a line or two."""
    if not found.pairs:
        return "There is one rater only, so there is no agreement to report."
    reason = f" ({found.alpha.reason})" if isinstance(found.alpha, Missing) else ""
    text = (
        f"Krippendorff's alpha (nominal): {_number(found.alpha)}{reason}, over "
        f"{counted(found.n, 'element')} that two or more raters labelled"
    )
    if not by_type:
        return text
    each = (f"{kind} {_number(of.alpha)} over {thousands(of.n)}" for kind, of in by_type.items())
    return f"{text}\nBy type: {', '.join(each)}"


def plan_lines(plans: Sequence[LabelPlan]) -> list[str]:
    """Return a line for each run: how many videos to label, and what that rests on."""
    return [_plan_line(plan) for plan in plans]


def _plan_line(plan: LabelPlan) -> str:
    name = "F1" if plan.measure == "f1" else plan.measure
    goal = f"{name} within ±{plain_number(100 * plan.half_width)} points"
    run, videos = one_line(plan.run), counted(plan.videos, "judged video")
    piloted = plan.pilot >= FEWEST_LABELLED
    labelled = f"the {counted(plan.pilot, 'labelled video')} that the run has"
    if plan.fewest is None:
        basis = f"by {labelled}" if piloted else "if human scores vary as much as the judge's"
        return (
            f"{run}: {goal} cannot be reached, {basis}: human labels of all {videos} are not "
            "enough. Judge more videos, or allow more points."
        )
    fewest, likely = thousands(plan.fewest), ""
    if plan.fewest == plan.most:
        count = fewest
    else:
        if plan.likely is not None:
            likely = f", most likely {thousands(plan.likely)}"
        elif piloted:
            likely = ", most likely more than there are"
        count = f"at least {fewest}" if plan.most is None else f"{fewest} to {thousands(plan.most)}"
    alone = (
        "more than there are would be needed"
        if plan.alone is None
        else f"{thousands(plan.alone)} would be needed"
    )
    narrow = f" Label {FEW_LABELLED} to narrow it down." if plan.videos > FEW_LABELLED else ""
    basis = (
        f"from {labelled}."
        if piloted
        else "from the judge's scores alone: for a judge that explains 80% of the variance of "
        f"human scores, up to one that explains none.{narrow}"
    )
    return (
        f"{run}: {goal} needs human labels of {count} of {videos}{likely}; without the judge, "
        f"{alone}. Computed {basis}"
    )


def _number(value: Value) -> str:
    return coefficient(None if isinstance(value, Missing) else value)
