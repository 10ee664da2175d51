"""What `capeval annotate` and `capeval mcq construct` print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console

from capeval.construct.drafts import Draft
from capeval.construct.question_checks import Code, QuestionChecks, ShortcutName
from capeval.reporting.numbers import percent, share
from capeval.reporting.table import COUNT, INTERVAL, LINE, PERCENT, Page, Table, columns
from capeval.reporting.terminal import print_pages
from capeval.schema import Question
from capeval.text import counted, listed

# ---- Drafts of annotations and questions --------------------------------------------------------


def drafts_line(drafts: Sequence[Draft]) -> str:
    """Return how much was drafted."""
    events = sum(len(one.events) for one in drafts)
    elements = sum(len(one.elements) for one in drafts)
    return (
        f"{counted(len(drafts), 'video')} drafted: {counted(events, 'event')}, "
        f"{counted(elements, 'element')}."
    )


def questions_line(questions: Sequence[Question]) -> str:
    """Return how many questions were drafted, and how many use an error of a video model."""
    videos = counted(len({one.video for one in questions}), "video")
    types = Counter(str(one.tags["task_type"]) for one in questions)
    named = ", ".join(f"{name} {count}" for name, count in types.most_common())
    errors = sum("errors" in one.tags for one in questions)
    return (
        f"{counted(len(questions), 'question')} on {videos} drafted, {errors:,} with a video "
        f"model's error as an option{': ' if named else ''}{named}."
    )


# ---- Checks of questions ------------------------------------------------------------------------

_CODES: Mapping[Code, str] = {
    "key_not_entailed": "right option not entailed by the annotation",
    "distractor_entailed": "wrong option entailed by the annotation",
    "duplicate_options": "two options are the same",
    "nested_options": "an option contains another",
    "catch_all": "an option like all of the above",
}
_SHORTCUTS: Mapping[ShortcutName, str] = {
    "longest": "the longest option",
    "overlap": "most words of the question",
    "commonest": "commonest answer of the task type",
}


def print_checks(found: QuestionChecks, console: Console) -> None:
    """Print a headline, the findings, and the shortcuts."""
    findings = Table("Findings", columns("Finding", ("Questions", COUNT), ("Where", LINE)))
    for code, phrase in _CODES.items():
        of = [one for one in found.findings if one.code == code]
        where = listed(f"{one.question} ({one.options})" for one in of)
        if of:
            findings.rows.append([phrase, len({one.question for one in of}), where])
    shortcuts = Table(
        "Answers without the video",
        columns("Picks", ("Right [95%]", INTERVAL), ("Chance", PERCENT), "Beats chance"),
        note="; ".join(dict.fromkeys(one.reason for one in found.shortcuts if one.reason)),
    )
    for one in found.shortcuts:
        beats = "yes" if one.works else "no" if one.low is not None else None
        shortcuts.rows.append([_SHORTCUTS[one.name], one, one.chance, beats])
    tables = [findings, shortcuts] if findings.rows else [shortcuts]
    print_pages([Page(tables)], console, headline=checks_headline(found))


def checks_headline(found: QuestionChecks) -> str:
    """Return how many questions have findings, and which shortcuts work, in a sentence."""
    faulty = len({one.question for one in found.findings})
    working = [
        f"{_SHORTCUTS[one.name]} ({percent(one.value)}%)" for one in found.shortcuts if one.works
    ]
    chance = f"chance ({percent(found.shortcuts[0].chance)}%)"
    shortcuts = f"{listed(working)} beats {chance}" if working else f"no shortcut beats {chance}"
    return (
        f"{found.file}: {share(faulty, found.questions)} questions have findings "
        f"({share(found.checked, found.questions)} checked by {found.model}); {shortcuts}."
    )
