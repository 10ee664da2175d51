"""`capeval rate` as people run it: from a sheet to human.csv."""

import csv
import io
import json
import shutil
from pathlib import Path

from tests.rating.rating_examples import exported
from tests.world import ROOT, typed

SAMPLE = ROOT / "annotations" / "sample"
OF_SAMPLE = "You have no run of your own under runs/: sampling the bundled sample."


def rows(path: Path) -> list[dict[str, str]]:
    text = path.read_text(encoding="utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_study_from_sheet_to_human_csv(tmp_path: Path) -> None:
    made = typed(tmp_path, "rate", "sheet", "--count", "4", "--seed", "0")
    assert (made.code, made.err) == (0, f"{OF_SAMPLE}\n")
    assert "4 videos, 12 captions of 3 runs" in made.out
    assert "videos found: 4 of 4" in made.out
    folder = tmp_path / "rating"
    assert sorted(path.name for path in folder.iterdir()) == ["key.csv", "sheet.html"]
    assert "sample-" not in (folder / "sheet.html").read_text(encoding="utf-8")
    exported(folder / "key.csv", tmp_path / "ann.csv", "ann")
    exported(folder / "key.csv", tmp_path / "[bo].csv", "[bo]", "lack", leave=3)
    command = ("rate", "merge", "ann.csv", "[bo].csv", "--key", "rating/key.csv")

    refused = typed(tmp_path, *command)
    assert refused.code == 2
    assert "[bo].csv: 3 of 162 labels are missing (s" in refused.err
    assert not (tmp_path / "human.csv").exists()

    merged = typed(tmp_path, *command, "--partial", "--annotations", "sample")
    assert merged.code == 0
    assert "[bo].csv: 3 of 162 labels are missing" in merged.err
    assert "[bo] – ann" in merged.out
    assert "Krippendorff's alpha (nominal)" in merged.out
    assert "By type: camera " in merged.out
    assert merged.out.endswith(" --human human.csv\nWritten: human.csv\n")
    human = rows(tmp_path / "human.csv")
    assert list(human[0]) == ["video_id", "system", "element_id", "rater", "label", "caption_hash"]
    assert len(human) == 2 * 162 - 3
    assert {row["system"] for row in human} == {
        "sample-confused",
        "sample-terse",
        "sample-thorough",
    }
    assert {(row["rater"], row["label"]) for row in human} == {
        ("ann", "entailment"),
        ("[bo]", "lack"),
    }


def test_same_seed_same_bytes_and_a_study_is_not_overwritten(tmp_path: Path) -> None:
    command = ("rate", "sheet", "--count", "3", "sample-terse", "sample-thorough")
    assert typed(tmp_path, *command, "--out", "one").code == 0
    assert typed(tmp_path, *command, "--out", "two").code == 0
    for name in ("sheet.html", "key.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert (typed(tmp_path, *command, "--out", "one")).code == 0
    other = typed(tmp_path, *command, "--out", "one", "--seed", "1")
    assert other.code == 2
    assert "one/key.csv: belongs to another sheet (of other captions, runs or options); choose" in (
        other.err
    )


def test_own_runs_and_videos(tmp_path: Path) -> None:
    shutil.copy(SAMPLE / "annotations.json", tmp_path / "own.json")
    for name in ("terse", "confused"):
        run = tmp_path / "runs" / name
        run.mkdir(parents=True)
        shutil.copy(SAMPLE / "captions" / f"{name}.jsonl", run / "captions.jsonl")
    plain = typed(tmp_path, "rate", "sheet", "--count", "10")
    assert plain.code == 2
    assert "name its annotations with --annotations" in plain.err
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "sample_01.mp4").write_bytes(b"")
    made = typed(
        tmp_path,
        *("rate", "sheet", "--count", "10", "--per-video", "1", "--annotations", "own.json"),
        *("--videos", "films", "--out", "a/b"),
    )
    assert made.code == 0
    assert "10 videos, 10 captions of 2 runs" in made.out
    assert "videos found: 1 of 10" in made.out
    assert "9 videos not found: " in made.err
    page = (tmp_path / "a" / "b" / "sheet.html").read_text(encoding="utf-8")
    assert json.dumps("./../../films/sample_01.mp4") in page


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    for arguments, message in (
        (
            ("sheet", "--count", "40"),
            "40 videos were requested, but 10 are captioned by all runs; use --count 10",
        ),
        (("sheet", "sample-ters"), "is neither a captions file nor a run under runs/"),
        (("sheet", "sample-terse", "sample-terse"), "2 of the arguments are the run"),
        (("merge", "x.csv", "--key", "none.csv"), "none.csv: does not exist"),
        (("sheet", "--count", "1", "--videos", "nowhere"), "nowhere: does not exist; name the fo"),
        (("merge", "x.csv", "--key", "k.csv", "--out", "x.csv"), "x.csv is one of the files"),
    ):
        ended = typed(tmp_path, "rate", *arguments)
        assert ended.code == 2, arguments
        assert message in ended.err
        assert ended.err.removeprefix(f"{OF_SAMPLE}\n").count("\n") == 1


def test_merge_replaces_nothing_that_differs(tmp_path: Path) -> None:
    assert (typed(tmp_path, "rate", "sheet", "--count", "1")).code == 0
    exported(tmp_path / "rating" / "key.csv", tmp_path / "ann.csv", "ann")
    command = ("rate", "merge", "ann.csv", "--key", "rating/key.csv")
    human = tmp_path / "human.csv"
    assert (typed(tmp_path, *command)).code == 0
    assert (typed(tmp_path, *command)).code == 0
    human.write_text("two weeks of work", encoding="utf-8")
    refused = typed(tmp_path, *command)
    assert refused.code == 2
    assert "human.csv exists with other contents; rename it" in refused.err
    assert human.read_text(encoding="utf-8") == "two weeks of work"
