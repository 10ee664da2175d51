"""The layout of a run: captions, a manifest of what produced them, and a folder for each judge."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from capeval.errors import InputError, RunLocked, UsageError
from capeval.files.captions import load_captions
from capeval.files.jsonl import (
    dumps,
    numbered_lines,
    parse_json,
    read_bytes,
    read_text,
    reading,
    remove_empty,
    write_atomic,
)
from capeval.files.judgments import judgment_lines
from capeval.schema import Caption

_SHARD = re.compile(r"([1-9]\d{0,5})/([1-9]\d{0,5})", re.ASCII)
_FILE = re.compile(r"[a-z]+\.(\d+)-of-(\d+)\.jsonl", re.ASCII)


@dataclass(frozen=True, order=True)
class Shard:
    """Part `number` (from 1) of `count`: every `count`-th video or question."""

    number: int
    count: int

    @classmethod
    def read(cls, text: str) -> Self:
        found = _SHARD.fullmatch(text.strip())
        if not found or int(found[1]) > int(found[2]):
            raise UsageError(f"--shard: {text!r} must be I/N with I from 1 to N, such as 2/4")
        return cls(int(found[1]), int(found[2]))

    def holds(self, position: int) -> bool:
        """Return whether the item at `position` (from 0) is in this shard."""
        return position % self.count == self.number - 1

    @property
    def label(self) -> str:
        return f"{self.number}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def shards_in(folder: Path) -> list[Shard]:
    """Return the shards whose files are in a run's folder."""
    if not folder.is_dir():
        return []
    found = {_FILE.fullmatch(entry.name) for entry in folder.iterdir()}
    return sorted({Shard(int(match[1]), int(match[2])) for match in found if match})


def file_of(folder: Path, name: str, shard: Shard | None) -> Path:
    """Return the file `name` of a run, or of a shard of it."""
    return folder / (f"{name}.{shard.label}.jsonl" if shard else f"{name}.jsonl")


@dataclass(frozen=True)
class JudgeFolder:
    """The files of one judge in a run.

    `judge.json` names the judge, the last requested number of repeats, and whether all captions
    were judged and scored (see `scoring.judged_run.fingerprint`). Verdicts made elsewhere lack it.
    """

    path: Path

    @property
    def judgments(self) -> Path:
        return self.path / "judgments.jsonl"

    @property
    def scores(self) -> Path:
        return self.path / "scores.json"

    @property
    def calibrated(self) -> Path:
        return self.path / "calibrated.json"

    @property
    def agreement(self) -> Path:
        """`agreement.json`: how far the judge agrees with human raters."""
        return self.path / "agreement.json"

    @property
    def judge(self) -> Path:
        return self.path / "judge.json"

    @property
    def run(self) -> RunFolder | None:
        run = RunFolder(self.path.absolute().parent)
        return run if run.exists() else None

    def has_verdicts(self) -> bool:
        """Return whether `judgments.jsonl` has content, or is unreadable: its reader says so."""
        try:
            return self.judgments.stat().st_size > 0
        except PermissionError:
            return True
        except OSError:
            return False

    def read_judge(self) -> dict[str, Any]:
        return read_object(self.judge)

    def write_judge(self, judge: Mapping[str, Any]) -> None:
        if self.read_judge() != judge:
            write_atomic(self.judge, dumps(judge, indent=1) + "\n")

    @property
    def repeats(self) -> int | None:
        """The last requested number of repeats, if known."""
        found = self.read_judge().get("repeats")
        return found if isinstance(found, int) and found > 0 else None

    def owner(self) -> str | None:
        """Return the hash of the identity of the judge that the folder belongs to, if any."""
        owner = self.read_judge().get("hash")
        if owner is None and self.has_verdicts():
            first = next(judgment_lines(self.judgments), None)
            owner = first.inputs.judge if first and first.inputs else "unknown"
        return owner


