"""`capeval report`: one HTML file that shows what a model gets wrong, and why."""

from __future__ import annotations

import io
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from functools import partial
from mimetypes import guess_type
from pathlib import Path
from typing import ClassVar, TypeVar, cast

from capeval.config import config_file
from capeval.errors import InputError, MissingExtra, UsageError, VideoError
from capeval.files.annotations import VideoFolder, annotations_hash, relative_url
from capeval.files.jsonl import check_output, write_output
from capeval.files.judgments import caption_hashes
from capeval.files.ratings import LabelTable, differ, load_human
from capeval.llm.money import read_prices
from capeval.options import (
    COLUMNS_OF_HUMAN,
    FilePath,
    Notices,
    annotations_option,
    command,
    declares,
    human_columns,
    human_option,
    judge_option,
    judged_runs_argument,
    on_notice_option,
    option,
    out_option,
    python_only,
    runs_option,
    takes,
)
from capeval.reporting.report_page import MARK, HumanLabels, Strip, report_html
from capeval.runs.folder import JudgeFolder
from capeval.runs.sources import default_videos
from capeval.schema import HumanLabel
from capeval.scoring.judged_run import JudgedRun, files_behind, load_judged_runs
from capeval.scoring.known_agreement import agreement_line, known_agreement
from capeval.scoring.scores import Scores, scores_headline
from capeval.show.numbers import file_size
from capeval.show.result import Output, Result
from capeval.text import counted, listed
from capeval.video import FrameReader, open_reader

T = TypeVar("T")

_FRAMES = 8
# Eight frames of a video are about 60 kB: more videos would make a file too large to send.
_MANY_VIDEOS = 100
# A browser reads the whole page before it shows anything, and fails on text of 512 MB.
_EMBEDDED_MB, _ALL_EMBEDDED_MB = 4, 100


# Eight such frames are 20 to 60 kB, and large enough to be looked at one by one.
_LONGEST_SIDE = 480
_QUALITY = 60
# Each decodes with all cores; the second reads its file while the first decodes.
_READERS = 2


@declares
class ReportOptions:
    """The arguments of `capeval.report`.

    Parameters
    ----------
    frames : Frames of each video. By default 8, or none for more than 100 videos.
    videos : The folder of the videos. By default videos/ next to the annotations.
    embed : Put videos of up to 4 MB into the page, 100 MB in all; others are linked.
    track : Wraps the iterator over the videos' frames, given with its length, to show progress.
    """

    rules: ClassVar = (COLUMNS_OF_HUMAN,)
    judged_runs: Sequence[FilePath] = judged_runs_argument()
    _: KW_ONLY
    out: FilePath | None = out_option()
    human: FilePath | None = human_option()
    columns: Mapping[str, str] | None = human_columns()
    frames: int | None = option(None, metavar="N", min=0, max=64)
    videos: FilePath | None = option(None, metavar="DIR")
    embed: bool = option(False)
    judge: str | None = judge_option()
    annotations: FilePath | None = annotations_option()
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()
    track: Callable[[Iterable[T], int], Iterable[T]] = python_only(lambda taken, _: taken)


@dataclass(frozen=True)
class Report(Result):
    """A report that was written: its file, its size in bytes, and the scores of its runs."""

    file: Path
    size: int
    scores: Mapping[str, Scores]

    def headline(self) -> str:
        scores = scores_headline(self.scores).removesuffix(".")
        return f"{scores}; report: {self.file} ({file_size(self.size)})"


