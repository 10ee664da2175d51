"""Where captions and annotations come from: a file, a run, the sample, or memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from capeval.config import sample_folder
from capeval.errors import InputError, UsageError
from capeval.files.annotations import (
    ANNOTATIONS,
    VIDEO_LIST,
    VIDEOS,
    annotations_hash,
    benchmark_folder,
    is_benchmark,
    load_annotations,
    load_video_list,
    split_format,
    videos_of,
)
from capeval.files.captions import captions_hash, captions_in_memory, known_captions, read_captions
from capeval.files.jsonl import (
    Stamp,
    read_bytes,
    stamp_of,
    validated_records,
    write_atomic,
    write_jsonl,
)
from capeval.runs.folder import RunFolder
from capeval.schema import Annotation, Caption, Video
from capeval.text import counted, distinct, listed

SAMPLE = "sample"
"""The bundled annotations, wherever a path of annotations is expected."""

GivenAnnotations = str | Path | Sequence[Annotation | Mapping[str, Any]]
"""A path, or objects, or dicts as in a file."""


@dataclass(frozen=True)
class Source:
    """Captions with the annotations that they are judged against.

    `run` is where results are stored; None keeps them in memory.
    """

    name: str
    run: RunFolder | None
    annotations: tuple[Annotation, ...]
    captions: tuple[Caption, ...]
    annotations_path: str
    origin: str | None = None
    """The captions file, if it is not the run's own."""
    notices: tuple[str, ...] = ()
    """How the captions file was read, if another program wrote it."""
    is_assumed: bool = False
    """Whether some captions are placeholders for captions yet to be generated."""
    replaces: bool | None = None
    """Whether these captions replace others of the run; None if they never can."""

    @property
    def warnings(self) -> list[str]:
        made = self.run.read_manifest().get("generation", {}) if self.run else {}
        drafted = ({"drafted_by": one.drafted_by} for one in self.annotations)
        models = (made.get("model"), *(one.model for one in self.captions))
        return tested_model_warnings(self.name, "annotations", drafted, models)

    @cached_property
    def captions_hash(self) -> str:
        return captions_hash(self.captions)

    def check(self) -> tuple[Caption, ...] | None:
        """Return the captions that these replace, None if a run of this name has no others.

        Raises `InputError` if they are not to be replaced.
        """
        if self.run is None or self.origin is None or not self.run.exists():
            return None
        others = self.run.read_captions()
        is_same = captions_hash(others) == self.captions_hash
        # What a model wrote is continued by that model alone.
        can_replace = self.replaces is not None and "generation" not in self.run.read_manifest()
        if self.replaces and can_replace:
            before, now = ({one.index: one.model for one in of} for of in (others, self.captions))
            return None if is_same and before == now else others
        if is_same:
            return None
        way = "; choose another name with --run"
        if can_replace:
            way += ", or replace them with `capeval judge --replace-captions`"
        raise InputError(f"has different captions from {self.origin}{way}", file=self.run.path)

    def store(self) -> None:
        """Write the manifest, and the captions if the run has none or others; call `check` before.

        Captions that are replaced are kept.
        """
        if self.run is None:
            return
        is_replaced = self.check() is not None if self.replaces else False
        manifest = self.run.read_manifest()
        annotations, captions = len(self.annotations), len(self.captions)
        manifest["annotations"] = {
            "path": self.annotations_path,
            "sha256": annotations_hash(self.annotations),
            "count": annotations,
        }
        if self.origin is not None and "generation" not in manifest:
            source = {"source": self.origin, "sha256": self.captions_hash, "count": captions}
            manifest["captions"] = source
        # After a kill between the two, the run may still take other captions.
        self.run.write_manifest(manifest)
        if is_replaced and not (kept := self.run.captions_before()).exists():
            write_atomic(kept, read_bytes(self.run.captions))
        if is_replaced or not self.run.exists():
            lines = (caption.model_dump(exclude_none=True) for caption in self.captions)
            write_jsonl(self.run.captions, lines)


def annotations_file(path: str | Path) -> Path:
    """Return the file or folder of annotations, without the prefix of a format.

    `sample` means the bundled ones and `tuna` TUNA-1K, which may have to be downloaded.
    """
    file = split_format(path)[1]
    if file.exists():
        return file
    if str(path) == SAMPLE:
        return sample_folder() / "annotations.json"
    return benchmark_folder(ANNOTATIONS) if str(path) == ANNOTATIONS else file


def annotations_of(path: GivenAnnotations) -> tuple[Annotation, ...]:
    """Load annotations from a path, from what `annotations_file` says of a name, or from memory."""
    if not isinstance(path, str | Path):
        return _in_memory(path)
    file = annotations_file(path)
    source = file if split_format(path)[0] is None else path
    if not file.is_file():  # the stamp of a folder does not change with the files in it
        return load_annotations(source)
    return _unchanged(source, Path.cwd(), stamp_of(file))


@lru_cache(maxsize=2)
def _unchanged(source: Path | str, _folder: Path, _stamp: Stamp) -> tuple[Annotation, ...]:
    # A hundred captions files against one set of annotations: it is read once.
    return load_annotations(source)


def videos_of_set(path: str | Path) -> tuple[Video, ...]:
    """Return the videos to caption: the annotated ones, or those kept in a list."""
    file = annotations_file(path)
    return load_video_list(file) if file.name == VIDEO_LIST else annotations_of(path)


def _in_memory(annotations: Sequence[Annotation | Mapping[str, Any]]) -> tuple[Annotation, ...]:
    found = [one for one in annotations if isinstance(one, Annotation)]
    if found or not annotations:
        if len(found) < len(annotations):
            raise UsageError("annotations must be all dicts, or all Annotation objects")
        return tuple(found)
    records = ((f"annotation {number}", one) for number, one in enumerate(annotations, start=1))
    return validated_records(Annotation, records, file=Path("annotations"))


