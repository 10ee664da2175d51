"""TUNA-1K as published: a folder, its archive of videos, and the download from the hub."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import run
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from capeval.errors import InputError
from capeval.files.annotations import load_annotations, videos_of
from capeval.mcq.question_files import load_questions
from capeval.runs.sources import annotations_of, default_videos

ELEMENT = {"content": "A dog runs.", "type": "action", "weight": 3}
EVENTS = [{"event": "A dog runs.", "visual_elements": [ELEMENT, {**ELEMENT, "type": "scene"}]}]
BY_FIELD = {
    "event": ["A dog runs."],
    "visual_elements": [
        {name: [ELEMENT[name], "scene" if name == "type" else ELEMENT[name]] for name in ELEMENT}
    ],
}


def published(folder: Path, events: object = EVENTS, **fields: object) -> Path:
    """Write one annotated video, one question and the archive, in the benchmark's own files."""
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


def test_an_own_index_is_kept(tmp_path: Path) -> None:
    assert load_annotations(published(tmp_path, index="clip 1"))[0].index == "clip 1"
    assert load_annotations(published(tmp_path / "rows", index=0))[0].index == "TUNA_0001"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"events": None}, "TUNA_0001.: events: must be a list"),
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

    assert default_videos(str(folder)) == folder / "video"
    assert not (folder / "video").exists()
    assert default_videos(str(folder), needed=True) == folder / "video"
    assert (folder / "video" / "TUNA_0001.mp4").read_bytes() == b"film"
    (folder / "videos.zip").unlink()
    assert videos_of(folder) == folder / "video"


def test_what_a_killed_process_unpacked_is_removed(tmp_path: Path) -> None:
    folder = published(tmp_path)
    (folder / ".video.unpacking" / "video").mkdir(parents=True)
    (folder / ".video.unpacking" / "video" / "half.mp4").write_bytes(b"fi")

    assert [one.name for one in videos_of(folder).iterdir()] == ["TUNA_0001.mp4"]
    assert not (folder / ".video.unpacking").exists()


def test_shards_of_the_annotations_are_joined(tmp_path: Path) -> None:
    folder = published(tmp_path)
    (first,) = (folder / "tuna_cap").iterdir()
    row = parquet.read_table(first).to_pylist()[0] | {"video": "TUNA_0002"}
    second = first.with_name("test-00001-of-00002.parquet")
    parquet.write_table(pa.Table.from_pylist([row]), second)

    assert [one.index for one in load_annotations(folder)] == ["TUNA_0001", "TUNA_0002"]


@pytest.mark.parametrize("name", ["../out.mp4", "/tmp/out.mp4", "video/../../out.mp4", "..\\o.mp4"])
def test_an_archive_writes_nothing_outside_of_its_folder(tmp_path: Path, name: str) -> None:
    folder = published(tmp_path / "bench")
    archived(folder, "video/TUNA_0001.mp4", name)
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(InputError, match="outside of its folder"):
        videos_of(folder)

    assert sorted({*tmp_path.rglob("*")} - {folder / ".video.lock"}) == before


def test_a_damaged_archive_leaves_nothing(tmp_path: Path) -> None:
    folder = published(tmp_path)
    whole = (folder / "videos.zip").read_bytes()
    (folder / "videos.zip").write_bytes(whole.replace(b"film", b"fulm"))

    with pytest.raises(InputError, match="is damaged"):
        videos_of(folder)

    assert not [*folder.glob(".video.u*"), *folder.glob("video")]


# ---- The hub -----------------------------------------------------------------------------------


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """A hub with the benchmark's files: its address, and the paths that were asked for."""
    folder = published(tmp_path / "hub")
    files = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    commit, asked = "c0ffee" + "0" * 34, []

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(with_body=True)

        def do_HEAD(self) -> None:
            self.answer(with_body=False)

        def answer(self, *, with_body: bool) -> None:
            path = self.path.partition("?")[0]
            asked.append(path)
            status, body, headers = 200, b"{}", {"Content-Type": "application/json"}
            if "/revision/" in path:
                siblings = [{"rfilename": name} for name in files]
                about = {"id": "friedrichor/TUNA-Bench", "sha": commit, "siblings": siblings}
                body = json.dumps(about).encode()
            elif "/tree/" in path:
                tree = [
                    {"type": "file", "path": n, "size": len(d), "oid": hashlib.sha1(d).hexdigest()}
                    for n, d in files.items()
                ]
                body = json.dumps(tree).encode()
            elif "/resolve/" in path:
                body = files[path.partition("/resolve/")[2].partition("/")[2]]
                etag = hashlib.sha1(body).hexdigest()
                headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit}
            else:
                status = 404
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


READ = """
from capeval.mcq.question_files import load_questions
from capeval.runs.sources import annotations_of, default_videos
try:
    print(annotations_of("tuna")[0].index, load_questions("tuna-mcq")[0].video)
    print(*default_videos("tuna", needed=True).iterdir())
except Exception as error:
    print(type(error).__name__, error)
"""


def read(endpoint: str, home: Path) -> str:
    """Read the benchmark by its name in a process of its own: the hub's address is read once."""
    environment = {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "PYTHONPATH": ":".join(sys.path)}
    environment |= {"NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-c", READ]
    done = run(command, env=environment, cwd=home, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_name_downloads_once(tmp_path: Path, hub: tuple[str, list[str]]) -> None:
    endpoint, asked = hub
    home = tmp_path / "home"
    home.mkdir()

    first = read(endpoint, home)
    requests = len(asked)

    assert first.startswith("TUNA_0001 TUNA_0001\n")
    assert first.strip().endswith("video/TUNA_0001.mp4")
    assert read(endpoint, home) == first
    assert len(asked) == requests


def test_without_a_network_one_line_says_what_to_get(tmp_path: Path) -> None:
    said = read("http://127.0.0.1:9", tmp_path)

    assert said.startswith("InputError friedrichor/TUNA-Bench: cannot be downloaded")
    assert "get tuna_cap/*.parquet of https://" in said
    assert "name the folder that it is in (" in said
    assert said.count("\n") == 1