@dataclass(frozen=True)
class RunFolder:
    """One run, at `path`; its name is the folder's."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def __str__(self) -> str:
        """Return the path as a user would type it: relative to the working folder, if it is in it.

        A run can be found from within, and is then known by its whole path.
        """
        here = Path.cwd()
        return str(self.path.relative_to(here) if self.path.is_relative_to(here) else self.path)

    @property
    def captions(self) -> Path:
        return self.path / "captions.jsonl"

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def known_verdicts(self) -> Path:
        """`labels.csv`, which only probes have."""
        return self.path / "labels.csv"

    @property
    def caption_files(self) -> list[Path]:
        """`captions.jsonl` and the captions of unmerged shards, if they exist."""
        with reading():
            shards = [file_of(self.path, "captions", shard) for shard in shards_in(self.path)]
        return [file for file in (self.captions, *shards) if _is_file(file)]

    def captions_before(self) -> Path:
        """Return the file that keeps the present captions after others have replaced them."""
        digest = hashlib.sha256(read_bytes(self.captions)).hexdigest()
        return self.path / f"captions.BEFORE-{digest[:12]}.jsonl"

    def exists(self) -> bool:
        """Return whether there are captions, or an unreadable folder."""
        return _is_file(self.captions) or bool(self.caption_files)

    def read_captions(self) -> tuple[Caption, ...]:
        """Return the captions of all files, none if there is no file; raises `InputError`.

        An incomplete last line is ignored, and so is a file without a complete line where there are
        others. Of one video, a shard's caption is the later one.
        """
        found: list[Caption] = []
        files = self.caption_files
        for file in files:
            if len(files) > 1 and not any(True for _ in numbered_lines(file)):
                continue
            later = load_captions(file)
            made_with = {(one.model_extra or {}).get("settings") for one in (*found[:1], *later)}
            if len(files) > 1 and len(made_with) > 1:
                message = "was generated with other settings than the run's other captions"
                raise InputError(f"{message}; settings cannot be mixed in one run", file=file)
            replaced = {caption.index for caption in later}
            found = [one for one in found if one.index not in replaced] + [*later]
        return tuple(found)

    def read_manifest(self) -> dict[str, Any]:
        """Return what produced the captions; empty if unknown."""
        return read_object(self.manifest)

    def judge(
        self, name: str, prompts: str | None, reasoning: str | None = None, *, identity: str
    ) -> JudgeFolder:
        """Return the folder `JUDGE@PROMPTS`, or `JUDGE@PROMPTS@EFFORT`, of a judge.

        If a judge of another identity has that folder, the name gets the beginning of the
        identity's hash. Many file systems take names that differ only by case for one.
        """
        plain = safe_name("@".join(part for part in (name, prompts, reasoning) if part))
        there = {entry.name.lower(): entry for entry in self._folders()}
        folder = JudgeFolder(there.get(plain.lower(), self.path / plain))
        if folder.owner() in (None, identity):
            return folder
        return JudgeFolder(self.path / f"{plain}-{identity[:6]}")

    def _folders(self) -> list[Path]:
        with reading():
            if not self.path.is_dir():
                return []
            return [entry for entry in sorted(self.path.iterdir()) if entry.is_dir()]

    def judges(self, named: str | None = None) -> list[JudgeFolder]:
        """Return the folders of this run's judges that have verdicts.

        Only the judge that is `named` so; if there is none, those whose names begin so.
        """
        judges = [one for one in map(JudgeFolder, self._folders()) if one.has_verdicts()]
        if named is None:
            return judges
        # A model's own name may have characters that its folder's cannot have.
        names = (named, _plain(named))
        exact = [one for one in judges if one.path.name in names]
        return exact or [one for one in judges if one.path.name.startswith(names)]

    def annotations_in(self, manifest: Mapping[str, Any]) -> str | None:
        """Return the path of the annotations in the run's manifest, if it has one.

        A relative one is a file beside the folder of the runs, wherever the command is run.
        """
        stored = manifest.get("annotations")
        path = stored.get("path") if isinstance(stored, dict) else None
        if not isinstance(path, str):
            return None
        project = self.path.resolve().parent.parent
        is_elsewhere = project != Path.cwd() and (project / path).is_file()
        return str(project / path) if is_elsewhere else path

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        if self.read_manifest() != manifest:
            write_atomic(self.manifest, dumps(manifest, indent=2) + "\n")

    @contextmanager
    def locked(self, *, part: str = "", wait: float = 0.0) -> Iterator[None]:
        """Lock the run, or a `part` of it; raise `RunLocked` if that takes over `wait` seconds.

        The lock's file and new folders are removed at the end.
        """
        created = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / (f".lock.{part}" if part else ".lock")
        lock = FileLock(file)
        try:
            lock.acquire(timeout=wait)
            while not file.exists():  # the last holder removed it before this process locked it
                lock.release()
                lock.acquire(timeout=wait)
        except Timeout:
            raise RunLocked(
                f"{self.path}: another capeval process is working in this folder; wait for it"
            ) from None
        try:
            yield
        finally:
            # While it is held: nobody else can be holding a file of this name.
            remove_empty([file, *created])
            lock.release()

    @contextmanager
    def locked_whole(self, *, wait: float = 0.0) -> Iterator[None]:
        """Lock the run, unless one of its shards is running."""
        with self.locked(wait=wait):
            for shard in shards_in(self.path):
                try:
                    with self.locked(part=shard.label):
                        pass
                except RunLocked:
                    still = f"{self}: shard {shard} is still running; wait for it"
                    raise RunLocked(still) from None
            yield

    @classmethod
    def all(cls, runs: Path) -> list[RunFolder]:
        if not runs.is_dir():
            return []
        return [run for entry in sorted(runs.iterdir()) if (run := cls(entry)).exists()]


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty if there is no file."""
    if not _is_file(path):
        return {}
    value = parse_json(read_text(path), file=path)
    if not isinstance(value, dict):
        raise InputError("must be a JSON object", file=path)
    return value


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # Permission denied: there may be one, and its reader gets an error about it.
        return True


# A plain name that looks like a changed one gets a hash too, so that the two never collide.
_HASHED = re.compile(r"-[0-9a-f]{6}$")


def safe_name(name: str) -> str:
    """Return `name` as one path component; a name that had to change gets a hash.

    >>> safe_name("gpt-4o-2024-08-06@tuna-cap-v1")
    'gpt-4o-2024-08-06@tuna-cap-v1'
    >>> safe_name("Qwen/Qwen3-8B@v1")
    'Qwen-Qwen3-8B@v1-ab265f'
    """
    stem = _plain(name)[:100].strip(".-") or "x"
    if stem == name and not _HASHED.search(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{stem}-{digest[:6]}"


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._@+-]", "-", name)
