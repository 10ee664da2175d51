"""The cards of judges: tables, the sentence that sums them up, and the line that scores show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from capeval.files.jsonl import dumps
from capeval.reporting.formats import Format, rendered
from capeval.reporting.numbers import (
    NOTHING,
    money,
    p_value,
    percent,
    plain_number,
    share,
    tenths,
    thousands,
)
from capeval.reporting.table import Page, Row, Table, columns
from capeval.reporting.terminal import print_line, print_pages
from capeval.schema import ELEMENT_TYPES, RELATIONS
from capeval.text import counted, listed, one_line
from capeval.trust.probe import KINDS
from capeval.trust.probe_card import HALF_WIDTHS, Card, Headline, KindResult, Rate
from capeval.trust.probe_tests import PairTest
from capeval.trust.probing_result import Probing

_BASELINE = "This judge is a baseline: a smoke test, not a measurement."
_NARROW, _WIDE = HALF_WIDTHS


def print_probing(
    found: Probing, console: Console, *, form: Format = "table", full: bool = False
) -> None:
    """Print the cards of judges.

    Parameters
    ----------
    full : also intervals by type of element, and what could not be used
    """
    if form == "table":
        print_pages(_pages(found, full=full), console, headline=probing_headline(found))
    else:
        print_line(rendered_probing(found, form, full=full), console)


def rendered_probing(found: Probing, form: Format, *, full: bool = False) -> str:
    """Return the cards as text; JSON has everything, nothing rounded."""
    if form == "json":
        return dumps(found.model_dump(mode="json"), indent=1)
    return rendered(_pages(found, full=full), form, headline=probing_headline(found))


def probing_headline(found: Probing) -> str:
    """Return the headline of a judge, or of the best of several, in a sentence."""
    cards = list(found.cards.values())
    if not cards:
        return "No judge was probed."
    best = max(cards, key=lambda card: -1.0 if card.headline.value is None else card.headline.value)
    known = best.headline.value is not None
    several = f", the highest of {counted(len(cards), 'judge')}" if len(cards) > 1 and known else ""
    return f"{one_line(best.name)}: {_value(best.headline)}{several}, {_basis(best)}."


def card_line(card: Card) -> str:
    """Return what a card says of the judge of some scores, in one line.

    It is shown with the scores, which it says nothing about.
    """
    baseline = "the baseline " if card.judge.identity.get("baseline") else ""
    return (
        f"Card of {baseline}{one_line(card.name)} (capeval probe): {_value(card.headline)}, "
        f"{_basis(card)}"
    )


def _basis(card: Card) -> str:
    """Return what a headline rests on: the videos, the worst probe, and what is unscored."""
    of = card.headline
    worst = "" if of.worst is None else f"; worst probe: {of.worst}, {percent(of.worst_value)}%"
    left = f"; {share(card.unscored, card.captions)} captions unscored" if card.unscored else ""
    return f"on probes of {counted(card.videos, 'video')}{worst}{left}"


def _value(headline: Headline) -> str:
    if headline.value is None:
        untested = [relation for relation, rate in headline.recalls.items() if not rate.n]
        return f"no headline, because no verdict of {' or '.join(untested)} was tested"
    return f"{_headline(headline, '%')} of certain verdicts right"


def failed_lines(found: Probing) -> Iterator[str]:
    """Yield a line for each judge below the headline that was required."""
    least = plain_number(100 * (found.least or 0.0))
    for name in found.failed:
        value = found.cards[name].headline.value
        is_at = "has no headline" if value is None else f"has a headline of {percent(value)}%"
        yield f"gate failed: {one_line(name)} {is_at}; --fail-under {least} requires at least that"


# ---- tables ----------------------------------------------------------------------------------


def _pages(found: Probing, *, full: bool) -> list[Page]:
    cards = list(found.cards.values())
    if not cards:
        return []
    tables = _of_one(cards[0], full=full) if len(cards) == 1 else _of_several(cards)
    if found.tests:
        tables.append(_tests(found.tests))
    several = len(cards) > 1
    return [
        Page(
            [*tables, *(table for card in cards if full for table in _unused(card, several))],
            notes=[line for card in cards for line in _notes(card, several=several)],
            warnings=[_BASELINE]
            if any(card.judge.identity.get("baseline") for card in cards)
            else [],
        )
    ]


def _lines(card: Card) -> Iterator[tuple[str, KindResult, dict[str, Rate]]]:
    """Yield each line of the card: the kind, its result, and the rates by type."""
    for kind in KINDS:
        if result := card.kinds.get(kind):
            yield kind, result, result.tested
            if result.others:
                yield f"{kind}: rest", result, result.others


def _of_one(card: Card, *, full: bool) -> list[Table]:
    rows: list[Row] = []
    by_type: list[Row] = []
    for name, result, rates in _lines(card):
        every = rates.get("all")
        rows.append(
            [
                name,
                share(every.correct, every.n) if every else NOTHING,
                _rate(every),
                tenths(every.design_effect) if every and every.design_effect else NOTHING,
                NOTHING if rates is result.others else share(result.unscored, result.captions),
                _needed(every, _NARROW),
            ]
        )
        if full or rates is result.tested:
            of_types = (_of_type(rates.get(kind), full=full) for kind in ELEMENT_TYPES)
            by_type.append([name, *of_types])
    return [
        Table(
            "Right verdicts, %",
            columns(
                *("Probe", "Right", "% [95%]", "Effect", "Unscored", f"Videos for ±{_NARROW}"),
            ),
            rows,
            "Rest: elements whose verdict must stay as it is on the unchanged caption. Effect: the "
            "design effect, by which n is divided for the interval.",
        ),
        Table(
            "Right verdicts by type of element"
            + (f", % [95%], and videos for ±{_WIDE}" if full else ""),
            columns("Probe", *(kind.title() for kind in ELEMENT_TYPES)),
            by_type,
        ),
        Table(
            "Verdicts given (columns) and right (rows)",
            columns("Right", *(f"{relation}" for relation in RELATIONS), "Recall, % [95%]"),
            [
                [
                    one,
                    *(thousands(card.confusion[one][other]) for other in RELATIONS),
                    _rate(card.headline.recalls[one]),
                ]
                for one in RELATIONS
            ],
        ),
    ]


def _of_several(cards: Sequence[Card]) -> list[Table]:
    rows: list[Row] = [["headline", *(_headline(card.headline) for card in cards)]]
    rows += [
        [f"recall of {relation}", *(_rate(card.headline.recalls[relation]) for card in cards)]
        for relation in RELATIONS
    ]
    for kind in KINDS:
        results = [card.kinds.get(kind) for card in cards]
        if any(results):
            rows.append([kind, *(_rate(one.tested.get("all") if one else None) for one in results)])
        if any(one and one.others for one in results):
            rows.append(
                [
                    f"{kind}: rest",
                    *(_rate(one.others.get("all") if one else None) for one in results),
                ]
            )
    rows.append(["repeat: same verdict", *(_rate(card.repeat) for card in cards)])
    rows.append(["unscored captions", *(share(card.unscored, card.captions) for card in cards)])
    rows.append(["cost", *(NOTHING if card.cost is None else money(card.cost) for card in cards)])
    return [
        Table(
            "Right verdicts, % [95%]",
            columns("Probe", *(one_line(card.name, 40) for card in cards)),
            rows,
        )
    ]


def _tests(tests: Sequence[PairTest]) -> Table:
    rows: list[Row] = []
    pair = None
    for test in tests:
        if (test.first, test.second) != pair:
            pair = (test.first, test.second)
            rows.append([f"A: {one_line(test.first)}, B: {one_line(test.second)}"])
        rows.append(
            [
                test.kind,
                thousands(test.n),
                thousands(test.first_only),
                thousands(test.second_only),
                p_value(test.p),
                p_value(test.p_holm),
            ]
        )
    return Table(
        "Paired tests: elements that only one judge gets right",
        columns("Probe", "n", "Only A", "Only B", "p", "p (Holm)"),
        rows,
        "p: sign flips of whole videos. Holm: adjusted for all probes and pairs.",
    )


def _unused(card: Card, several: bool) -> Iterator[Table]:
    rows: list[Row] = [
        [kind, why, thousands(count)]
        for kind, result in card.kinds.items()
        for reasons in (result.unused, result.ungraded)
        for why, count in reasons.items()
    ]
    if rows:
        of = f" by {one_line(card.name)}" if several else ""
        yield Table(
            f"What was not used, or not graded{of}",
            columns("Probe", "Why", "Number", words=2),
            rows,
        )


def _notes(card: Card, *, several: bool) -> Iterator[str]:
    name = f"{one_line(card.name)}: " if several else ""
    again = card.repeat
    if again.n:
        yield (
            f"{f'{name}judged' if several else 'Judged'} again, {percent(again.value)}% "
            f"[{percent(again.low)}, {percent(again.high)}] of {counted(again.n, 'element')} get "
            "the same verdict."
        )
    unmatched = [(kind, one.unmatched) for kind, one in card.kinds.items() if one.unmatched.n]
    if unmatched and not several:
        yield (
            "Events rightly left without a match: "
            + ", ".join(f"{kind} {share(rate.correct, rate.n)}" for kind, rate in unmatched)
            + "."
        )
    if len(card.judge.models) > 1:
        yield (
            f"{name}the endpoint answered as {listed(map(one_line, card.judge.models))}: the "
            "verdicts are of several snapshots."
        )
    tokens = card.usage.input_tokens + card.usage.output_tokens
    cost = "" if card.cost is None else f", {money(card.cost)}"
    yield (
        f"{name}{counted(card.captions, 'caption')} of {counted(card.videos, 'video')}, seed "
        f"{card.seed}, {thousands(tokens)} tokens{cost}."
    )


def _headline(headline: Headline, unit: str = "") -> str:
    if headline.value is None:
        return NOTHING
    return f"{percent(headline.value)}{unit} [{percent(headline.low)}, {percent(headline.high)}]"


def _rate(rate: Rate | None) -> str:
    if rate is None or rate.value is None:
        return NOTHING
    return f"{percent(rate.value)} [{percent(rate.low)}, {percent(rate.high)}]"


def _of_type(rate: Rate | None, *, full: bool) -> str:
    if rate is None or not rate.n:
        return NOTHING
    right = share(rate.correct, rate.n)
    return f"{right}: {_rate(rate)}, {_needed(rate, _WIDE)}" if full else right


def _needed(rate: Rate | None, width: str) -> str:
    needed = rate.videos_for.get(width) if rate else None
    return NOTHING if needed is None else thousands(needed)
