"""The catalogue of judges, as a table and one by one."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from capeval.judging.listing import JudgeList, ListedJudge
from capeval.judging.registry import LEXICAL, NLI
from capeval.judging.retirement import successor
from capeval.llm.judge_models import JudgeModel
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
            f"{thousands(known)} of them in the catalogue{ending}."
        )
    default = listed.find(listed.default)
    if default is None or default.days_left is None:
        return f"The default judge is {listed.default}; no end is announced."
    catalogue = {judge.name: judge.entry for judge in listed.judges if judge.entry}
    instead = successor(default.name, catalogue, listed.today)
    advice = f"; its provider recommends {instead} instead" if instead else ""
    return one_line(f"The default judge {default.name} {_ends(default)}{advice}.")


def judges_page(listed: JudgeList, *, full: bool, title: str = "") -> Page:
    """Return the table of judges, the retired ones only if it is to be `full`."""
    shown = [judge for judge in listed.judges if full or not judge.is_retired]
    notes = []
    unknown = [judge for judge in shown if judge.is_unknown]
    most = 0 if len(unknown) < len(shown) else _MOST_UNKNOWN
    if not full and (dropped := unknown[most:]):
        names = {judge.name for judge in dropped}
        shown = [judge for judge in shown if judge.name not in names]
        notes.append(f"{counted(len(dropped), 'more model')}, unknown to the catalogue: --full.")
    if retired := sum(judge.is_retired for judge in listed.judges) * (not full):
        notes.append(
            f"{counted(retired, 'retired model')}: --full. Stored verdicts of them are scored, "
            "reported and compared as before."
        )
    days = sorted(str(j.entry.priced_on) for j in shown if j.entry and j.entry.priced_on)
    if days:
        notes.append(
            f"$: US dollars per million tokens, as documented between {days[0]} and {days[-1]}. "
            "Temperature: whether it is accepted. *: asked for without --reasoning."
        )
    if any(judge.entry and judge.entry.open_weights for judge in shown):
        notes.append("open: open weights; what your own server costs is not in the catalogue.")
    if any(judge.name == LEXICAL and judge.kind == "installed" for judge in shown):
        notes.append(
            f"{LEXICAL}: the baseline, which compares words. {NLI}: an NLI model in this process, "
            "without an API."
        )
    notes.append("`capeval judges NAME` shows everything about one, such as how it is served.")
    table = Table(
        title,
        [
            Column("Judge", words=True),
            Column("$ in"),
            *([Column("$ cached")] if full else []),
            *map(Column, ("$ out", "Context", "Ends", "Days")),
            Column("Temperature", words=True),
            Column("Reasoning", words=True),
        ],
        [_row(judge, full=full) for judge in shown],
    )
    return Page([table], notes=notes)


def _row(judge: ListedJudge, *, full: bool) -> Sequence[str]:
    entry, name = judge.entry, one_line(judge.name)
    ends = str(judge.shutdown) if judge.shutdown else NOTHING
    days = NOTHING if judge.days_left is None else thousands(judge.days_left)
    if judge.is_retired:
        days = "retired"
    if entry is None:
        price = [NOTHING if judge.kind == "installed" else UNKNOWN] * (3 if full else 2)
        if judge.kind == "installed":
            return [name, *price, NOTHING, ends, days, NOTHING, NOTHING]
        return [name, *price, UNKNOWN, ends, days, UNKNOWN, UNKNOWN]
    context = UNKNOWN if entry.context is None else thousands(entry.context)
    temperature = {"accepted": "yes", "refused": "no", "unless reasoning": "if none"}
    return [
        name,
        *(_prices(entry) if full else _prices(entry)[::2]),
        context,
        ends,
        days,
        temperature.get(entry.temperature or "", UNKNOWN),
        _efforts(entry),
    ]


def _prices(entry: JudgeModel) -> list[str]:
    price = entry.price
    if price is None:
        return ["open" if entry.open_weights else UNKNOWN] * 3
    cached = UNKNOWN if price.cached_input is None else plain_number(price.cached_input)
    return [plain_number(price.input), cached, plain_number(price.output)]


def _efforts(entry: JudgeModel) -> str:
    if not entry.efforts:
        # A model that takes a temperature at any time is documented to have no efforts.
        return NOTHING if entry.temperature == "accepted" else UNKNOWN
    ends = [entry.efforts[0], entry.efforts[-1]]
    return " to ".join(f"{end}*" if end == entry.least_effort else end for end in ends)


_BUNDLED = {
    LEXICAL: "The bundled baseline: it compares words, offline and free.",
    NLI: f"A model of natural-language inference in this process, free of charge; {NLI}:MODEL "
    "names another than the default. See docs/judging-nli.md.",
}


def print_judge(judge: ListedJudge, console: Console) -> None:
    """Print everything about one judge; what is not documented is unknown."""
    entry = judge.entry
    fields: dict[str, object] = {"judge": judge.name, "kind": judge.kind}
    if judge.shutdown is not None:
        fields["ends"] = f"{judge.shutdown} ({_left(judge)})"
    if entry is not None:
        fields |= {
            "service": "api.openai.com" if entry.provider else None,
            "aliases": ", ".join(entry.aliases) or None,
            "snapshot": entry.snapshot,
            "price": _price(entry),
            "announced": entry.announced,
            "replacement": entry.replacement,
            "context": UNKNOWN if entry.context is None else f"{thousands(entry.context)} tokens",
            "structured output": entry.structured_output or UNKNOWN,
            "temperature": entry.temperature or UNKNOWN,
            "seed": {True: "accepted", False: "refused", None: UNKNOWN}[entry.seed],
            "reasoning": ", ".join(entry.efforts) or None,
            "its own default": entry.default_effort or (UNKNOWN if entry.efforts else None),
            "asked for": entry.least_effort,
            "weights": "open" if entry.open_weights else None,
            "serve": entry.serve,
            "note": entry.note,
        }
    elif judge.kind == "installed":
        fields["note"] = _BUNDLED.get(judge.name, "A judge of an installed package.")
    else:
        fields["note"] = (
            "Not in the catalogue. To add its price and last day, write "
            f'[judges."{judge.name}"] into capeval.toml.'
        )
    for field, value in fields.items():
        if value is not None:
            print_line(one_line(f"{field}: {value}", 2000), console)


def _price(entry: JudgeModel) -> str:
    if entry.price is None:
        return UNKNOWN
    amounts = {
        "in": entry.price.input,
        "cached": entry.price.cached_input,
        "out": entry.price.output,
    }
    known = [f"${plain_number(each)} {what}" for what, each in amounts.items() if each is not None]
    day = f", as documented on {entry.priced_on}" if entry.priced_on else ""
    return f"{', '.join(known)}, per million tokens{day}"


def _ends(judge: ListedJudge) -> str:
    if judge.is_retired:
        return f"was retired on {judge.shutdown}"
    return f"ends {_when(judge)}"


def _when(judge: ListedJudge) -> str:
    return f"in {_left(judge)}, on {judge.shutdown}"


def _left(judge: ListedJudge) -> str:
    return "retired" if judge.is_retired else counted(judge.days_left or 0, "day")
