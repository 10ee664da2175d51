"""The known judges, as a table and one by one."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from capeval.judging.listing import JudgeList, ListedJudge
from capeval.judging.registry import LEXICAL, NLI
from capeval.llm.judge_models import JudgeModel
from capeval.llm.prices import Price
from capeval.reporting.numbers import NOTHING, plain_number, thousands
from capeval.reporting.table import Column, Page, Table
from capeval.reporting.terminal import print_line, print_pages
from capeval.text import counted, one_line

UNKNOWN = "unknown"

# An endpoint can list hundreds of models; these fill a screen.
_MOST_UNKNOWN = 20


def print_judges(listed: JudgeList, console: Console, *, full: bool = False) -> None:
    """Print a headline, and a line for each judge."""
    if listed.judges:
        print_pages([judges_page(listed, full=full)], console, headline=judges_headline(listed))
    else:
        print_line(judges_headline(listed), console)


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
    return one_line(f"The default judge {default.name} {_ends(default)}{advice}.")


def judges_page(listed: JudgeList, *, full: bool) -> Page:
    """Return the table of judges, the retired ones only if it is to be `full`."""
    shown = [judge for judge in listed.judges if full or not judge.is_retired]
    notes = []
    unknown = [judge for judge in shown if _is_unknown(judge)]
    most = 0 if len(unknown) < len(shown) else _MOST_UNKNOWN
    if not full and (dropped := unknown[most:]):
        names = {judge.name for judge in dropped}
        shown = [judge for judge in shown if judge.name not in names]
        notes.append(f"{counted(len(dropped), 'more unknown model')}: --full.")
    if retired := sum(judge.is_retired for judge in listed.judges) * (not full):
        notes.append(
            f"{counted(retired, 'retired model')}: --full. Stored verdicts of them are scored, "
            "reported and compared as before."
        )
    notes.append(
        "$: US dollars per million tokens. *: asked for without --reasoning."
        + (" Temperature: whether it is accepted." if full else "")
    )
    if any(judge.entry and judge.entry.serve for judge in shown):
        notes.append("open: open weights, at the price of your own server.")
    if any(judge.name == LEXICAL and judge.kind == "installed" for judge in shown):
        notes.append(
            f"{LEXICAL}: the baseline, which compares words. {NLI}: an NLI model in this process, "
            "without an API."
        )
    notes.append("`capeval judges NAME` shows everything about one, such as how it is served.")
    table = Table(
        "",
        [
            Column("Judge", words=True),
            Column("$ in"),
            *([Column("$ cached")] if full else []),
            *map(Column, ("$ out", "Ends")),
            *([Column("Days"), Column("Temperature", words=True)] if full else []),
            Column("Reasoning", words=True),
        ],
        [_row(judge, full=full) for judge in shown],
    )
    return Page([table], notes=notes)


def _is_unknown(judge: ListedJudge) -> bool:
    return judge.kind == "chat model" and judge.entry is None and judge.price is None


def _row(judge: ListedJudge, *, full: bool) -> Sequence[str]:
    entry = judge.entry or JudgeModel(name=judge.name)
    missing = NOTHING if judge.kind == "installed" else UNKNOWN
    prices = [missing] * 3
    if entry.serve:
        prices = ["open"] * 3
    if judge.price is not None:
        prices = [UNKNOWN if each is None else plain_number(each) for each in _amounts(judge.price)]
    days = NOTHING if judge.days_left is None else thousands(judge.days_left)
    words = {"accepted": "yes", "refused": "no", "unless reasoning": "if none"}
    temperature = words.get(entry.temperature or "", missing)
    return [
        one_line(judge.name),
        *(prices if full else prices[::2]),
        str(entry.shutdown or NOTHING),
        *(["retired" if judge.is_retired else days, temperature] if full else []),
        _efforts(entry, missing),
    ]


def _amounts(price: Price) -> tuple[float | None, ...]:
    return price.input, price.cached_input, price.output


def _efforts(entry: JudgeModel, missing: str) -> str:
    if not entry.efforts:
        # A model that takes a temperature at any time is documented to have no efforts.
        return NOTHING if entry.temperature == "accepted" else missing
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
    for field, value in fields.items():
        if value is not None:
            print_line(one_line(f"{field}: {value}", 2000), console)


def _ends(judge: ListedJudge) -> str:
    if judge.entry and judge.is_retired:
        return f"was retired on {judge.entry.shutdown}"
    return f"ends {_when(judge)}"


def _when(judge: ListedJudge) -> str:
    return f"in {_left(judge)}, on {judge.entry.shutdown if judge.entry else UNKNOWN}"


def _left(judge: ListedJudge) -> str:
    return "retired" if judge.is_retired else counted(judge.days_left or 0, "day")
