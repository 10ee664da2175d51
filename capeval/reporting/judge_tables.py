"""The known judges, as a table and one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from capeval.judging.listing import JudgeList, ListedJudge
from capeval.judging.registry import LEXICAL, NLI
from capeval.llm.judge_models import JudgeModel
from capeval.llm.prices import Price
from capeval.reporting.numbers import plain_number, thousands
from capeval.reporting.table import LINE, Column, Kind, Page, table_of
from capeval.reporting.terminal import one_screen, print_fields, print_line, print_pages
from capeval.text import counted, one_line

UNKNOWN = "unknown"


def print_judges(listed: JudgeList, console: Console, *, full: bool = False) -> None:
    """Print a headline, and a line for each judge."""
    if not listed.judges:
        print_line(judges_headline(listed), console)
        return
    page = judges_page(listed, full=full)
    pages = [page] if full else one_screen([page], lines=45)
    print_pages(pages, console, headline=judges_headline(listed))


def judges_headline(listed: JudgeList) -> str:
    """Return the first line: how long the default judge lasts, or what an endpoint offers."""
    if listed.base_url is not None:
        if not listed.judges:
            return one_line(f"{listed.base_url} lists no models.")
        known = sum(judge.entry is not None for judge in listed.judges)
        ends = [judge for judge in listed.judges if judge.days_left and not judge.is_retired]
        first = min(ends, key=lambda judge: judge.days_left or 0, default=None)
        ending = f"; the first to end is {first.name}, {_when(first)}" if first else ""
        return one_line(
            f"{listed.base_url} offers {counted(len(listed.judges), 'model')}, "
            f"{thousands(known)} of them known{ending}."
        )
    default = listed.find(listed.default)
    if default is None or default.days_left is None:
        return f"The default judge is {listed.default}; no end is announced."
    instead = default.entry.successor if default.entry else None
    advice = f"; its provider recommends {instead} instead" if instead else ""
    ends_when = f"ends {_when(default)}"
    if default.entry and default.is_retired:
        ends_when = f"was retired on {default.entry.shutdown}"
    return one_line(f"The default judge {default.name} {ends_when}{advice}.")


_AMOUNT = Kind(lambda amount: amount if isinstance(amount, str) else plain_number(amount))
"""A price, or a word where there is none: "open" for open weights, or "unknown"."""
_DAYS = Kind(lambda days: "retired" if days <= 0 else thousands(days))
_TEMPERATURES = {"accepted": "yes", "refused": "no", "unless reasoning": "if none"}


def judges_page(listed: JudgeList, *, full: bool) -> Page:
    """Return the table of judges, the retired ones only if it is to be `full`."""
    shown = [judge for judge in listed.judges if full or not judge.is_retired]
    if not full:
        # An endpoint can list hundreds of models of which nothing is known.
        shown.sort(key=_is_unknown)
    entries = [judge.entry or JudgeModel(name=judge.name) for judge in shown]
    missing = [None if judge.kind == "installed" else UNKNOWN for judge in shown]
    prices = [_prices(judge) for judge in shown]
    found: list[tuple[Column, Sequence[Any]]] = [
        (Column("Judge", words=True, kind=LINE), [judge.name for judge in shown]),
        (Column("$ in", kind=_AMOUNT), [amounts[0] for amounts in prices]),
        (Column("$ cached", kind=_AMOUNT), [amounts[1] for amounts in prices]),
        (Column("$ out", kind=_AMOUNT), [amounts[2] for amounts in prices]),
        (Column("Ends"), [entry.shutdown for entry in entries]),
        (Column("Days", kind=_DAYS), [judge.days_left for judge in shown]),
        (
            Column("Temperature", words=True),
            [
                _TEMPERATURES.get(entry.temperature or "", none)
                for entry, none in zip(entries, missing, strict=True)
            ],
        ),
        (
            Column("Reasoning", words=True),
            [_efforts(entry, none) for entry, none in zip(entries, missing, strict=True)],
        ),
    ]
    hidden = () if full else ("$ cached", "Days", "Temperature")
    table = table_of("", [one for one in found if one[0].heading not in hidden])
    return Page([table], notes=_notes(listed, shown, full=full))


def _notes(listed: JudgeList, shown: Sequence[ListedJudge], *, full: bool) -> list[str]:
    notes = []
    if retired := sum(judge.is_retired for judge in listed.judges) * (not full):
        notes.append(
            f"{counted(retired, 'retired model')}: --full. Their stored verdicts can still be "
            "scored, reported and compared."
        )
    notes.append(
        "$: US dollars per million tokens. *: used unless --reasoning names another effort."
        + (" Temperature: whether it is accepted." if full else "")
    )
    if any(judge.entry and judge.entry.serve for judge in shown):
        notes.append("open: open weights, which cost what your own server costs.")
    if any(judge.name == LEXICAL and judge.kind == "installed" for judge in shown):
        notes.append(
            f"{LEXICAL}: the baseline, which compares words. {NLI}: an NLI model that runs in this "
            "process, without an API."
        )
    notes.append("`capeval judges NAME` shows everything about one, such as how it is served.")
    return notes


def _is_unknown(judge: ListedJudge) -> bool:
    return judge.kind == "chat model" and judge.entry is None and judge.price is None


def _prices(judge: ListedJudge) -> Sequence[float | str | None]:
    if judge.price is not None:
        return [UNKNOWN if amount is None else amount for amount in _amounts(judge.price)]
    if judge.entry and judge.entry.serve:
        return ["open"] * 3
    return [None if judge.kind == "installed" else UNKNOWN] * 3


def _amounts(price: Price) -> tuple[float | None, ...]:
    return price.input, price.cached_input, price.output


def _efforts(entry: JudgeModel, missing: str | None) -> str | None:
    if not entry.efforts:
        # A model that takes a temperature at any time is documented to have no efforts.
        return None if entry.temperature == "accepted" else missing
    ends = [entry.efforts[0], entry.efforts[-1]]
    return " to ".join(f"{end}*" if end == entry.least_effort else end for end in ends)


_BUNDLED = {
    LEXICAL: "The bundled baseline: it compares words, offline and free.",
    NLI: f"A model of natural-language inference in this process, free of charge; {NLI}:MODEL "
    "names another than the default. See docs/judging.md.",
}


def print_judge(judge: ListedJudge, console: Console) -> None:
    """Print everything about one judge; what is not documented is unknown."""
    entry = judge.entry
    fields: dict[str, object] = {"judge": judge.name, "kind": judge.kind}
    if judge.price is not None:
        amounts = zip(_amounts(judge.price), ("in", "cached", "out"), strict=True)
        known = [f"${plain_number(each)} {what}" for each, what in amounts if each is not None]
        fields["price"] = f"{', '.join(known)}, per million tokens"
    elif judge.kind == "chat model":
        fields["price"] = f'unknown; add [prices."{judge.name}"] to capeval.toml'
    if entry is not None:
        fields |= {
            "ends": f"{entry.shutdown} ({_left(judge)})" if entry.shutdown else None,
            "service": None if entry.serve else "api.openai.com",
            "other names": ", ".join(entry.aliases) or None,
            "replacement": entry.replacement,
            "temperature": entry.temperature or UNKNOWN,
            "reasoning": ", ".join(entry.efforts) or None,
            "its own default": entry.default_effort or (UNKNOWN if entry.efforts else None),
            "asked for": entry.least_effort,
            "serve": entry.serve,
        }
    elif judge.kind == "installed":
        fields["note"] = _BUNDLED.get(judge.name, "A judge of an installed package.")
    print_fields(fields, console)


def _when(judge: ListedJudge) -> str:
    return f"in {_left(judge)}, on {judge.entry.shutdown if judge.entry else UNKNOWN}"


def _left(judge: ListedJudge) -> str:
    return "retired" if judge.is_retired else counted(judge.days_left or 0, "day")
