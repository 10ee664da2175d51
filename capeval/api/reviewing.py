"""`capeval.annotate_review` and `capeval.construct_review`: the pages that reviewers are given."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from capeval.construct.drafts import Draft, read_reviewed
from capeval.construct.options import QuestionReviewOptions, ReviewOptions
from capeval.construct.review import (
    assigned,
    difference_items,
    draft_item,
    drafts_to_review,
    question_item,
    review_page,
    review_pages,
)
from capeval.errors import UsageError, VideoError
from capeval.files.jsonl import write_atomic
from capeval.files.reading import read_text
from capeval.files.videos import VideoFolder, relative_url
from capeval.mcq.questions import load_questions, question_file
from capeval.options import takes
from capeval.runs.sources import default_videos
from capeval.scoring.gates import CountOrShare
from capeval.text import listed


@dataclass(frozen=True)
class ReviewFiles:
    """Pages that were written.

    Attributes
    ----------
    files : one for each page
    items : the number of videos or questions
    loads : of each reviewer; an item that two have counts twice
    missing_videos : why videos cannot be played in a page, by name
    """

    files: tuple[Path, ...]
    items: int
    loads: Mapping[str, int]
    missing_videos: Mapping[str, str]


@takes(ReviewOptions)
def annotate_review(o: ReviewOptions) -> ReviewFiles:
    """Write the pages on which annotators review drafts, or decide where two of them differ.

    They are `review/NAME-1.html` and so on in the folder of the videos. With `differences` it is
    one page, for the annotator who decides; without a name, both decide together.

    Raises
    ------
    InputError, UsageError
        The drafts or exported files cannot be read, no annotator is named, or there are pages with
        other contents.
    """
    pages = _Pages(Path(o.folder), Path(o.folder))
    if not o.differences:
        names = _names("annotators", o.annotators)
        drafts = drafts_to_review(pages.folder)
        overlap = round(CountOrShare.read(o.overlap, "--overlap").of(len(drafts)))
        given = assigned(drafts, names, overlap=overlap, seed=o.seed)
        for name, mine in given.items():
            pages.add(review_pages("drafts", name, [draft_item(one, pages.url) for one in mine]))
        return pages.written(len(drafts), {name: len(mine) for name, mine in given.items()})
    by_annotator: dict[str, dict[str, Draft]] = {}
    for draft in (draft for file in o.differences for draft in read_reviewed(Path(file))):
        by_annotator.setdefault(str(draft.annotator), {})[draft.index] = draft
    if len(by_annotator) != 2:
        raise UsageError(f"--differences: needs two annotators, not {listed(by_annotator)}")
    first, second = by_annotator.values()
    items = difference_items(first, second, pages.url)
    both = "-".join(by_annotator)
    (name, *more) = _names("annotators", o.annotators or ["+".join(by_annotator)])
    if more:
        raise UsageError("--annotators: with --differences, name only who decides")
    if items:
        page = f"differences-{both}"
        pages.add([(page, review_page("differences", name, page, items, [*by_annotator]))])
    return pages.written(len(items), {name: len(items)})


@takes(QuestionReviewOptions)
def construct_review(o: QuestionReviewOptions) -> ReviewFiles:
    """Write the pages on which reviewers keep, mend or drop questions.

    They are `review/QUESTIONS-NAME-1.html` and so on, next to the questions.

    Raises
    ------
    InputError, UsageError
        The questions cannot be read, no reviewer is named, or there are pages with other contents.
    """
    file, names = question_file(Path(o.questions)), _names("reviewers", o.reviewers)
    questions = load_questions(o.questions)
    pages = _Pages(file.parent, Path(o.videos) if o.videos else default_videos(str(file)))
    given = assigned(questions, names)
    for name, mine in given.items():
        items = [question_item(one, pages.url) for one in mine]
        pages.add(review_pages("questions", name, items, f"{file.stem}-"))
    return pages.written(len(questions), {name: len(mine) for name, mine in given.items()})


def _names(option: str, given: Collection[str]) -> list[str]:
    """Return names, which become parts of file names."""
    if not given or len({*given}) < len(given):
        raise UsageError(f"--{option}: name each once, such as ann,bob")
    for name in given:
        if not re.fullmatch(r"[\w.+-]+", name):
            raise UsageError(f"--{option}: {name} cannot be part of a file name; use letters")
    return list(given)


@dataclass
class _Pages:
    """Pages for the folder `review` of `folder`, and the videos that they show."""

    folder: Path
    videos: Path
    html: dict[Path, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._found = VideoFolder(self.videos)

    def url(self, video: str) -> str | None:
        try:
            return relative_url(self._found.find(video), self.folder / "review")
        except VideoError as error:
            self.missing[video] = str(error)
            return None

    def add(self, pages: Iterable[tuple[str, str]]) -> None:
        self.html |= {self.folder / "review" / f"{name}.html": html for name, html in pages}

    def written(self, items: int, loads: Mapping[str, int]) -> ReviewFiles:
        for file, html in self.html.items():
            if file.exists() and read_text(file) != html:
                raise UsageError(
                    f"{file} has other contents, and a reviewer's browser may have work for it; "
                    "when all is exported, delete it"
                )
        for file, html in self.html.items():
            write_atomic(file, html)
        return ReviewFiles((*self.html,), items, loads, self.missing)
