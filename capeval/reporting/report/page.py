"""Judged runs as one page that opens from disk and loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from capeval.errors import UsageError
from capeval.files.annotations import annotations_hash
from capeval.judging.split_checks import clean
from capeval.llm.meter import Price, price_of, prices_as_of
from capeval.reporting.numbers import (
    NOTHING,
    interval,
    money,
    p_value,
    percent,
    points_interval,
    thousands,
)
from capeval.reporting.report.breakdowns import breakdowns
from capeval.reporting.report.charts import place_name, shares
from capeval.reporting.report.data import Shown, embedded, letter_of, payload
from capeval.reporting.report.findings import HEADINGS, Findings, findings_of, missed_elements
from capeval.reporting.report.notices import notices
from capeval.reporting.report.paired import paired
from capeval.reporting.report.thumbnails import Strips
from capeval.reporting.score_tables import BASELINE_NOTE
from capeval.reporting.viewer.cards import HumanLabels, cards_of
from capeval.runs.judged_run import JudgedRun
from capeval.schema import Usage
from capeval.scoring import FEWEST, Estimate
from capeval.text import one_line

MARK = '<meta name="generator" content="capeval report">'
"""Stands near the beginning of every report: only a report is written over."""

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class _Cost:
    stages: tuple[tuple[str, Usage], ...]
    total: Usage
    dollars: str | None
    prices: str


@dataclass(frozen=True)
class _Head:
    """What stands first about a run."""

    shown: Shown
    measures: tuple[tuple[str, Estimate], ...]
    findings: Findings
    drawn: Markup
    cost: _Cost | None
    baseline: bool

    @property
    def few(self) -> bool:
        """Whether there are values without intervals, for which there are too few videos."""
        return any(one.value is not None and one.low is None for _, one in self.measures)


def same_annotations(runs: Mapping[str, JudgedRun]) -> None:
    """Check that the runs can stand in one report.

    Raises
    ------
    UsageError
        They are held against different annotations.
    """
    (first, held), *others = runs.items()
    for name, run in others:
        # What is equal need not be hashed.
        if run.annotations != held.annotations and (
            annotations_hash(run.annotations) != annotations_hash(held.annotations)
        ):
            raise UsageError(
                f"{first} and {name} are held against different annotations "
                f"({held.annotations_path}, {run.annotations_path}); report them apart, or name "
                "one file for both with --annotations"
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
    runs : by the names that the page gives them; differences are the later less the earlier
    human : labels of people, shown beside the verdicts
    strips : frames of the videos, by index
    prices : the user's own, before those packaged
    stale : in what the stored scores of a run differ from its verdicts, by its name

    Raises
    ------
    UsageError
        The runs are held against different annotations.
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
            f"default-src 'none'; img-src data:; script-src {_digest(script)}; "
            f"style-src {_digest(style)}; base-uri 'none'; form-action 'none'"
        ),
        style=Markup(style),  # noqa: S704 # files of ours
        script=Markup(script),  # noqa: S704
        data=Markup(embedded(payload(shown, strips))),  # noqa: S704 # escaped for its place
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
    """Return every heading that any run has, and the sentence of each run, "" where it has none."""
    told = [{one.heading: one.text for one in of.sentences} for of in findings]
    return [
        (heading, tuple(of.get(heading, "") for of in told))
        for heading in HEADINGS
        if any(heading in of for of in told)
    ]


def _frames_note(strips: Strips | None) -> str:
    """Say that no frames are shown, where that is so."""
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


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


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
            f"{one.letter}: what became of the annotated weight",
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
    model = run.maker.judge
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
