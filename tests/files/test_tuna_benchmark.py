"""TUNA-1K as published: a folder, its archive of videos, and the download from the hub."""

import json
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import huggingface_hub
import pyarrow as pa
import pytest
from pyarrow import parquet

from capeval.errors import InputError
from capeval.files.annotations import load_annotations, videos_of
from capeval.mcq.question_files import load_questions
from capeval.runs.sources import annotations_of, default_videos
from tests.files.making import element

ELEMENTS = [element(), element(type="scene")]
EVENTS = [{"event": "A dog runs.", "visual_elements": ELEMENTS}]
BY_FIELD = {
    "event": ["A dog runs."],
    "visual_elements": [{name: [one[name] for one in ELEMENTS] for name in ELEMENTS[0]}],
}


def published(folder: Path, events: object = EVENTS, **fields: object) -> Path:
    row = {
        "video": "TUNA_0001",
        "visual_characteristic": "High-Dynamic, Multi-Scene",
        "domain": "Film",
        "question": "Describe the video.",
        "events": events,
    } | fields
    question = {
        "video_index": 1,
        "video": "TUNA_0001",
        "task": "Action",
        "question": "What runs?",
        "answer": "A dog",
        "candidates": "['A dog', 'A cat']",
    }
    for name, record in (("tuna_cap", row), ("tuna_mcq", question)):
        (folder / name).mkdir(parents=True)
        table = pa.Table.from_pylist([record])
        parquet.write_table(table, folder / name / "test-00000-of-00001.parquet")
    archived(folder, "video/TUNA_0001.mp4")
    return folder


def archived(folder: Path, *names: str) -> None:
    with zipfile.ZipFile(folder / "videos.zip", "w") as archive:
        for name in names:
            archive.writestr(name, b"film")


@pytest.mark.parametrize("events", [EVENTS, json.dumps(EVENTS), BY_FIELD, json.dumps(BY_FIELD)])
@pytest.mark.parametrize("prefix", ["", "tuna:"])
def test_a_folder_is_read_however_events_are_nested(
    tmp_path: Path, events: object, prefix: str
) -> None:
    folder = published(tmp_path / "bench", events)

    (one,) = annotations_of(f"{prefix}{folder}")

    assert (one.index, one.video, one.domain) == ("TUNA_0001", "TUNA_0001", "Film")
    assert one.visual_characteristic == ("High-Dynamic", "Multi-Scene")
    assert [element.type for element in one.elements.values()] == ["action", "scene"]
    assert load_questions(folder)[0].options == ("A dog", "A cat")


def test_an_own_index_is_kept_and_shards_are_joined(tmp_path: Path) -> None:
    assert load_annotations(published(tmp_path / "rows", index=0))[0].index == "TUNA_0001"
    folder = published(tmp_path, index="clip 1")
    row = {"video": "TUNA_0002", "events": EVENTS}
    second = folder / "tuna_cap" / "test-00001-of-00002.parquet"
    parquet.write_table(pa.Table.from_pylist([row]), second)
    assert [one.index for one in load_annotations(folder)] == ["clip 1", "TUNA_0002"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"events": "not JSON"}, "TUNA_0001.*events: "),
        ({"events": [{"event": "A dog runs."}]}, "TUNA_0001.*visual_elements"),
        ({"video": None}, "index"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_annotations(published(tmp_path, **fields))


def test_the_archive_is_unpacked_once(tmp_path: Path) -> None:
    folder = published(tmp_path)
    # A killed process has left a part.
    (folder / ".video.unpacking" / "video").mkdir(parents=True)
    (folder / ".video.unpacking" / "video" / "half.mp4").write_bytes(b"fi")

    assert default_videos(str(folder)) == folder / "video"
    assert not (folder / "video").exists()
    assert default_videos(str(folder), needed=True) == folder / "video"
    assert [one.read_bytes() for one in (folder / "video").iterdir()] == [b"film"]
    (folder / "videos.zip").unlink()
    assert videos_of(folder) == folder / "video"


@pytest.mark.parametrize("name", ["/tmp/out.mp4", "video/../../out.mp4"])
def test_an_archive_writes_nothing_outside_of_its_folder(tmp_path: Path, name: str) -> None:
    folder = published(tmp_path / "bench")
    archived(folder, "video/TUNA_0001.mp4", name)
    before = {*tmp_path.rglob("*")}
    videos = videos_of(folder)
    new = {*tmp_path.rglob("*")} - before - {videos, folder / ".video.lock"}
    assert new >= {videos / "TUNA_0001.mp4"}
    assert all(videos in path.parents for path in new)


def test_a_damaged_archive_leaves_nothing(tmp_path: Path) -> None:
    folder = published(tmp_path)
    whole = (folder / "videos.zip").read_bytes()
    (folder / "videos.zip").write_bytes(whole.replace(b"film", b"fulm"))

    with pytest.raises(InputError, match="is damaged"):
        videos_of(folder)

    assert not [*folder.glob(".video.u*"), *folder.glob("video")]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A hub with the benchmark's files; returns the patterns that were downloaded."""
    there = published(tmp_path / "hub")
    cache, downloaded = tmp_path / "cache" / "snapshots" / "c0ffee", []

    def snapshot(_: str, *, allow_patterns: list[str], local_files_only: bool, **__: Any) -> str:
        (pattern,) = allow_patterns
        if not local_files_only:
            downloaded.append(pattern)
            for file in there.glob(pattern):
                copy = cache / file.relative_to(there)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(file.read_bytes())
        elif not cache.is_dir():
            raise FileNotFoundError("no snapshot is in the cache")
        return str(cache)

    real = create_autospec(huggingface_hub.snapshot_download, side_effect=snapshot)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", real)
    return downloaded


def test_the_names_download_once(hub: list[str]) -> None:
    for _ in range(2):
        assert annotations_of("tuna")[0].index == "TUNA_0001"
        assert load_questions("tuna-mcq")[0].video == "TUNA_0001"
        (film,) = default_videos("tuna", needed=True).iterdir()
        assert film.name == "TUNA_0001.mp4"
    assert hub == ["tuna_cap/*.parquet", "tuna_mcq/*.parquet", "videos.zip"]


def test_without_a_network_one_line_says_what_to_get(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> str:
        raise ConnectionError("no\nroute")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(InputError, match=r"cannot be downloaded: get tuna_cap/.* name the folder"):
        annotations_of("tuna")
