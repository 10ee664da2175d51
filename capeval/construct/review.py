"""`capeval annotate review`, `mcq construct review`: pages for reviewers of drafts or questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from capeval.construct.annotator_exports import align, by_annotators, read_exports
from capeval.construct.drafts import DOMAINS, Draft, Place, read_drafts
from capeval.errors import UsageError, VideoError
from capeval.files.annotations import VideoFolder, load_video_list, relative_url
from capeval.files.jsonl import read_text, short_hash, write_atomic
from capeval.mcq.question_files import load_questions, question_file
from capeval.options import (
    FRACTION,
    INPUTS,
    CountOrShare,
    FilePath,
    Notices,
    command,
    declares,
    on_notice_option,
    option,
    python_only,
    required,
    takes,
)
from capeval.runs.folder import safe_name
from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES, Question
from capeval.show.page import page_html
from capeval.show.result import Result
from capeval.text import counted, listed

PER_PAGE = 25
"""At most a day's work, so that a lost browser loses no more."""

Urls = Callable[[str], str | None]
"""Returns the URL of a video that was found."""
PageItem = dict[str, Any]
"""An item of a page: `id`, `video`, `src` (its URL), `notes`, and the `value` to edit."""


def _check_names(option: str, names: Collection[str]) -> None:
    if not names:
        raise UsageError(f"name the {option} with --{option} ann,bob")
    for name in names:
        if not re.fullmatch(r"[\w.+-]+", name):
            raise UsageError(f"--{option}: {name} cannot be part of a file name; use letters")


# ---- The pages ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReviewFiles(Result):
    """The written pages, and the number of items of each reviewer in `loads`.

    `missing_videos` are reasons why videos cannot be played, by name; `kind` is drafts, questions
    or differences.
    """

    files: tuple[Path, ...]
    items: int
    loads: Mapping[str, int]
    missing_videos: Mapping[str, str]
    kind: str

    def headline(self) -> str:
        what = counted(self.items, "question" if self.kind == "questions" else "video")
        if not self.files:
            line = "No differences: no page was written."
        elif self.kind == "differences":
            line = f"{what} with differences"
        else:
            in_two = sum(self.loads.values()) - self.items
            both = "both" if len(self.loads) == 2 else "two"
            for_two = f", {in_two:,} of them for {both} annotators" if in_two else ""
            loads = ", ".join(f"{name} {load:,}" for name, load in self.loads.items())
            line = f"{what}{for_two}: {loads}"
        folder = quote(str(self.files[0].parent.parent)) if self.files else ""
        then = f"Next, with the files that the pages export: capeval annotate merge {folder} FILES"
        if self.kind == "questions":
            then = "Next, with the exported files joined: capeval mcq answer --questions FILE"
        return "\n".join([line, *map(str, self.files), *([then] if self.files else [])])

    def notices(self) -> list[str]:
        missing = [*self.missing_videos.values()]
        what = counted(len(missing), "video")
        return [f"{what} cannot be played: {first}" for first in missing[:1]]


class ReviewPages:
    """The pages of a folder, and the folder of the videos that they play."""

    def __init__(self, folder: Path, videos: Path) -> None:
        self.folder, self._videos = folder / "review", VideoFolder(videos)
        self.missing: dict[str, str] = {}

    def url(self, video: str) -> str | None:
        try:
            return relative_url(self._videos.find(video), self.folder)
        except VideoError as error:
            self.missing[video] = str(error)
            return None

    def shared_out(
        self,
        kind: str,
        items: Sequence[PageItem],
        names: Collection[str],
        *,
        overlap: int = 0,
        seed: int = 0,
        prefix: str = "",
    ) -> ReviewFiles:
        """Write pages with a random and even share of the items for each reviewer.

        `overlap` items go to two reviewers. The names of the pages begin with `prefix`.
        """
        rng = np.random.default_rng(seed)
        in_two = overlap if len(names) > 1 else 0
        loads = dict.fromkeys(names, 0)
        for count, place in enumerate(rng.permutation(len(items)).tolist()):
            # Sorting is stable: reviewers with equally few items stay in random order.
            order = sorted(rng.permutation([*loads]).tolist(), key=lambda name: loads[name])
            chosen = order[: 2 if count < in_two else 1]
            items[place]["reviewers"] = [name for name in loads if name in chosen]
            for name in chosen:
                loads[name] += 1
        pages = {}
        for reviewer in loads:
            mine = [item for item in items if reviewer in item["reviewers"]]
            for number, start in enumerate(range(0, len(mine), PER_PAGE), start=1):
                name = f"{prefix}{reviewer}-{number}"
                pages[name] = _page(kind, reviewer, name, mine[start : start + PER_PAGE])
        return self._written(kind, pages, len(items), loads)

    def of_differences(
        self, items: Sequence[PageItem], decider: str, between: Sequence[str]
    ) -> ReviewFiles:
        name = safe_name(f"differences-{'-'.join(between)}")
        html, count = _page("differences", decider, name, items, between), len(items)
        return self._written("differences", {name: html} if items else {}, count, {decider: count})

    def _written(
        self, kind: str, pages: Mapping[str, str], items: int, loads: Mapping[str, int]
    ) -> ReviewFiles:
        files = {self.folder / f"{name}.html": html for name, html in pages.items()}
        for file, html in files.items():
            if file.exists() and read_text(file) != html:
                raise UsageError(
                    f"{file} has other contents, and a reviewer's browser may have work for it; "
                    "export all work, then delete it"
                )
        for file, html in files.items():
            write_atomic(file, html)
        return ReviewFiles((*files,), items, loads, self.missing, kind)


