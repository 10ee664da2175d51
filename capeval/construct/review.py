"""The pages of reviewers: their drafts or questions, or what two annotators see differently."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from capeval.construct.alignment import align
from capeval.construct.drafts import DOMAINS, Draft, Place, read_drafts
from capeval.errors import UsageError, VideoError
from capeval.files.annotations import load_video_list
from capeval.files.jsonl import write_atomic
from capeval.files.judgments import short_hash
from capeval.files.reading import read_text
from capeval.files.videos import VideoFolder, relative_url
from capeval.runs.folder import safe_name
from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES, Question
from capeval.show.page import page_html
from capeval.show.result import Result
from capeval.show.table import Page
from capeval.text import counted

PER_PAGE = 25
"""A day's work at most: a browser that is lost takes no more with it."""

T = TypeVar("T")
Urls = Callable[[str], str | None]
"""From a video's name to its URL, if it is found."""
PageItem = dict[str, Any]
"""What a page shows: `id`, `video`, `src` (its URL), `notes`, and `value`, which is edited."""


def check_names(option: str, names: Collection[str]) -> None:
    """Raise `UsageError` unless names can be parts of file names."""
    if not names:
        raise UsageError(f"name the {option} with --{option} ann,bob")
    if len({*names}) < len(names):
        raise UsageError(f"--{option}: name each once")
    for name in names:
        if not re.fullmatch(r"[\w.+-]+", name):
            raise UsageError(f"--{option}: {name} cannot be part of a file name; use letters")


def assigned(
    items: Sequence[T], reviewers: Collection[str], *, overlap: int = 0, seed: int = 0
) -> dict[str, list[T]]:
    """Return the items of each reviewer, sampled at random, in the order given.

    `overlap` of them go to two. The numbers of two reviewers differ by at most one.
    """
    rng = np.random.default_rng(seed)
    in_two = overlap if len(reviewers) > 1 else 0
    found: dict[str, list[int]] = {name: [] for name in reviewers}
    for count, place in enumerate(rng.permutation(len(items)).tolist()):
        # Sorting is stable: among those with equally few items, chance decides.
        order = sorted(rng.permutation([*found]).tolist(), key=lambda name: len(found[name]))
        for name in order[: 2 if count < in_two else 1]:
            found[name].append(place)
    return {name: [items[place] for place in sorted(places)] for name, places in found.items()}


def drafts_to_review(folder: Path) -> list[Draft]:
    """Return a draft for each video of a folder that is kept, blank where there is none."""
    drafts = read_drafts(folder)
    return [
        drafts.get(one.index) or Draft(index=one.index, video=one.video or one.index)
        for one in load_video_list(folder)
    ]


# ---- The pages ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReviewFiles(Result):
    """Pages that were written.

    Attributes
    ----------
    files : one for each page
    items : the number of videos or questions
    loads : of each reviewer; an item that two have counts twice
    missing_videos : why videos cannot be played in a page, by name
    kind : drafts, questions or differences
    """

    files: tuple[Path, ...]
    items: int
    loads: Mapping[str, int]
    missing_videos: Mapping[str, str]
    kind: str = "drafts"

    def headline(self) -> str:
        pages = map(str, self.files)
        if self.kind == "differences":
            if not self.files:
                return "No differences: no page was written."
            return "\n".join([f"{counted(self.items, 'video')} with differences", *pages])
        loads = ", ".join(f"{name} {load:,}" for name, load in self.loads.items())
        in_two = sum(self.loads.values()) - self.items
        both = "both" if len(self.loads) == 2 else "two"
        for_two = f", {in_two:,} of them for {both} annotators" if in_two else ""
        noun = "question" if self.kind == "questions" else "video"
        return "\n".join([f"{counted(self.items, noun)}{for_two}: {loads}", *pages])

    def pages(self, *, full: bool = False) -> list[Page]:  # noqa: ARG002
        return []

    def notices(self) -> list[str]:
        missing = self.missing_videos
        return [
            f"{counted(len(missing), 'video')} not found: {first}"
            for first in [*missing.values()][:1]
            if self.kind != "differences"
        ]