@takes(ReportOptions)
def report(o: ReportOptions) -> Report:
    """Write one HTML file on judged runs that opens from disk and loads nothing but the videos.

    Without `out`, it is `report.html` in the judge's folder of a single run, or in the working
    directory.

    Raises
    ------
    InputError, UsageError
        A run cannot be loaded, the runs' annotations differ, or `out` cannot be written.
    """
    if o.out is not None and Path(o.out).suffix.lower() not in ("", ".htm", ".html"):
        raise UsageError(f"--out: {o.out}: a report is HTML; name a file that ends in .html")
    loaded = load_judged_runs(
        o.judged_runs, runs=Path(o.runs), judge=o.judge, annotations=o.annotations
    )
    _check_same_annotations(loaded)
    for line in (line for run in loaded.values() for line in run.notices):
        o.on_notice(line)
    file = Path("report.html" if o.out is None else o.out)
    first = next(iter(loaded.values()))
    if o.out is None and len(loaded) == 1 and first.run is not None:
        file = first.file.with_name("report.html")
    check_output(file, [*files_behind(loaded.values()), *([o.human] if o.human else [])])
    _check_overwrite(file)
    labels = _human_labels(o, loaded)
    prices = read_prices(config_file())
    files, missing = _files(first, o)
    strips = _strips(files, missing, o)
    page = report_html(
        loaded,
        human=labels,
        strips=strips,
        urls=_urls(files, file.parent, o),
        prices=prices,
        known=[_known(run, o.on_notice) for run in loaded.values()],
    )
    write_output(file, page)
    scores = {name: run.scores for name, run in loaded.items()}
    return Report(file, file.stat().st_size, scores)


def _known(run: JudgedRun, on_notice: Notices) -> str:
    known = known_agreement(JudgeFolder(run.file.parent), on_notice)
    return agreement_line(known, baseline=run.identity.baseline)


def _check_same_annotations(runs: Mapping[str, JudgedRun]) -> None:
    (first, one), *others = runs.items()
    for name, run in others:
        if annotations_hash(run.annotations) != annotations_hash(one.annotations):
            raise UsageError(
                f"{first} and {name} have different annotations ({one.annotations_path}, "
                f"{run.annotations_path}); make a report of each, or name one file for both with "
                "--annotations"
            )


def _check_overwrite(file: Path) -> None:
    if not file.is_file():
        return
    with file.open("rb") as stream:
        start = stream.read(400)
    if start and MARK.encode("utf-8") not in start:
        raise InputError("exists and is not a report; name another file with --out", file=file)


def _human_labels(o: ReportOptions, runs: Mapping[str, JudgedRun]) -> HumanLabels | None:
    """Read the labels of the human file; those that no run can show are left out with a notice."""
    if o.human is None:
        return None
    table = load_human(o.human, columns=o.columns, missing="drop")
    file, labels = table.file, dict[tuple[str, str | None], dict[str, dict[str, HumanLabel]]]()
    if not isinstance(table, LabelTable):
        raise UsageError(f"{file}: has ratings of whole captions; --human needs labels of elements")
    for line in (*table.notices, *table.warnings):
        o.on_notice(line)
    rows = zip(table.keys, table.elements, table.rater, table.labels, strict=True)
    for key, element, rater, label in rows:
        by_rater = labels.setdefault(key, {}).setdefault(element, {})
        by_rater[table.raters[rater]] = cast(HumanLabel, label)
    own = [
        ((run.name, run.model, None), caption_hashes(run.captions.values(), run.judgments.values()))
        for run in runs.values()
    ]
    (first, *_) = runs.values()
    known = {index: {*one.elements} for index, one in first.annotated.items()}
    found = {
        (index, system): elements
        for (index, system), elements in labels.items()
        if any(
            system in names and not differ(table.hashes.get((index, system)), texts.get(index))
            for names, texts in own
        )
    }
    shown = [
        key in found and element in known.get(key[0], ())
        for key, elements in labels.items()
        for element, raters in elements.items()
        for _ in raters
    ]
    if not any(shown):
        named = sorted({system or "(none)" for _, system in labels})
        raise InputError(
            f"has no label for {', '.join(runs)}; its systems are {listed(named)}, and "
            "its videos and elements must be those of the annotations",
            file=file,
        )
    if left_out := shown.count(False):
        o.on_notice(
            f"{file}: {left_out:,} of {counted(len(shown), 'label')} left out: of another system "
            "or caption, or of a video or element that is not annotated"
        )
    return found


def _files(run: JudgedRun, o: ReportOptions) -> tuple[dict[str, Path], dict[str, VideoError]]:
    folder = default_videos(run.annotations_path) if o.videos is None else Path(o.videos)
    if o.videos is not None or folder.is_dir():
        return VideoFolder(folder).find_all(run.annotations)
    o.on_notice(f"no videos are shown: {folder} is not a folder; name the videos with --videos")
    return {}, {}


