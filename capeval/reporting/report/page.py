"""Judged runs as one HTML page, which opens from disk and loads nothing from the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from capeval.errors import UsageError
from capeval.files.annotations import annotations_hash
from capeval.files.html_page import policy_hash, script_json
from capeval.judging.split_checks import clean
from capeval.llm.meter import Price, price_of, prices_as_of
from capeval.reporting.numbers import (
    NOTHING,
    interval,
    letter_of,
    money,
    p_value,
    percent,
    place_name,
    points_interval,
    thousands,
)
from capeval.reporting.report.charts import breakdowns, shares
from capeval.reporting.report.data import Shown, payload
from capeval.reporting.report.findings import HEADINGS, Findings, findings_of, missed_elements
from capeval.reporting.report.paired import notices, paired
from capeval.reporting.report.thumbnails import Strips
from capeval.reporting.score_tables import BASELINE_NOTE
from capeval.reporting.viewer.cards import HumanLabels, cards_of
from capeval.runs.judged_run import JudgedRun
from capeval.schema import Usage
from capeval.scoring import FEWEST, Estimate
from capeval.text import one_line

MARK = '<meta name="generator" content="capeval report">'
"""This is near the beginning of every report: only reports may be overwritten."""

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class _Cost:
    stages: tuple[tuple[str, Usage], ...]
    total: Usage
    dollars: str | None
    prices: str


@dataclass(frozen=True)
class _Head:
    """The first part of the page about a run."""

    shown: Shown
    measures: tuple[tuple[str, Estimate], ...]
    findings: Findings
    drawn: Markup
    cost: _Cost | None
    baseline: bool

    @property
    def few(self) -> bool:
        """Whether a value has no interval because there are too few videos."""
        return any(one.value is not None and one.low is None for _, one in self.measures)


def same_annotations(runs: Mapping[str, JudgedRun]) -> None:
    """Check that the runs can be in one report.

    Raises
    ------
    UsageError
        They have different annotations.
    """
    (first, one), *others = runs.items()
    for name, run in others:
        # Equal annotations need not be hashed.
        if run.annotations != one.annotations and (
            annotations_hash(run.annotations) != annotations_hash(one.annotations)
        ):
            raise UsageError(
                f"{first} and {name} have different annotations ({one.annotations_path}, "
                f"{run.annotations_path}); make a report of each, or name one file for both with "
                "--annotations"
            )


def report_html(
    runs: Mapping[str, JudgedRun],
    *,
    human: HumanLabels | None = None,
    strips: Strips | None = None,
    prices: Mapping[str, Price] | None = None,
    stale: Mapping[str, str] | None = None,
) -> str:
    """Return the page.

    Parameters
    ----------
    runs : by the names that the page gives them; differences are the later − the earlier run
    human : labels of human raters, shown beside the verdicts
    strips : frames of the videos, by index
    prices : the user's own, which override those packaged
    stale : how the stored scores of a run differ from its verdicts, by its name

    Raises
    ------
    UsageError
        The runs have different annotations.
    """
    same_annotations(runs)
    shown = [
        Shown(letter_of(place), one_line(clean(name), 120), run, tuple(cards_of(run, human)))
        for place, (name, run) in enumerate(runs.items())
    ]
    style, script = (
        (_HERE / name).read_text(encoding="utf-8") for name in ("report.css", "report.js")
    )
    heads = [_head(one, prices) for one in shown]
    page = _template().render(
        mark=Markup(MARK),  # noqa: S704 # a constant
        policy=(
            f"default-src 'none'; img-src data:; script-src {policy_hash(script)}; "
            f"style-src {policy_hash(style)}; base-uri 'none'; form-action 'none'"
        ),
        style=Markup(style),  # noqa: S704 # files of ours
        script=Markup(script),  # noqa: S704
        data=Markup(script_json(payload(shown, strips))),  # noqa: S704 # escaped for its place
        heads=heads,
        findings=_side_by_side([head.findings for head in heads]),
        notices=notices(
            shown,
            {
                letter_of(place): (stale or {})[name]
                for place, name in enumerate(runs)
                if name in (stale or {})
            },
        ),
        paired=paired(shown),
        parts=breakdowns(shown),
        place_of={card.index: place for place, card in enumerate(shown[0].cards)},
        missed=missed_elements(shown),
        several=len(shown) > 1,
        fewest=FEWEST,
        baseline_note=BASELINE_NOTE,
        note=_frames_note(strips),
    )
    return clean(page)


def _side_by_side(findings: Sequence[Findings]) -> list[tuple[str, tuple[str, ...]]]:
    """Return every heading that a run has, and the sentence of each run, "" where there is none."""
    texts = [{one.heading: one.text for one in of.sentences} for of in findings]
    return [
        (heading, tuple(of.get(heading, "") for of in texts))
        for heading in HEADINGS
        if any(heading in of for of in texts)
    ]


def _frames_note(strips: Strips | None) -> str:
    """Return a sentence if the page shows no frames."""
    if strips and any(strip.frames for strip in strips.values()):
        return ""
    return "No frames of the videos are in this report."


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "percent": percent,
        "interval": interval,
        "thousands": thousands,
        "gap": lambda gap: points_interval(gap).replace("-", "\N{MINUS SIGN}"),
        "p": p_value,
        "plain": lambda text: one_line(str(text), 300),
        "place": place_name,
        "whole": lambda text: one_line(str(text), 2000),
    }
    environment.globals["NOTHING"] = NOTHING
    return environment.get_template("report.html.jinja")


def _head(one: Shown, prices: Mapping[str, Price] | None) -> _Head:
    scores = one.run.scores
    overall = scores.overall.all
    findings = findings_of(one)
    return _Head(
        shown=one,
        measures=(
            ("F1", overall.f1),
            ("Precision", overall.precision),
            ("Recall", overall.recall),
        ),
        findings=findings,
        drawn=shares(
            f"weight-{one.letter}",
            f"{one.letter}: annotated weight by verdict",
            findings.shares,
        ),
        cost=_cost(one.run, prices),
        baseline=bool(scores.settings.get("baseline")),
    )


def _cost(run: JudgedRun, prices: Mapping[str, Price] | None) -> _Cost | None:
    usage = run.scores.usage
    if not usage:
        return None
    total = sum(usage.values(), Usage())
    model = run.identity.judge
    price = price_of(model, prices)
    return _Cost(
        stages=tuple(usage.items()),
        total=total,
        dollars=money(price.cost(total)) if price else None,
        prices=(
            "by the prices in capeval.toml"
            if prices and price_of(model, {}) != price
            else f"by the list prices of {prices_as_of()}"
        ),
    )