def from_file(
    path: Path,
    annotations_path: str | Path | None,
    *,
    runs: Path,
    name: str,
    ignore_unknown: bool = False,
    columns: Mapping[str, str] | None = None,
    replaces: bool = False,
) -> Source:
    """Return the captions of a file, in any layout, as the run `name`."""
    if annotations_path is None:
        raise UsageError(f"{path}: name its annotations with --annotations")
    annotations = annotations_of(annotations_path)
    found = read_captions(path, annotations, columns)
    captions, skipped = _known(found.captions, annotations, path, ignore_unknown)
    run = RunFolder(runs / run_name(name))
    notices = (*found.notices, *skipped)
    return Source(
        *(name, run, annotations, captions, str(annotations_path), str(path), notices),
        replaces=replaces,
    )


def distinct_names(named: Sequence[tuple[str, Path]]) -> list[str]:
    """Return the names of captions, each given with its file or the folder of its run.

    If names clash, it is the file's own name, or else its folder's.
    """
    return distinct(
        [name for name, _ in named],
        [file.stem if file.is_file() else name for name, file in named],
        [file.resolve().parent.name if file.is_file() else name for name, file in named],
    )


def run_name(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\\" in name or not name.isprintable():
        raise UsageError(f"{name!r} cannot name a run; use a plain name without slashes")
    return name


def from_run(
    run: RunFolder, annotations_path: str | Path | None, *, ignore_unknown: bool = False
) -> Source:
    """Return the captions of a run; its manifest names the annotations unless they are given."""
    path = annotations_path or annotations_named_by(run.path)
    if path is None:
        raise UsageError(f"{run.path}: name its annotations with --annotations")
    annotations = annotations_of(path)
    file = run.captions if run.caption_files in ([], [run.captions]) else run.path
    captions, skipped = _known(run.read_captions(), annotations, file, ignore_unknown)
    return Source(run.name, run, annotations, captions, str(path), notices=skipped)


def _known(
    read: tuple[Caption, ...],
    annotations: Sequence[Annotation],
    file: Path,
    ignore_unknown: bool,
) -> tuple[tuple[Caption, ...], tuple[str, ...]]:
    known = known_captions(read, annotations, file=file, ignore_unknown=ignore_unknown)
    kept = {one.index for one in known}
    left = [one.index for one in read if one.index not in kept]
    what = f"{counted(len(left), 'caption')} of videos without an annotation left out"
    return known, ((f"{file}: {what}: {listed(left)}",) if left else ())


def run_around(path: Path) -> RunFolder | None:
    """Return the run that a path is: its folder, a judge's folder in it, or a file in either."""
    full = path.absolute()
    folders = (full, full.parent, full.parent.parent)
    return next((run for run in map(RunFolder, folders) if run.exists()), None)


def annotations_named_by(path: Path) -> str | None:
    """Return the annotations of the run that a path is in, if they are known."""
    run = run_around(path)
    return run.annotations_in(run.read_manifest()) if run else None


def is_bundled(name: str) -> bool:
    return name.startswith(f"{SAMPLE}-")


def sample_captions() -> dict[str, Path]:
    folder = sample_folder() / "captions"
    return {f"{SAMPLE}-{path.stem}": path for path in sorted(folder.glob("*.jsonl"))}


def from_memory(
    captions: Mapping[str, str] | Sequence[Caption],
    annotations: GivenAnnotations,
    *,
    run: RunFolder | None = None,
    ignore_unknown: bool = False,
    replaces: bool = False,
) -> Source:
    """Return captions in memory as a source; with a `run` they are stored."""
    path = str(annotations) if isinstance(annotations, str | Path) else "memory"
    loaded = annotations_of(annotations)
    given = captions_in_memory(captions)
    known = known_captions(given.captions, loaded, file="captions", ignore_unknown=ignore_unknown)
    name = run.name if run else "captions"
    return Source(name, run, loaded, known, path, "memory", given.notices, replaces=replaces)


def default_videos(annotations_path: str, *, needed: bool = False) -> Path:
    """Return the default video folder: `videos` next to the annotations, or their own folder.

    With `needed`, TUNA-1K's archive of videos is downloaded and unpacked if they are not there.
    """
    file = annotations_file(annotations_path)
    if file.is_dir() and is_benchmark(file):
        return videos_of(file) if needed else file / VIDEOS
    folder = file if file.is_dir() else file.parent
    return folder / "videos" if (folder / "videos").is_dir() else folder


def base_name(model: str) -> str:
    """Return the name of a model without its hub and owner.

    >>> base_name("hf:Qwen/Qwen3-VL-8B-Instruct")
    'Qwen3-VL-8B-Instruct'
    """
    return model.removeprefix("hf:").rstrip("/").rpartition("/")[2] or model


def tested_model_warnings(
    run: str, what: str, made: Iterable[Mapping[str, Any]], models: Iterable[str | None]
) -> list[str]:
    """Return warnings that a run's model drafted or filtered annotations or questions.

    `made` are the `drafted_by` and `filtered_by` of each, as far as known; `models` are the names
    of the run's model, besides the run's own name.
    """
    names = {_key(name) for name in (run, *models) if name}
    found = {
        (how, model)
        for one in made
        for how in ("drafted", "filtered")
        for model in one.get(f"{how}_by") or ()
        if _key(model) in names
    }
    return [
        f"{run}: the {what} were {how} with {model}, the tested model: its scores may be too high"
        for how, model in sorted(found)
    ]


def _key(name: str) -> str:
    # The name of a run of questions ends in the shown frames: MODEL@16.
    return base_name(name).partition("@")[0].casefold()