def _urls(files: Mapping[str, Path], page: Path, o: ReportOptions) -> dict[str, str]:
    urls = {index: relative_url(file, page) for index, file in files.items()}
    left, large = _ALL_EMBEDDED_MB * 1_000_000, 0
    # A link may be broken.
    for index, file in files.items():
        if not (o.embed and file.is_file()):
            continue
        size = file.stat().st_size
        if size > min(left, _EMBEDDED_MB * 1_000_000):
            large += 1
            continue
        left -= size
        kind = guess_type(file.name)[0] or "video/mp4"
        urls[index] = f"data:{kind};base64,{b64encode(file.read_bytes()).decode('ascii')}"
    if large:
        o.on_notice(
            f"{counted(large, 'video')} linked, not embedded: the limit is "
            f"{_EMBEDDED_MB} MB for each and {_ALL_EMBEDDED_MB} MB for all"
        )
    return urls


def _strips(
    files: Mapping[str, Path], missing: Mapping[str, VideoError], o: ReportOptions
) -> dict[str, Strip]:
    total = len(files) + len(missing)
    many = total > _MANY_VIDEOS
    if o.frames is None and many:
        o.on_notice(f"no frames are shown for {total:,} videos; add them with --frames {_FRAMES}")
    count = (0 if many else _FRAMES) if o.frames is None else o.frames
    if not count or not total:
        return {}
    try:
        found = dict(o.track(strips(files, count), len(files)))
    except MissingExtra as missing_extra:
        if o.frames is not None:
            raise
        o.on_notice(f"no frames are shown: {missing_extra}")
        return {}
    broken = {index: strip for index, strip in found.items() if isinstance(strip, str)}
    without = {index: str(error) for index, error in missing.items()} | broken
    if without:
        index, why = next(iter(without.items()))
        o.on_notice(
            f"no frames are shown for {len(without):,} of {counted(total, 'video')}, such as "
            f"{index} ({why}); name the folder of the videos with --videos"
        )
    # The message without the folder: the page may be sent to others.
    found |= {index: error.message for index, error in missing.items()}
    # If there are none at all, one line in the page says so instead of one on each card.
    return found if len(without) < total else {}


def strips(files: Mapping[str, Path], count: int) -> Iterator[tuple[str, Strip]]:
    """Yield the index of every video and `count` frames spread evenly over it.

    A video that cannot be decoded has a note instead. Raises `MissingExtra` without PyAV or Pillow.
    """
    try:
        import av  # noqa: F401
        import PIL  # noqa: F401
    except ImportError:
        # Both in one line, so that a user does not find them missing one after the other.
        raise MissingExtra("frames need PyAV and Pillow", "frames") from None
    reader = open_reader(str(count), allow_damaged=True)
    with ThreadPoolExecutor(_READERS) as pool:
        yield from zip(files, pool.map(partial(_strip, reader), files.values()), strict=True)


def _strip(reader: FrameReader, video: Path) -> Strip:
    try:
        frames = reader.read(video)
    except VideoError as error:
        return error.message
    made = []
    for time, small in zip(frames.times, frames.thumbnails(_LONGEST_SIDE), strict=True):
        file = io.BytesIO()
        small.save(file, "WEBP", quality=_QUALITY)
        made.append((time, b64encode(file.getvalue()).decode("ascii")))
    return made


@command("report", options=ReportOptions)
def report_command(o: ReportOptions, output: Output) -> None:
    """Write one HTML file that shows what a model gets wrong, and why.

    It opens from disk and loads nothing but the videos: scores with intervals, how much of the
    annotated weight is entailed, and every video with its frames, caption, matches and verdicts.
    Several runs are shown side by side.

    Without --out, it is written to report.html: in the judge's folder for a single run, else in the
    working directory.
    """
    output.line(report(**{**vars(o), "track": _tracked}).headline())


def _tracked(taken: Iterable[T], total: int) -> Iterable[T]:
    from rich.console import Console
    from rich.progress import track

    return track(
        taken,
        "Frames",
        total=total,
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