@dataclass
class ReviewPages:
    """Pages for the folder `review` of `folder`, and the folder of the videos that they show."""

    folder: Path
    videos: Path
    missing: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Check that there is a folder of videos."""
        self._found = VideoFolder(self.videos)

    def url(self, video: str) -> str | None:
        """Return the URL of a video, if it is found."""
        try:
            return relative_url(self._found.find(video), self.folder / "review")
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
        """Write the pages of several reviewers; raises `UsageError`.

        Parameters
        ----------
        kind : drafts or questions
        overlap, seed : see `assigned`
        prefix : what the names of pages begin with
        """
        given = assigned(items, names, overlap=overlap, seed=seed)
        for item in items:
            item["reviewers"] = [name for name, mine in given.items() if item in mine]
        pages = {}
        for reviewer, mine in given.items():
            for number, start in enumerate(range(0, len(mine), PER_PAGE), start=1):
                name = f"{prefix}{reviewer}-{number}"
                pages[name] = review_page(kind, reviewer, name, mine[start : start + PER_PAGE])
        loads = {name: len(mine) for name, mine in given.items()}
        return self._written(kind, pages, len(items), loads)

    def of_differences(
        self, items: Sequence[PageItem], decider: str, between: Sequence[str]
    ) -> ReviewFiles:
        """Write the page with what two annotators see differently, if there is anything."""
        name = safe_name(f"differences-{'-'.join(between)}")
        html = review_page("differences", decider, name, items, between)
        pages, count = {name: html} if items else {}, len(items)
        return self._written("differences", pages, count, {decider: count})

    def _written(
        self, kind: str, pages: Mapping[str, str], items: int, loads: Mapping[str, int]
    ) -> ReviewFiles:
        files = {self.folder / "review" / f"{name}.html": html for name, html in pages.items()}
        for file, html in files.items():
            if file.exists() and read_text(file) != html:
                raise UsageError(
                    f"{file} has other contents, and a reviewer's browser may have work for it; "
                    "when all is exported, delete it"
                )
        for file, html in files.items():
            write_atomic(file, html)
        return ReviewFiles((*files,), items, loads, self.missing, kind)


def review_page(
    kind: str, reviewer: str, name: str, items: Sequence[PageItem], between: Sequence[str] = ()
) -> str:
    """Return a page; of kind "differences", `between` are the two annotators."""
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
        work="all that was reviewed on this page",
    )


def draft_item(draft: Draft, urls: Urls) -> PageItem:
    """Return what a page shows of a draft."""
    value = draft.model_dump(mode="json", exclude={"annotator", "adjudicates", "exported"})
    src = urls(draft.video)
    return {"id": draft.index, "video": draft.video, "src": src, "notes": [], "value": value}


def question_item(question: Question, urls: Urls) -> PageItem:
    """Return what a page shows of a question, but for models' names, and the line it came from."""
    line = question.model_dump(mode="json", exclude={"tags"})
    return {
        "id": question.id,
        "video": question.video,
        "src": urls(question.video),
        "notes": [
            f"{name.replace('_', ' ')}: {text}"
            for name, tag in question.tags.items()
            if name not in ("drafted_by", "filtered_by")
            for text in (tag if isinstance(tag, list) else [tag])
        ],
        "value": {name: line[name] for name in ("question", "options", "answer")}
        | {"decision": None},
        "line": line | dict(question.tags),
    }


# ---- What two annotators see differently -------------------------------------------------------


def difference_items(
    first: Mapping[str, Draft], second: Mapping[str, Draft], urls: Urls
) -> list[PageItem]:
    """Return what a page shows of the videos, by index, that two annotators see differently.

    Its drafts are the first's with what the second has: `other` versions, and the second's own
    elements. What differs is not confirmed: `by` says whose it is, and `their_event` names the
    event, by its `theirs`, in which the second has it.
    """
    both = [(first[index], second[index]) for index in first if index in second]
    return [item for pair in both if (item := _differing(*pair, urls))]


def _differing(first: Draft, second: Draft, urls: Urls) -> PageItem | None:
    events = [*_merged_events(first, second)]
    compared = {"domain": [draft.domain or "none" for draft in (first, second)]}
    for one in CHARACTERISTICS:
        there = [one in draft.visual_characteristic for draft in (first, second)]
        compared[one] = ["yes" if is_so else "no" for is_so in there]
    notes = [
        f"{what}: {mine} ({first.annotator}), {theirs} ({second.annotator})"
        for what, (mine, theirs) in compared.items()
        if mine != theirs
    ]
    elements = [element for event in events for element in event["visual_elements"]]
    if not (notes or any("by" in one for one in elements) or any(one["other"] for one in events)):
        return None
    notes += [f"{d.annotator}: {d.comment}" for d in (first, second) if d.comment.strip()]
    agreed = [one for one in first.visual_characteristic if one in second.visual_characteristic]
    changes = {
        "domain": first.domain if first.domain == second.domain else None,
        "visual_characteristic": agreed,
        "drafted_by": [*dict.fromkeys(first.drafted_by + second.drafted_by)],
        "comment": "",
        "events": events,
    }
    item = draft_item(first, urls)
    return item | {"notes": notes, "value": item["value"] | changes}


def _merged_events(first: Draft, second: Draft) -> Iterator[dict[str, Any]]:
    found = align(first, second)
    for i, j in found.events:
        pairs = [pair for pair in found.elements if pair[0] is not None and pair[0][0] == i]
        for pair in found.elements:
            if pair[0] is None and pair[1] is not None and pair[1][0] == j:
                # After the last one that the second has before it.
                earlier = [
                    n for n, (_, b) in enumerate(pairs, 1) if b and b[0] == j and b < pair[1]
                ]
                pairs.insert(max(earlier, default=0), pair)
        sides = [d.events[n] for d, n in ((first, i), (second, j)) if n is not None]
        yield {
            **sides[0].model_dump(mode="json"),
            "other": None if sides[0].event == sides[-1].event else sides[-1].event,
            "theirs": j,
            "visual_elements": [
                _compared(first, second, a, b, together=b is not None and b[0] == j)
                for a, b in pairs
            ],
        }


def _compared(
    first: Draft, second: Draft, a: Place | None, b: Place | None, *, together: bool
) -> dict[str, Any]:
    mine, theirs = a and first.element(a), b and second.element(b)
    if mine and theirs and together and mine.claim == theirs.claim:
        confirmed = dict.fromkeys(mine.confirmed_by + theirs.confirmed_by)
        return mine.model_dump(mode="json") | {"confirmed_by": [*confirmed]}
    versions = [one for one in (mine, theirs) if one is not None]
    other = versions[1].model_copy(update={"confirmed_by": ()}) if versions[1:] else None
    undecided = versions[0].model_copy(update={"confirmed_by": (), "other": other})
    by = (first if mine else second).annotator
    return undecided.model_dump(mode="json") | {"by": by, "their_event": b and b[0]}
