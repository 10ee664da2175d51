"""`capeval.rate_sheet` and `capeval.rate_merge`: what raters are given, and what they return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from capeval.api.run_options import MergeOptions, SheetOptions
from capeval.errors import InputError, UsageError
from capeval.files.annotations import annotations_hash
from capeval.files.jsonl import write_atomic
from capeval.files.outputs import check_output, write_output
from capeval.files.packaged import sample_folder
from capeval.files.reading import read_text
from capeval.files.videos import VideoFolder, relative_url
from capeval.options import FilePath, takes
from capeval.rating.agreement import Agreement, agreement, agreement_by_type
from capeval.rating.merging import (
    RatedFile,
    check_key,
    checked_raters,
    human_csv,
    read_key,
    read_rated,
)
from capeval.rating.sheet import (
    DEFAULT_VIDEOS,
    RatingSheet,
    key_csv,
    sample_sheet,
    sheet_html,
)
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import attempt, find_run, is_taken
from capeval.runs.sources import (
    SAMPLE,
    Source,
    annotations_file,
    annotations_of,
    from_file,
    from_run,
    sample_captions,
)
from capeval.schema import Annotation, ElementType
from capeval.text import counted


@dataclass(frozen=True)
class SheetFiles:
    """A rating sheet that was written: `page` for raters, `key` only for you.

    `missing_videos` are the reasons why videos cannot be played in the page.
    """

    sheet: RatingSheet
    page: Path
    key: Path
    runs: int
    videos: int
    videos_found: int
    missing_videos: tuple[str, ...]


@dataclass(frozen=True)
class MergedRatings:
    """Ratings that were merged into `file`, and how well the raters agree."""

    file: Path
    raters: tuple[RatedFile, ...]
    agreement: Agreement
    by_type: Mapping[ElementType, Agreement]


@takes(SheetOptions)
def rate_sheet(o: SheetOptions) -> SheetFiles:
    """Sample captions for human raters and write `sheet.html` and `key.csv`.

    Raises
    ------
    InputError, UsageError
        A run cannot be loaded, the runs' annotations differ, there are too few videos or runs, or
        `out` contains another sheet.
    """
    folder = Path(o.out)
    sources = _sources(o)
    first = sources[0]
    read = [annotations_file(source.annotations_path) for source in sources]
    for name in ("key.csv", "sheet.html"):
        check_output(folder / name, read)
    for source in sources[1:]:
        if annotations_hash(source.annotations) != annotations_hash(first.annotations):
            raise UsageError(
                f"{first.name} and {source.name} have different annotations; name the runs to be "
                "rated together, or one file for all with --annotations"
            )
    drawn = sample_sheet(
        first.annotations,
        {source.name: {c.index: c.caption for c in source.captions} for source in sources},
        videos=o.count,
        per_video=o.per_video,
        seed=o.seed,
    )
    key, text = folder / "key.csv", key_csv(drawn)
    if key.exists() and read_text(key) != text:
        raise InputError(
            "belongs to another sheet (of other captions, runs or options); choose another --out",
            file=key,
        )
    sampled = {item.annotation.index: item.annotation for item in drawn.items}
    if o.count is None and len(sampled) < DEFAULT_VIDEOS:
        o.on_notice(
            f"only {counted(len(sampled), 'video')} {'has' if len(sampled) == 1 else 'have'} "
            f"captions, so all of them are used; a study usually has {DEFAULT_VIDEOS}"
        )
    urls, missing = _urls(
        first, list(sampled.values()), None if o.videos is None else Path(o.videos), folder
    )
    write_atomic(key, text)
    write_atomic(folder / "sheet.html", sheet_html(drawn, urls))
    return SheetFiles(
        sheet=drawn,
        page=folder / "sheet.html",
        key=key,
        runs=len(sources),
        videos=len(sampled),
        videos_found=len(urls),
        missing_videos=tuple(missing),
    )


@takes(MergeOptions)
def rate_merge(o: MergeOptions) -> MergedRatings:
    """Merge the raters' files into `human.csv` and compute how well the raters agree.

    Raises
    ------
    InputError, UsageError
        A file does not belong to the key, is incomplete, or `out` cannot be written.
    """
    target, key = Path(o.out), Path(o.key)
    paths = [Path(file) for file in o.files]
    texts = [] if o.annotations is None else [o.annotations]
    check_output(target, [*paths, key, *map(annotations_file, texts)])
    items = read_key(key)
    known = None if o.annotations is None else annotations_of(o.annotations)
    if known is not None:
        check_key(items, known, file=key)
    raters = checked_raters([read_rated(path, items) for path in paths], partial=o.partial)
    for file in raters:
        if file.missing:
            o.on_notice(f"{file.path}: {file.missing_labels}")
    text = human_csv(raters, items)
    if target.is_file() and not o.force and target.read_bytes() != text.encode("utf-8"):
        raise UsageError(
            f"--out: {o.out} exists with other contents; choose another file, or replace it with "
            "--force"
        )
    write_output(target, text)
    return MergedRatings(
        file=target,
        raters=raters,
        agreement=agreement(raters, items),
        by_type={} if known is None else agreement_by_type(raters, items, known),
    )


def _sources(o: SheetOptions) -> list[Source]:
    sample, runs, known = sample_captions(), Path(o.runs), o.annotations

    def bundled(name: str) -> Source:
        return from_file(sample[name], known or SAMPLE, runs=runs, name=name)

    def source_of(name: FilePath) -> Source:
        if isinstance(name, str) and name in sample and not is_taken(name, runs):
            return bundled(name)
        found = find_run(name, runs)
        return from_run(found, known)

    if o.sampled_runs:
        found = [source_of(name) for name in o.sampled_runs]
    else:
        read = partial(from_run, annotations_path=known)
        found = attempt(read, RunFolder.all(runs), o.on_notice)
        found = found or [bundled(name) for name in sample]
    seen: set[str] = set()
    for source in found:
        if source.name in seen:
            raise UsageError(f"the run {source.name} is named twice")
        seen.add(source.name)
    return found


def _urls(
    source: Source, annotations: Sequence[Annotation], folder: Path | None, out: Path
) -> tuple[dict[str, str], list[str]]:
    """Return the URL of each video relative to the page, and why videos have none."""
    if folder is None and source.annotations_path == SAMPLE:
        folder = sample_folder() / "videos"
    if folder is None:
        return {}, []
    files, missing = VideoFolder(folder).find_all(annotations)
    urls = {index: relative_url(file, out) for index, file in files.items()}
    return urls, [str(error) for error in missing.values()]
