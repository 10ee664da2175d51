"""What `capeval annotate` and `capeval mcq construct` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from capeval.construct.drafts import Draft
from capeval.construct.question_checks import Code, QuestionChecks, Shortcut
from capeval.reporting.numbers import percent, share
from capeval.reporting.table import COUNT, INTERVAL, LINE, PERCENT, Page, Table, columns
from capeval.reporting.terminal import print_pages
from capeval.schema import Question
from capeval.text import counted, listed


def drafts_line(drafts: Sequence[Draft]) -> str:
    """Return how much was drafted."""
    events = counted(sum(len(one.events) for one in drafts), "event")
    elements = counted(sum(len(one.elements) for one in drafts), "element")
    return f"{counted(len(drafts), 'video')} drafted: {events}, {elements}."


def questions_line(questions: Sequence[Question]) -> str:
    """Return how many questions were drafted, and how many use an error of a video model."""
    videos = counted(len({one.video for one in questions}), "video")
    errors = sum("errors" in one.tags for one in questions)
    return (
        f"{counted(len(questions), 'question')} about {videos} drafted, {errors:,} with a video "
        "model's error as an option."
    )


_CODES: Mapping[Code, str] = {
    "key_not_entailed": "right option not entailed by the annotation",
    "distractor_entailed": "wrong option entailed by the annotation",
    "duplicate_options": "two options are the same",
    "nested_options": "an option contains another",
    "catch_all": "an option like all of the above",
}
_SHORTCUTS = {
    "longest": "the longest option",
    "overlap": "most words of the question",
    "commonest": "commonest answer of the task type",
}


def print_checks(found: QuestionChecks, console: Console) -> None:
    """Print a headline, the findings, and the shortcuts."""
    findings = Table("Findings", columns("Finding", ("Questions", COUNT), ("Where", LINE)))
    for code, phrase in _CODES.items():
        if of := [one for one in found.findings if one.code == code]:
            where = listed(f"{one.question} ({one.options})" for one in of)
            findings.rows.append([phrase, len({one.question for one in of}), where])
    shortcuts = Table(
        "Answers without the video",
        columns("Picks", ("Right [95%]", INTERVAL), ("Chance", PERCENT), "Beats chance"),
        [[_SHORTCUTS[one.name], one, one.chance, _beats(one)] for one in found.shortcuts],
        "; ".join(dict.fromkeys(one.reason for one in found.shortcuts if one.reason)),
    )
    tables = [findings, shortcuts] if findings.rows else [shortcuts]
    print_pages([Page(tables)], console, headline=_headline(found))


def _beats(one: Shortcut) -> str | None:
    return None if one.low is None else "yes" if one.works else "no"


def _headline(found: QuestionChecks) -> str:
    faulty = share(len({one.question for one in found.findings}), found.questions)
    works = [
        f"{_SHORTCUTS[one.name]} ({percent(one.value)}%)" for one in found.shortcuts if one.works
    ]
    return (
        f"{found.file}: {faulty} questions have findings "
        f"({share(found.checked, found.questions)} checked by {found.model}); "
        f"{listed(works) if works else 'no shortcut'} beats chance "
        f"({percent(found.shortcuts[0].chance)}%)."
    )
