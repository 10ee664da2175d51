import base64
import io
import json
import sys
from pathlib import Path

import pytest
from PIL import Image

from capeval.config import sample_folder
from capeval.schema import Provenance
from tests.judged_runs import make_run, write_annotations
from tests.reporting.making import data_of
from tests.scoring.making import annotation, scored
from tests.world import Said, typed

VIDEOS = [
    annotation("sample_01", "c3 s1", "a2", domain="Film"),
    annotation("broken", "t2"),
    annotation("absent", "c1"),
]
LABELS = {"sample_01": "+0 -", "broken": "+"}
REPORT = Path("runs/mine/lexical-2/report.html")


def judge(run: str, name: str = "lexical-2", labels: dict[str, str] | None = None) -> None:
    by = Provenance(judge=name, prompts=None, baseline=name == "lexical-2")
    made = [scored(i, row, provenance=by) for i, row in (labels or LABELS).items()]
    make_run(Path(), run, [*made], judge=name)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judged run, annotations, and videos of which one is broken and one absent."""
    monkeypatch.chdir(tmp_path)
    write_annotations(Path(), VIDEOS)
    judge("mine")
    Path("videos").mkdir()
    clip = sample_folder() / "videos" / "sample_01.mp4"
    Path("videos/sample_01.mp4").write_bytes(clip.read_bytes())
    Path("videos/broken.mp4").write_bytes(b"no video")


def report(*arguments: str) -> Said:
    return typed(Path(), "report", *arguments)


def test_one_runs_report_lies_in_its_judges_folder() -> None:
    ended = report("mine")
    assert ended.code == 0
    # The first line is the answer.
    assert ended.out == (
        "mine: F1 77.3 [–] over 2 of 3 videos, judged by the baseline lexical-2; "
        f"report: {REPORT} ({REPORT.stat().st_size / 1e3:.0f} kB)\n"
    )
    assert (
        "no frames are shown for 2 of 3 videos, such as absent (videos: has no video absent); name "
        "the folder of the videos with --videos"
    ) in ended.err
    page = REPORT.read_text()
    first, broken, absent = data_of(page)["videos"]
    times = [float(time) for time, _ in first["frames"]]
    assert (len(times), times) == (8, sorted({*times}))
    picture = Image.open(io.BytesIO(base64.b64decode(first["frames"][0][1])))
    assert max(picture.size) <= 480
    assert broken["frames"].startswith("is not a video, or is cut off")
    assert absent["frames"] == "has no video absent"
    assert str(Path.cwd()) not in page


def test_videos_are_linked_or_embedded_if_they_are_small() -> None:
    def urls() -> list[str | None]:
        return [video.get("url") for video in data_of(REPORT.read_text())["videos"]]

    linked = ["./../../../videos/sample_01.mp4", "./../../../videos/broken.mp4", None]
    assert report("mine", "--frames", "0").err == ""
    assert urls() == linked
    Path("videos/broken.mp4").write_bytes(bytes(4_000_001))
    ended = report("mine", "--frames", "0", "--embed")
    assert "1 video linked, not embedded: the limit is 4 MB" in ended.err
    embedded, *others = urls()
    clip = base64.b64encode(Path("videos/sample_01.mp4").read_bytes()).decode()
    assert embedded == f"data:video/mp4;base64,{clip}"
    assert others == linked[1:]


def test_several_runs_lie_in_the_working_folder() -> None:
    judge("other", labels={"sample_01": "00 +"})
    judge("other", "another", labels={"sample_01": "++ +"})
    ended = report("mine", "runs/other/lexical-2", "runs/other/another", "--frames", "0")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(
        "mine: F1 77.3 [–] over 2 of 3 videos, the first of 3 runs (not ranked"
    )
    assert [run["name"] for run in data_of(Path("report.html").read_text())["runs"]] == [
        "mine",
        "other (lexical-2)",
        "other (another)",
    ]


def test_human_labels_are_shown_and_those_that_cannot_be_are_counted() -> None:
    Path("human.csv").write_text(
        "video_id,system,element_id,rater,label,caption_hash\n"
        "sample_01,mine,1.1,Ann,lack,\n"
        "sample_01,mine,9.9,Ann,lack,\n"
        "sample_01,theirs,1.1,Ann,lack,\n"
        "sample_01,mine,1.2,Ann,,\n"
        "broken,mine,1.1,Ann,lack,0123456789ab\n"
    )
    ended = report("mine", "--human", "human.csv", "--frames", "0")
    assert ended.code == 0
    assert ended.err == (
        "human.csv: 1 row without a rating is left out (the first is line 5)\n"
        "human.csv: 3 of 4 labels left out: of another system or caption, or of a video or element "
        "that is not annotated\n"
    )
    (mine,), (broken,) = (one["runs"] for one in data_of(REPORT.read_text())["videos"][:2])
    assert (mine["human"], broken.get("human")) == ([[0, 0, "l", 1]], None)


def test_a_report_is_replaced_by_the_same_bytes_and_nothing_else_is_replaced() -> None:
    assert report("mine", "--out", "there.html").code == 0
    before = Path("there.html").read_bytes()
    assert report("mine", "--out", "there.html").code == 0
    assert Path("there.html").read_bytes() == before
    assert len(before) < 1_000_000


BAD = {
    "no videos": (["mine", "--videos", "none"], "none: does not exist; name the folder"),
    "other format": (["mine", "--out", "n.txt"], "n.txt: a report is HTML; name a file that"),
    "no report": (["mine", "--out", "notes.html"], "notes.html: exists and is not a report; name"),
    "no annotations": (["bare.jsonl"], "bare.jsonl: name its annotations with --annotations"),
    "other annotations": (["mine", "theirs"], "have different annotations"),
    "columns": (["mine", "--columns", "score=mos"], "name the file with --human"),
    "whole captions": (["mine", "--human", "scores.csv"], "--human needs labels of elements"),
    "of nobody here": (["mine", "--human", "alien.csv"], "has no label for mine"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_one_line(case: str) -> None:
    arguments, message = BAD[case]
    Path("bare.jsonl").write_bytes(Path("runs/mine/lexical-2/judgments.jsonl").read_bytes())
    Path("scores.csv").write_text("video_id,system,score\nsample_01,mine,3\n")
    Path("alien.csv").write_text("video_id,element_id,label\nmars,1.1,lack\n")
    Path("notes.html").write_text("my notes")
    if case == "other annotations":
        judge("theirs")
        Path("more.json").write_text(json.dumps([video.model_dump() for video in VIDEOS[:2]]))
        manifest = json.dumps({"annotations": {"path": "more.json"}})
        Path("runs/theirs/manifest.json").write_text(manifest)
    before = sorted(Path().rglob("*"))
    assert message in report(*arguments).refusal
    assert sorted(path for path in Path().rglob("*") if "cache" not in path.parts) == before


def test_without_the_extra_there_is_one_notice_and_a_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("av", "PIL"):
        monkeypatch.setitem(sys.modules, name, None)
    ended = report("mine")
    assert (ended.code, ended.err.count("\n")) == (0, 1)
    assert "frames need PyAV and Pillow (not installed): pip install '.[frames]'" in ended.err
    assert "need PyAV" in report("mine", "--frames", "4").refusal
