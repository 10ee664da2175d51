import unicodedata
from pathlib import Path

import pytest

from capeval.errors import VideoError
from capeval.files.annotations import VideoFolder


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
        ("a.mp4", "a.mp4"),
        ("c.v1", "c.v1.webm"),
        ("d.mov", "d.mov"),
        ("film/f", "film/f.avi"),
        ("film/a", "film/a.mp4"),
        ("g.mp4", "film/g.mp4"),
        ("k", "k.mp4"),
        # The reader's error says where the link leads.
        ("gone.mp4", "gone.mp4"),
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
        ("d", "2 files could be meant (d.mov, d.mp4)"),
        ("f", "2 files could be meant (film/f.avi, sport/f.avi)"),
        ("other/a", "has no video other/a"),
        (".h", "has no video .h"),
        ("../a.mp4", "leads out of the folder"),
        ("/etc/passwd", "leads out of the folder"),
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
