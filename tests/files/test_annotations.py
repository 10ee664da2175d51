import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capeval.errors import InputError, VideoError
from capeval.files.annotations import VideoFolder, annotations_hash, load_annotations
from capeval.files.captions import read_captions
from tests.files.making import element, record

pytestmark = pytest.mark.usefixtures("alone")

FILE = Path("a.json")


def of(**fields: Any) -> dict[str, Any]:
    return record(events=[{"event": "A dog runs.", "visual_elements": [element(**fields)]}])


_AT = 'entry 1: index "v": events.1.visual_elements.1'
WRONG: dict[str, tuple[object, str]] = {
    "no records": ([], "has no records"),
    "null": ([record("u"), None], "entry 2: must be a JSON object, not null"),
    "unknown type": (
        [of(type="cammera")],
        (
            f"{_AT}.type: must be 'camera', 'scene', 'action' or 'attribute', not \"cammera\"; "
            'did you mean "camera"?'
        ),
    ),
    "weight as text": ([of(weight="1")], f'{_AT}.weight: must be 1, 2 or 3, not "1"'),
    "content blank": ([of(content=" \n")], f"{_AT}.content: is blank"),
    "start": (
        [record(events=[{"event": "A.", "visual_elements": [element()], "start": -1}])],
        'entry 1: index "v": events.1.start: must be at least 0, not -1',
    ),
    "duplicate index": (
        [record("u"), record(), record()],
        'entry 3: index "v": index: is duplicated (see entry 2)',
    ),
    "hostile index": (
        [record("\x1b[31m\n" + "x" * 10_000, events=[])],
        f'entry 1: index "\\u001b[31m\\n{"x" * 46}…: events: needs at least 1, and has 0',
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_annotations_are_reported_in_one_line(case: str) -> None:
    value, message = WRONG[case]
    FILE.write_text(json.dumps(value))
    with pytest.raises(InputError) as error:
        load_annotations(FILE)
    text = str(error.value)
    assert text.startswith(f"a.json: {message}")
    assert error.value.exit_code == 2
    assert text.isprintable()
    assert len(text) <= 300


LAYOUTS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "JSON lines": lambda records: "\n".join(map(json.dumps, records)) + "\n",
    "CRLF": lambda records: "\r\n".join(map(json.dumps, records)) + "\r\n",
    "byte order mark": lambda records: "\ufeff" + json.dumps(records),
    "foreign fields": lambda records: json.dumps([r | {"url": "x", "n": None} for r in records]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_loads_the_same_and_hashes_the_same(layout: str) -> None:
    records = [
        record(index, visual_characteristic="High-Dynamic,Multi-Scene", domain="Film")
        for index in ("b", "a", "U\u2028 \u0085\U0001f415")
    ]
    FILE.write_text(json.dumps(records))
    expected = load_annotations(FILE)
    FILE.write_bytes(LAYOUTS[layout](records).encode())
    loaded = load_annotations(FILE)
    assert loaded == expected
    assert annotations_hash(loaded) == annotations_hash(expected)
    assert [annotation.index for annotation in loaded] == ["b", "a", "U\u2028 \u0085\U0001f415"]


def test_hash_does_not_depend_on_the_video_file_but_on_what_is_judged() -> None:
    def hashed(*records: dict[str, Any]) -> str:
        FILE.write_text(json.dumps(records))
        return annotations_hash(load_annotations(FILE))

    same = hashed(record())
    assert hashed(record(video="elsewhere.mp4", note="x")) == same
    others = {
        hashed(of(weight=2)),
        hashed(of(type="scene")),
        hashed(of(content="A cat runs.")),
        hashed(record(domain="Film")),
        hashed(record(visual_characteristic="Low-Dynamic")),
        hashed(record("w")),
        hashed(record(), record("w")),
    }
    assert len(others | {same}) == 8


DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
PUBLISHED = [DATA / f"tuna_example_{name}.json" for name in ("metadata", "submission")]


@pytest.mark.skipif(not all(map(Path.is_file, PUBLISHED)), reason=f"not in {DATA}")
def test_files_that_the_benchmark_publishes_load() -> None:
    annotations = load_annotations(PUBLISHED[0])
    (example,) = [each for each in annotations if each.index == "TUNA_0348"]
    assert example.visual_characteristic == ("High-Dynamic", "Multi-Scene", "Multi-Subject")
    assert {one.type for one in example.elements.values()} == {
        *("camera", "scene", "action", "attribute")
    }
    captions = read_captions(PUBLISHED[1], ()).captions
    assert captions[0].index == "TUNA_0001"
    assert not any(caption.is_empty for caption in captions)


@pytest.fixture
def folder(tmp_path: Path) -> VideoFolder:
    for file in (
        *("a.mp4", "b.MKV", "c.v1.webm", "d.mp4", "d.mov", "e.txt", "k.mp4", "k/x.txt", ".h.mp4"),
        *("film/f.avi", "film/a.mp4", "sport/f.avi", "film/g.mp4"),
    ):
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "gone.mp4").symlink_to(tmp_path / "elsewhere.mp4")
    return VideoFolder(tmp_path)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("a", "a.mp4"),
        ("c.v1", "c.v1.webm"),
        ("d.mov", "d.mov"),
        ("film/f", "film/f.avi"),
        ("g.mp4", "film/g.mp4"),
        ("k", "k.mp4"),
        # The reader's error says where the link leads.
        ("gone", "gone.mp4"),
    ],
)
def test_a_video_is_found_with_or_without_its_suffix(
    name: str, file: str, folder: VideoFolder
) -> None:
    assert folder.find(name) == folder.path / file


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "has no video nothing"),
        ("a.webm", "has no video a.webm; there is a.mp4"),
        ("d", "2 files have this name (d.mov, d.mp4)"),
        ("f", "2 files have this name (film/f.avi, sport/f.avi)"),
        ("other/a", "has no video other/a"),
        (".h", "has no video .h"),
        ("../a.mp4", "leads out of the folder"),
        ("a\0b", "leads out of the folder"),
        ("", "leads out of the folder"),
        ("x" * 300, "has no video x"),
    ],
)
def test_what_cannot_be_found_says_why(name: str, message: str, folder: VideoFolder) -> None:
    with pytest.raises(VideoError) as caught:
        folder.find(name)
    assert message in str(caught.value)


def test_names_are_alike_in_both_unicode_forms(tmp_path: Path) -> None:
    nfc, nfd = "\ud55c\uad6d", unicodedata.normalize("NFD", "\ud55c\uad6d")
    for stored, asked in ((nfc, nfd), (nfd, nfc)):
        folder = tmp_path / stored
        (folder / stored).mkdir(parents=True)
        (folder / f"{stored}.mp4").touch()
        (folder / stored / "a.mp4").touch()
        for name in (asked, f"{asked}.mp4"):
            assert VideoFolder(folder).find(name) == folder / f"{stored}.mp4"
        assert VideoFolder(folder).find(f"{asked}/a.mp4") == folder / stored / "a.mp4"
