"""Judged runs as one HTML page, which opens from disk and loads nothing but the videos."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

from markupsafe import Markup

from capeval.comparing.compare import compare_judged
from capeval.comparing.comparison import Comparison, Contender, Difference, PairDifference
from capeval.comparing.sections import LEAST_SCORED
from capeval.files.jsonl import collection_paused
from capeval.llm.money import Price, list_price, price_of
from capeval.reporting.figures import breakdowns
from capeval.reporting.findings import findings_of, missed_elements
from capeval.reporting.inspect import LABELS, VideoCard, card_of, named_label
from capeval.schema import (
    CHARACTERISTICS,
    ELEMENT_TYPES,
    RELATIONS,
    Annotation,
    HumanLabel,
    Relation,
    Usage,
    Weight,
)
from capeval.scoring.counts import GROUPS
from capeval.scoring.judged_run import JudgedRun
from capeval.scoring.scores import BASELINE_NOTE, FEW_VIDEOS_NOTE, VideoScore, is_narrow
from capeval.scoring.verdicts import unlikeness
from capeval.show.numbers import (
    NOTHING,
    hundredths,
    interval,
    letter_of,
    money,
    p_value,
    percent,
    place_name,
    plain_number,
    points,
    tenths,
    thousands,
    with_ends,
)
from capeval.show.page import page_html
from capeval.stats.values import FEWEST_VIDEOS
from capeval.text import one_line, storable

MARK = '<meta name="generator" content="capeval report">'
"""This is near the beginning of every report: only reports may be overwritten."""

_HERE = Path(__file__).parent
_FORMATS: Mapping[str, Callable[..., str]] = {
    "percent": percent,
    "interval": interval,
    "thousands": thousands,
    "hundredths": hundredths,
    "tenths": tenths,
    "label": named_label,
    "gap": lambda gap: with_ends(points, gap).replace("-", "\N{MINUS SIGN}"),
    "p": p_value,
    "plain": lambda text: one_line(str(text), 300),
    "place": place_name,
    "width": lambda share: f"w{round(200 * share)}",
    "letter": letter_of,
    "whole": lambda text: one_line(str(text), 2000),
}
# The page's policy forbids style attributes: the width of a bar, in half percents, is a class.
_WIDTHS = "".join(f".w{half}{{width:{half / 2}%}}" for half in range(201))


HumanLabels = Mapping[tuple[str, str | None], Mapping[str, Mapping[str, HumanLabel]]]
"""By (video, system or None), then element id, then rater."""

LETTERS: Mapping[HumanLabel, str] = {
    "entailment": "e",
    "lack": "l",
    "contradiction": "c",
    "covered": "y",
    "not covered": "n",
}


Strip = str | list[tuple[float, str]]
"""Frames of a video, each with its seconds and a WebP in base64; or why there are none."""

Strips = Mapping[str, Strip]
"""By index."""


@dataclass(frozen=True)
class ReportedRun:
    """A run with its letter and name in the report."""

    letter: str
    name: str
    run: JudgedRun


@collection_paused()
def report_html(
    runs: Mapping[str, JudgedRun],
    *,
    human: HumanLabels | None = None,
    strips: Strips | None = None,
    urls: Mapping[str, str] | None = None,
    prices: Mapping[str, Price] | None = None,
    known: Sequence[str] = (),
) -> str:
    """Return the page of runs of the same annotations, by the names that it gives them.

    Differences are the later − the earlier run. The user's own `prices` override those packaged.
    `known` has a line about the judge of each run.
    """
    shown = [
        ReportedRun(letter_of(place), one_line(storable(name), 120), run)
        for place, (name, run) in enumerate(runs.items())
    ]
    heads = [_head(one, prices) for one in shown]
    texts: list[Mapping[str, str]] = [head["findings"].sentences for head in heads]
    has_frames = any(not isinstance(strip, str) for strip in (strips or {}).values())
    differences = _paired(shown)
    overall = [one.run.scores.overall.all for one in shown]
    narrow = any(is_narrow(of.f1, of.n) for of in overall)
    narrow = narrow or bool(differences and differences.get("narrow"))
    data = payload(shown, human, strips, urls)
    page = page_html(
        _HERE / "report.html.jinja",
        data,
        *("report.css", "report.js"),
        extends=False,
        embeds=True,
        style=_WIDTHS,
        formats=_FORMATS,
        known=known,
        mark=Markup(MARK),  # noqa: S704 # a constant
        NOTHING=NOTHING,
        filters=_filters(data),
        heads=heads,
        # Every heading that a run has, and the sentence of each run, "" where there is none.
        findings=[
            (heading, [of[heading] for of in texts])
            for heading in texts[0]
            if any(of[heading] for of in texts)
        ],
        notices=notices(shown),
        paired=differences,
        few_videos_note=FEW_VIDEOS_NOTE if narrow else "",
        # Letters keep names apart: two that are shown alike may be different runs.
        grids=[
            grid
            for grid in breakdowns({f"{one.letter} {one.name}": one.run for one in shown}).values()
            if not grid.empty
        ],
        place_of={one.index: place for place, one in enumerate(shown[0].run.annotations)},
        missed=missed_elements([one.run for one in shown]),
        several=len(shown) > 1,
        fewest=FEWEST_VIDEOS,
        baseline_note=BASELINE_NOTE,
        note="" if has_frames else "No frames of the videos are in this report.",
    )
    return storable(page)


def _filters(data: Mapping[str, Any]) -> list[tuple[str, str, list[tuple[Any, str]]]]:
    """Return the label, name and options of each filter of the lists.

    Verdicts, labels and notes are those of the last run shown; it is compared with the first.
    """
    judged = [run for video in data["videos"] for run in video["runs"]]
    several, repeats = len(data["runs"]) > 1, any("votes" in run for run in judged)
    among = [
        ("differ", "runs differ", several),
        ("gained", "gained since the first run", several),
        ("lost", "lost since the first run", several),
        ("unmatched", "of unmatched events", True),
        ("unsteady", "repeats differ", repeats),
        ("labelled", "labelled by human raters", data["labelled"]),
        ("disputed", "human raters differ", data["labelled"]),
    ]
    videos = [
        ("scored", "scored"),
        ("unscored", "unscored"),
        ("uncaptioned", "without a caption or verdict"),
        ("notes", "with notes"),
        ("loose", "with unmatched caption events"),
    ]
    used = {place for video in data["videos"] for place in video.get("kinds", ())}
    kinds = [name for place, name in enumerate(data["characteristics"]) if place in used]
    return [
        ("Type", "type", [(name, name) for name in data["types"]]),
        ("Weight", "weight", [(weight, str(weight)) for weight in get_args(Weight)[::-1]]),
        ("Verdict", "verdict", [(LETTERS[one], named_label(one)) for one in RELATIONS]),
        ("Elements", "among", [(name, text) for name, text, there in among if there]),
        ("Videos", "only", videos),
        ("Characteristic", "kind", [(name, name) for name in kinds]),
        ("Domain", "domain", list(enumerate(data["domains"]))),
    ]


def _head(one: ReportedRun, prices: Mapping[str, Price] | None) -> dict[str, Any]:
    scores, overall = one.run.scores, one.run.scores.overall.all
    measures = {"F1": overall.f1, "Precision": overall.precision, "Recall": overall.recall}
    return {
        "shown": one,
        "measures": measures,
        # Whether a value has no interval because there are too few videos.
        "few": any(of.value is not None and of.low is None for of in measures.values()),
        "findings": findings_of(one.run),
        "cost": _cost(one.run, prices),
        "baseline": bool(scores.settings.get("baseline")),
    }


def _cost(run: JudgedRun, prices: Mapping[str, Price] | None) -> dict[str, Any] | None:
    usage = run.scores.usage
    if not usage:
        return None
    total = sum(usage.values(), Usage())
    model = run.identity.judge
    price = price_of(model, prices)
    return {
        "stages": usage,
        "total": total,
        "dollars": money(price.cost(total)) if price else None,
        "prices": "by the list prices"
        if price == list_price(model)
        else "by the prices in capeval.toml",
    }


def _paired(shown: Sequence[ReportedRun]) -> dict[str, Any] | None:
    if len(shown) < 2:
        return None
    runs = {one.letter: one.run for one in shown}
    if unlike := unlikeness({letter: run.signature for letter, run in runs.items()}):
        return {"why": f"they were not measured in the same way: {'; '.join(unlike)}"}
    if not set.intersection(*({*run.scored} for run in runs.values())):
        return {"why": "no video is scored in all of them"}
    found = compare_judged(runs)
    gaps: list[tuple[Difference | PairDifference, int]]
    tables: dict[str, list[tuple[str, Difference, int]]] = {}
    ranks: list[tuple[Contender, str]] = []
    if isinstance(found, Comparison):
        overall = found.overall
        measures = {"Precision": "precision", "Recall": "recall", "F1": "f1"}
        types = {name: getattr(overall, name) for name in ELEMENT_TYPES}
        tables = {
            "All elements": [
                (name, getattr(overall.all, measure), overall.all.n)
                for name, measure in measures.items()
            ],
            "F1 by type": [(name, of.f1, of.n) for name, of in types.items() if of.n],
        }
        gaps = [(of, n) for rows in tables.values() for _, of, n in rows]
    else:
        names = {one.letter: one.name for one in shown}
        # A stable sort: of equals, the one named first.
        ranks = [(run, names[run.name]) for run in sorted(found.runs, key=lambda run: -run.f1)]
        gaps = [(pair, found.paired) for pair in found.pairs]
    return {
        "why": "",
        "videos": found.paired,
        "tables": tables,
        "ranks": ranks,
        "pairs": getattr(found, "pairs", ()),
        # Whether a difference has no interval, or one that may be too narrow.
        "few": any(of.value is not None and of.low is None for of, _ in gaps),
        "narrow": any(is_narrow(of, n) for of, n in gaps),
    }


def notices(shown: Sequence[ReportedRun]) -> list[str]:
    """Return a sentence for each caveat to read before the numbers."""
    several = len(shown) > 1
    found = []
    scored = {one.letter: {*one.run.scored} & {*one.run.annotated} for one in shown}
    if len({frozenset(indexes) for indexes in scored.values()}) > 1:
        each = ", ".join(f"{letter} {thousands(len(of))}" for letter, of in scored.items())
        common = len(set.intersection(*scored.values()))
        found.append(
            f"The runs were scored on different sets of videos ({each}; {thousands(common)} in all "
            "of them): only the paired differences are over the same videos, not the scores, "
            "charts and findings."
        )
    for one in shown:
        counts = one.run.scores.counts
        who = f"{one.letter} is" if several else "This run is"
        if counts.annotated and counts.scored < LEAST_SCORED * counts.annotated:
            found.append(
                f"{who} scored on {thousands(counts.scored)} of {thousands(counts.annotated)} "
                f"annotated videos ({percent(counts.scored / counts.annotated)}%), less than "
                f"{plain_number(100 * LEAST_SCORED)}%: this is not a score of the whole set."
            )
    return found


# ---- The data of the page's script -------------------------------------------------------------

# Every video with the results of each run, in few bytes. The layout, which `report.js` reads:
#
#     {"types": [...], "characteristics": [...], "domains": [...], "raters": [...],
#      "labels": {letter: [sign, word]}, "runs": [{"letter", "name"}],
#      "labelled": whether human labels are shown,
#      "videos": [{"index", "file", "kinds": [place in characteristics], "domain": place or null,
#                  "url": of the video, relative to the page or with its data,
#                  "events": [[sentence, [[content, place in types, weight], ...],
#                              start in seconds, where known], ...],
#                  "frames": [[seconds, WebP in base64], ...] or why there are none,
#                  "gaps": {letters of two runs: [later − earlier in points of F1, or null, for all
#                                                 elements and for each type]},
#                  "runs": [{"status", "reason", "caption", "candidate_events": [...],
#                            "matches": [...],
#                            "scores": [[entailed, contradicted, total, precision, recall, f1]
#                                       or null, for all elements and for each type],
#                            "verdicts": "ecl...", "votes": ["ecl...", ...], "notes": [...],
#                            "human": [[element, place in raters, label, 1 if the verdict differs],
#                                      ...]}]}]}
#
# Elements are counted over all events from 0. A verdict is a letter: e(ntailed), l(acking),
# c(ontradicted); a human label may also be y (covered) or n (not covered). Counts are numbers;
# seconds, measures and gaps are rounded texts, since the script rounds nothing. Empty fields are
# left out.


def payload(
    shown: Sequence[ReportedRun],
    human: HumanLabels | None = None,
    strips: Strips | None = None,
    urls: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    runs = {one.letter: one.run for one in shown}
    annotations = shown[0].run.annotations
    domains = sorted({one.domain for one in annotations if one.domain})
    raters = sorted(
        {
            rater
            for run in runs.values()
            for one in annotations
            for element, labels in labels_of(human, run, one.index).items()
            if element in one.elements
            for rater in labels
        }
    )
    return {
        "types": list(ELEMENT_TYPES),
        "characteristics": list(CHARACTERISTICS),
        "domains": domains,
        "raters": raters,
        "labels": {letter: list(LABELS[label]) for label, letter in LETTERS.items()},
        "labelled": bool(raters),
        "runs": [{"letter": one.letter, "name": one.name} for one in shown],
        "videos": [
            _full(
                **_video(one, (strips or {}).get(one.index, []), (urls or {}).get(one.index)),
                domain=domains.index(one.domain) if one.domain else None,
                gaps=_gaps(runs, one.index),
                runs=[
                    _judged(card_of(run, one), labels_of(human, run, one.index), raters)
                    for run in runs.values()
                ],
            )
            for one in annotations
        ],
    }


def _video(annotation: Annotation, strip: Strip, url: str | None) -> dict[str, Any]:
    events = [
        [
            event.event,
            [[e.content, ELEMENT_TYPES.index(e.type), e.weight] for e in event.visual_elements],
            *([] if event.start is None else [event.start]),
        ]
        for event in annotation.events
    ]
    return {
        "index": annotation.index,
        "file": annotation.video if annotation.video != annotation.index else None,
        "url": url,
        "kinds": [CHARACTERISTICS.index(name) for name in annotation.visual_characteristic],
        "events": events,
        "frames": strip if isinstance(strip, str) else [[tenths(at), webp] for at, webp in strip],
    }


def _gaps(runs: Mapping[str, JudgedRun], index: str) -> dict[str, list[str | None]]:
    scores = {letter: run.scores.videos.get(index, {}) for letter, run in runs.items()}
    return {
        first + second: [
            points(scores[second][group].f1 - scores[first][group].f1)
            if group in scores[first] and group in scores[second]
            else None
            for group in GROUPS
        ]
        for first, second in combinations(runs, 2)
    }


def differs(label: HumanLabel, relation: Relation | None) -> bool:
    """Return whether a human label differs from a verdict, on the scale of the label."""
    covered = "covered" if relation == "entailment" else "not covered"
    return relation is not None and label not in (relation, covered)


def labels_of(
    human: HumanLabels | None, run: JudgedRun, index: str
) -> Mapping[str, Mapping[str, HumanLabel]]:
    """Return the human labels of one video by element id, then by rater.

    In human files, the system is the run's name or the captions' model.
    """
    systems = ((human or {}).get((index, system)) for system in (run.name, run.model, None))
    return next(filter(None, systems), {})


def _judged(
    card: VideoCard, human: Mapping[str, Mapping[str, HumanLabel]], raters: Sequence[str]
) -> dict[str, Any]:
    names = ("status", "reason", "caption", "notes", "candidate_events", "matches")
    fields: dict[str, Any] = {name: getattr(card, name) for name in names}
    elements = card.elements
    if scores := card.scores:
        votes = zip(*(one.votes for one in elements), strict=True)
        fields |= {
            "scores": [_numbers(scores[group]) if group in scores else None for group in GROUPS],
            "verdicts": "".join(LETTERS[one.relation] for one in elements if one.relation),
            "votes": ["".join(LETTERS[label] for label in of_repeat) for of_repeat in votes],
            "why": [
                [place, one.explanation] for place, one in enumerate(elements) if one.explanation
            ],
        }
    fields["human"] = [
        [place, raters.index(rater), LETTERS[label], int(differs(label, one.relation))]
        for place, one in enumerate(elements)
        for rater, label in sorted(human.get(one.id, {}).items())
    ]
    return _full(**fields)


def _numbers(one: VideoScore) -> list[int | str]:
    measures = (one.precision, one.recall, one.f1)
    return [one.entailed, one.contradicted, one.total, *map(percent, measures)]


def _full(**fields: Any) -> dict[str, Any]:
    # An empty caption counts; a missing one does not.
    return {name: value for name, value in fields.items() if value not in (None, [], {}, ())}