def _page(
    kind: str, reviewer: str, name: str, items: Sequence[PageItem], between: Sequence[str] = ()
) -> str:
    """Return a page; `between` are the two annotators of a page of differences."""
    noun = "question" if kind == "questions" else "video"
    data = {
        "name": f"Page {name}",
        "file": f"{name}.{'jsonl' if noun == 'question' else 'json'}",
        "noun": noun,
        "all_done": f"All {noun}s are done. Export them and send the file back.",
        "me": reviewer,
        "adjudicates": between,
        "types": ELEMENT_TYPES,
        "characteristics": CHARACTERISTICS,
        "domains": DOMAINS,
        "items": items,
    }
    return page_html(
        Path(__file__).with_name("review.html"),
        {"key": f"capeval-review:{short_hash(data)}", **data},
        *("review.css", "review.js", "questions.js" if noun == "question" else "drafts.js"),
        title=f"Review for {reviewer}",
        kind=kind,
        format="JSON",
        noun=noun,
        list="Options" if noun == "question" else "Events and elements",
        next_open=f"Next {noun} not done",
        work="everything reviewed on this page",
    )


def _draft_item(draft: Draft, urls: Urls) -> PageItem:
    value = draft.model_dump(mode="json", exclude={"annotator", "adjudicates", "exported"})
    src = urls(draft.video)
    return {"id": draft.index, "video": draft.video, "src": src, "notes": [], "value": value}


def _question_item(question: Question, urls: Urls) -> PageItem:
    line = question.model_dump(mode="json", exclude={"tags"})
    value = {name: line[name] for name in ("question", "options", "answer")} | {"decision": None}
    notes = [
        f"{name.replace('_', ' ')}: {text}"
        for name, tag in question.tags.items()
        if name not in ("drafted_by", "filtered_by")
        for text in (tag if isinstance(tag, list) else [tag])
    ]
    item = {"id": question.id, "video": question.video, "src": urls(question.video)}
    return item | {"notes": notes, "value": value, "line": line | dict(question.tags)}


# ---- Differences between two annotators ----------------------------------------------------------


def _difference_item(first: Draft, second: Draft, urls: Urls) -> PageItem | None:
    """Return the item of a video with the differences between two annotators; None without any.

    The draft is the first's, with the second's `other` versions and further elements. Differing
    elements are not confirmed: `by` is their annotator, and `their_event` the `theirs` of the event
    that has them in the second draft.
    """
    events = [*_merged_events(first, second)]
    both = (first, second)
    compared = {"domain": [draft.domain or "none" for draft in both]}
    for one in CHARACTERISTICS:
        compared[one] = ["yes" if one in draft.visual_characteristic else "no" for draft in both]
    notes = [
        f"{what}: {mine} ({first.annotator}), {theirs} ({second.annotator})"
        for what, (mine, theirs) in compared.items()
        if mine != theirs
    ]
    elements = [element for event in events for element in event["visual_elements"]]
    if not (notes or any("by" in one for one in elements) or any(one["other"] for one in events)):
        return None
    notes += [f"{d.annotator}: {d.comment}" for d in both if d.comment.strip()]
    agreed = [one for one in first.visual_characteristic if one in second.visual_characteristic]
    changes = {
        "domain": first.domain if first.domain == second.domain else None,
        "visual_characteristic": agreed,
        "drafted_by": [*dict.fromkeys(first.drafted_by + second.drafted_by)],
        "comment": "",
        "events": events,
    }
    item = _draft_item(first, urls)
    return item | {"notes": notes, "value": item["value"] | changes}


def _merged_events(first: Draft, second: Draft) -> Iterator[dict[str, Any]]:
    found = align(first, second)
    for i, j in found.events:
        pairs = [pair for pair in found.elements if pair[0] is not None and pair[0][0] == i]
        for pair in found.elements:
            if pair[0] is None and pair[1] is not None and pair[1][0] == j:
                # After the last element that precedes it in the second draft.
                ends = [n for n, (_, b) in enumerate(pairs, 1) if b and (j, -1) < b < pair[1]]
                pairs.insert(max(ends, default=0), pair)
        sides = [d.events[n] for d, n in ((first, i), (second, j)) if n is not None]
        yield {
            **sides[0].model_dump(mode="json"),
            "other": None if sides[0].event == sides[-1].event else sides[-1].event,
            "theirs": j,
            "visual_elements": [_compared(first, second, *pair, j) for pair in pairs],
        }


