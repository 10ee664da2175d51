"""What `capeval annotate` and `capeval mcq construct` print, in the order of the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from capeval.construct.annotation_agreement import AnnotatorAgreement
from capeval.construct.drafts import Draft
from capeval.construct.question_checks import PHRASES, QuestionChecks, Shortcut
from capeval.construct.question_filter import CONDITIONS, FRAMES, Filtered
from capeval.construct.video_filter import VideoRow
from capeval.schema import Question
from capeval.show.numbers import bounded, interval, percent, tenths, thousands
from capeval.show.table import (
    BOUNDED,
    COUNT,
    INTERVAL,
    LINE,
    PERCENT,
    Column,
    Page,
    Table,
    columns,
)
from capeval.show.terminal import one_screen, print_pages
from capeval.stats.values import Coefficient
from capeval.text import counted, listed

# ---- Annotations ---------------------------------------------------------------------------------

_LIMITS = {"low-resolution": " (--min-side)", "too-long": " (--max-seconds)"}


def print_video_filter(rows: Sequence[VideoRow], console: Console) -> None:
    """Print how many videos are kept, and those that are not, each with its reasons."""
    reasons = Counter(reason for row in rows if not row.keep for reason in row.reasons)
    if by_hand := sum(row.by_hand for row in rows):
        reasons["decided by hand"] = by_hand
    kept = f"{thousands(sum(row.keep for row in rows))} of {counted(len(rows), 'video')} kept"
    found = [
        f"{thousands(count)} {_spoken(reason)}{_LIMITS.get(reason, '')}"
        for reason, count in reasons.most_common()
    ]
    table = Table("Left out", columns(("Video", LINE), ("Why", LINE), "Size", "Seconds", words=2))
    for row in rows:
        if not row.keep:
            size = f"{row.width}x{row.height}"
            table.rows.append([row.video, _why(row), size, tenths(row.seconds)])
    pages = [Page([table])] if table.rows else []
    headline = f"{kept}; {', '.join(found)}." if found else f"{kept}."
    print_pages(one_screen(pages), console, headline=headline)


def _spoken(reason: str) -> str:
    return reason.replace("-", " ")


def _why(row: VideoRow) -> str:
    if row.duplicate_of:
        return f"near duplicate of {row.duplicate_of}"
    return row.error or ", ".join(map(_spoken, row.reasons)) or "by hand"


def drafts_line(drafts: Sequence[Draft]) -> str:
    """Return how much was drafted."""
    events = counted(sum(len(one.events) for one in drafts), "event")
    elements = counted(sum(len(one.elements) for one in drafts), "element")
    return f"{counted(len(drafts), 'video')} drafted: {events}, {elements}."


# The headline and JSON have its interval, for which 80 columns have no room.
_ALPHA = replace(BOUNDED, after=lambda _: "")
_COLUMNS = [
    Column("Annotators", words=True, kind=LINE, key="annotators"),
    Column("videos", kind=COUNT),
    Column("event F1 [95%]", kind=INTERVAL, key="event_f1"),
    Column("element F1 [95%]", kind=INTERVAL, key="element_f1"),
    Column("matched", kind=COUNT),
    Column("type α", kind=_ALPHA, key="type_alpha"),
    Column("weight α", kind=_ALPHA, key="weight_alpha"),
]


def agreement_headline(found: Sequence[AnnotatorAgreement]) -> str:
    """Return how far all annotators agree, in a sentence."""
    of = found[0]
    return (
        f"Event F1 {interval(of.events)}, element F1 {interval(of.elements)} over "
        f"{counted(of.videos, 'video')} of {listed(of.annotators)}; Krippendorff's alpha of type "
        f"{_alpha(of.type)}, of weight {_alpha(of.weight)} over "
        f"{counted(of.matched, 'matched element')}"
    )


def agreement_page(found: Sequence[AnnotatorAgreement]) -> Page:
    """Return the agreement of each pair of annotators, and of all."""
    together, *pairs = found
    note = (
        "F1 in percent, intervals over videos. matched: elements that both have; α: Krippendorff's "
        "over these, nominal for the type, ordinal for the weight."
    )
    table = Table("Agreement of annotators", _COLUMNS, note=note)
    named = [(" – ".join(one.annotators), one) for one in pairs]
    for name, one in [*named, ("all pairs", together)] if len(pairs) > 1 else named:
        values = (one.events, one.elements, one.matched, one.type, one.weight)
        table.rows.append([name, one.videos, *values])
    warnings = []
    if together.drafted:
        warnings.append(
            f"For {counted(together.drafted, 'video')} both started from a model's draft, so "
            "agreement is higher than by hand."
        )
    if together.unfinished:
        left = counted(together.unfinished, "video")
        warnings.append(f"Left out: {left} that one of two annotators has not finished.")
    return Page([table], warnings=warnings)


def _alpha(found: Coefficient) -> str:
    return bounded(found) + ("" if found.value is not None else f" ({found.reason})")


# ---- Questions -----------------------------------------------------------------------------------


def questions_line(questions: Sequence[Question]) -> str:
    """Return how many questions were drafted, and how many use an error of a video model."""
    videos = counted(len({one.video for one in questions}), "video")
    errors = sum("errors" in one.tags for one in questions)
    return (
        f"{counted(len(questions), 'question')} about {videos} drafted, {errors:,} with a video "
        "model's error as an option."
    )


_SHORTCUTS = {
    "longest": "the longest option",
    "overlap": "most words of the question",
    "commonest": "commonest answer of the task type",
}


def print_checks(found: QuestionChecks, console: Console) -> None:
    """Print a headline, the findings, and the shortcuts."""
    findings = Table(
        "Findings",
        columns(("Question", LINE), "Options", "Finding", words=3),
        [[one.question, one.options, PHRASES[one.code]] for one in found.findings],
    )
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
    faulty = len({one.question for one in found.findings})
    checked = f"{found.checked:,} of {counted(found.questions, 'question')} checked"
    with_findings = f", {faulty:,} with findings" if found.checked or faulty else ""
    works = [
        f"{_SHORTCUTS[one.name]} ({percent(one.value)}%)" for one in found.shortcuts if one.works
    ]
    many = ("No guesses", "One guess", "Two guesses", "Three guesses")[len(works)]
    return (
        f"{found.file}: {checked} by {found.model}{with_findings}. "
        f"{many} without the video {'beats' if len(works) == 1 else 'beat'} chance "
        f"({percent(found.shortcuts[0].chance)}%){': ' + listed(works) if works else ''}."
    )


def print_question_filter(found: Filtered, console: Console) -> None:
    """Print how many questions are kept, how many each condition drops, and the control."""
    counts = ("Questions", "Dropped", "Undecided", "Replies")
    table = Table(
        "By what the model saw",
        columns("Condition", *((name, COUNT) for name in counts)),
        note="Undecided: a call failed; the same command tries again.",
    )
    for condition in CONDITIONS:
        of = [one for one in found.items if condition in one.given]
        ended = Counter(one.status for one in of if one.by == condition)
        replies = sum(len(one.given[condition]) for one in of)
        table.rows.append(
            [_spoken(condition), len(of), ended["dropped"], ended["undecided"], replies]
        )
    passed, wrong = found.control
    notes = []
    if wrong:
        passed_of = f"{passed:,} of {counted(wrong, 'wrong option')} ({percent(passed / wrong)}%)"
        asked = f"in the questions asked with {_spoken(FRAMES)}"
        notes.append(f"Control: {passed_of} would be kept as the right one, {asked}.")
    kept, total = found.counts["kept"], len(found.items)
    decided = total - found.counts["undecided"]
    headline = f"{decided:,} of {counted(total, 'question')} decided by {found.model}"
    if decided:
        headline += (
            f", {kept:,} kept ({percent(kept / decided)}%): it answers them with "
            f"{_spoken(FRAMES)}, but not with a single frame or without the video"
        )
    print_pages([Page([table], notes=notes)], console, headline=f"{headline}.")