def _compared(
    first: Draft, second: Draft, a: Place | None, b: Place | None, event: int | None
) -> dict[str, Any]:
    mine, theirs = a and first.element(a), b and second.element(b)
    if mine and theirs and b and b[0] == event and mine.claim == theirs.claim:
        confirmed = dict.fromkeys(mine.confirmed_by + theirs.confirmed_by)
        return mine.model_dump(mode="json") | {"confirmed_by": [*confirmed]}
    versions = [one for one in (mine, theirs) if one is not None]
    other = versions[1].model_copy(update={"confirmed_by": ()}) if versions[1:] else None
    undecided = versions[0].model_copy(update={"confirmed_by": (), "other": other})
    by = (first if mine else second).annotator
    return undecided.model_dump(mode="json") | {"by": by, "their_event": b and b[0]}


# ---- The commands --------------------------------------------------------------------------------


@declares
class ReviewOptions:
    """The arguments of `capeval.annotate_review`.

    Parameters
    ----------
    annotators : The annotators' names. Each gets pages of 25 videos.
    overlap : This many videos, or this share of them, go to two annotators.
    seed : The seed of the assignment of videos.
    differences : Two annotators' exported files: write a page with their differences.
    """

    folder: FilePath = required("The folder of the videos.", positional=True, metavar="FOLDER")
    _: KW_ONLY
    annotators: Collection[str] = option((), panel=INPUTS, metavar="NAMES", commas=True)
    overlap: str | int | float = option("10%", note=FRACTION, panel=INPUTS, metavar="SHARE")
    seed: int = python_only(0, min=0)
    differences: Sequence[FilePath] = option((), panel=INPUTS, metavar="FILES", commas=True)
    on_notice: Notices = on_notice_option()


@command("annotate review")
@takes(ReviewOptions)
def annotate_review(o: ReviewOptions) -> ReviewFiles:
    """Write pages for annotators, who review offline in a browser.

    They correct drafts or, with --differences, decide where two of them differ. Each page exports a
    file, for `capeval annotate agree` and `capeval annotate merge`.

    The pages are `review/NAME-1.html` and so on in the folder of the videos. With --differences,
    there is one page, for the one that --annotators names, else for both together.

    Raises
    ------
    InputError, UsageError
        The drafts or exported files cannot be read, no annotator is named, or there are pages with
        other contents.
    """
    folder = Path(o.folder)
    pages = ReviewPages(folder, folder)
    if not o.differences:
        _check_names("annotators", o.annotators)
        drafts, videos = read_drafts(folder), load_video_list(folder)
        overlap = round(CountOrShare.read(o.overlap, "--overlap").of(len(videos)))
        blank = (Draft(index=one.index, video=one.video or one.index) for one in videos)
        items = [_draft_item(drafts.get(one.index, one), pages.url) for one in blank]
        return pages.shared_out("drafts", items, o.annotators, overlap=overlap, seed=o.seed)
    by_annotator = by_annotators(read_exports(map(Path, o.differences)))
    if len(by_annotator) != 2:
        raise UsageError(f"--differences: needs two annotators, not {listed(by_annotator)}")
    deciders = [*o.annotators] or ["+".join(by_annotator)]
    if len(deciders) > 1:
        raise UsageError("--annotators: with --differences, name one annotator, who decides")
    first, second = by_annotator.values()
    both = {index: (one, second[index]) for index, one in first.items() if index in second}
    if left := sorted(index for index, pair in both.items() if any(one.open for one in pair)):
        o.on_notice(f"{counted(len(left), 'video')} not finished by both, left out: {listed(left)}")
    found = (_difference_item(*both[i], pages.url) for i in both if i not in left)
    return pages.of_differences([one for one in found if one], deciders[0], [*by_annotator])


@declares
class QuestionReviewOptions:
    """The arguments of `capeval.construct_review`.

    Parameters
    ----------
    questions : A file of questions.
    reviewers : The reviewers' names. Each gets pages of 25 questions.
    videos : The folder of the videos. By default videos/ next to the questions, else the questions'
        own folder.
    """

    questions: FilePath = required(positional=True, metavar="QUESTIONS")
    _: KW_ONLY
    reviewers: Collection[str] = option((), panel=INPUTS, metavar="NAMES", commas=True)
    videos: FilePath | None = option(None, panel=INPUTS, metavar="DIR")


@command("mcq construct review")
@takes(QuestionReviewOptions)
def construct_review(o: QuestionReviewOptions) -> ReviewFiles:
    """Write pages for reviewers, who keep, edit or drop each question in a browser.

    The pages are `review/QUESTIONS-NAME-1.html` and so on, next to the questions. Each exports the
    questions that are kept as JSON lines: join these files for `capeval mcq answer --questions`.

    Raises
    ------
    InputError, UsageError
        The questions cannot be read, no reviewer is named, or there are pages with other contents.
    """
    # Slow to import.
    from capeval.mcq.answer import default_question_videos

    _check_names("reviewers", o.reviewers)
    videos = Path(o.videos) if o.videos else default_question_videos(str(o.questions))
    file = question_file(o.questions)
    pages = ReviewPages(file.parent, videos)
    items = [_question_item(one, pages.url) for one in load_questions(o.questions)]
    return pages.shared_out("questions", items, o.reviewers, prefix=f"{file.stem}-")
