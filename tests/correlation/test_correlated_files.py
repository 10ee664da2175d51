import re
from pathlib import Path
from typing import Any

import pytest

from tests.correlation.making import correlate, make_run, write_annotations
from tests.files.making import save_workbook
from tests.scoring.making import annotation, scored

FAST = ("--statistic", "kendall_b", "--grouping", "pooled")


def csv(path: Path, *rows: str) -> None:
    path.write_text("\n".join([*rows, ""]), "utf-8")


def values(done: Any) -> dict[str, float]:
    assert done.code == 0, done.err
    return {one["metric"]: one["value"] for one in done.json["results"]}


def test_workbooks_and_mapped_columns_give_the_values_of_plain_csv(tmp_path: Path) -> None:
    rows = [(f"v{n}", "m", n, n % 3) for n in range(1, 7)]
    table = [("clip", "Model", "MOS", "note"), *((v, s, y, "-") for v, s, y, _ in rows)]
    save_workbook(tmp_path / "human.xlsx", table, Notes=[["read me"], ["x"]])
    csv(tmp_path / "bleu.csv", "clip,Model,bleu,cider", *(f"{v},{s},{x},0" for v, s, _, x in rows))
    mapped = "video_id=clip,system=Model,score=MOS"
    done = correlate(
        tmp_path,
        *("--human", "human.xlsx", "--metric", "bleu=bleu.csv"),
        *("--columns", mapped, *FAST, "--json"),
    )
    plain = [("video_id", "system", "score"), *((v, s, y) for v, s, y, _ in rows)]
    csv(tmp_path / "plain.csv", *(",".join(map(str, row)) for row in plain))
    csv(tmp_path / "m.csv", "video_id,system,score", *(f"{v},{s},{x}" for v, s, _, x in rows))
    same = correlate(tmp_path, "--human", "plain.csv", "--metric", "bleu=m.csv", *FAST, "--json")
    assert values(done) == values(same)
    assert [line for line in done.lines if "ignores" in line] == [
        'human.xlsx: ignores the column "note"',
        'bleu.csv: ignores the column "cider"',
    ]
    assert done.json["inputs"]["human"]["columns"] == {
        "video_id": "clip",
        "system": "Model",
        "score": "MOS",
    }
    assert "columns" not in same.json["inputs"]["human"]


def test_columns_are_mapped_in_the_file_that_has_them(tmp_path: Path) -> None:
    csv(tmp_path / "h.csv", "what,by,good,score", *(f"v{n},m,{n},{-n}" for n in range(6)))
    csv(tmp_path / "m.csv", "what,by,good,score", *(f"v{n},m,{-n},{n}" for n in range(6)))
    typed_files = ("--human", "h.csv", "--metric", "m=m.csv", *FAST, "--json")
    done = correlate(tmp_path, *typed_files, "--columns", "video_id=what,system=by,score=good")
    # The human scores are in `good`; a metric's are in `score`, though its file has `good` too.
    assert values(done) == {"m": 1.0}


@pytest.mark.parametrize(
    ("mapped", "message"),
    [
        ("system", "--columns: 'system' must be NAME=COLUMN"),
        ("score=a,score=b", "--columns: score is mapped twice"),
        ("score=x,rater=x", '--columns: "x" is mapped twice'),
        ("sore=x", '--columns: "sore" is not a column that capeval reads; one of video_id'),
        ("score=x", '--columns score=x: no such column in h.csv; found "video_id", "mos", "m"'),
    ],
)
def test_mistakes_in_columns_are_one_line(tmp_path: Path, mapped: str, message: str) -> None:
    csv(tmp_path / "h.csv", "video_id,mos,m", "v,1,2")
    done = correlate(tmp_path, "--human", "h.csv", "--metric", "m=h.csv", f"--columns={mapped}")
    assert done.refusal.startswith(f"capeval: {message}")


ALIKE = [("v", "v.mp4"), ("V", "v"), ("007", "7"), ("Clip_07.MP4", "clip_7"), ("a/v.mp4", "v.mp4")]


@pytest.mark.parametrize(("rated", "given"), ALIKE)
def test_ids_that_look_alike_are_named_and_never_joined(
    tmp_path: Path, rated: str, given: str
) -> None:
    more = [f"x{n},{n}" for n in range(6)]
    csv(tmp_path / "h.csv", "video_id,score", *more, f"{rated},1")
    csv(tmp_path / "m.csv", "video_id,score", *more, f"{given},1")
    typed_files = ("--human", "h.csv", "--metric", "m=m.csv", *FAST)
    done = correlate(tmp_path, *typed_files)
    assert (done.code, done.out) == (2, "")
    hint = "look alike: (write the ids alike in both files|leading zeros were lost)"
    assert re.search(hint, done.err)
    done = correlate(tmp_path, *typed_files, "--missing", "drop", "--json")
    assert re.search(hint, done.err)
    assert done.json["results"][0]["n"] == 6


def test_names_of_systems_that_look_alike_are_named_too(tmp_path: Path) -> None:
    csv(tmp_path / "h.csv", "video_id,system,score", "v1,GPT,1", "v2,GPT,2")
    csv(tmp_path / "m.csv", "video_id,system,score", "v1,gpt,1", "v2,gpt,2")
    done = correlate(tmp_path, "--human", "h.csv", "--metric", "m=m.csv", *FAST)
    assert '"GPT" and "gpt" look alike' in done.refusal


def test_a_judge_that_lacks_a_caption_is_left_out_unless_the_caption_may_be(tmp_path: Path) -> None:
    videos = [annotation(f"v{n}", "a3 t1", "s2") for n in range(6)]
    write_annotations(tmp_path, videos)
    for judge, judged in (("whole", videos), ("part", videos[1:])):
        labels = ["++ 0" if n % 2 else "+0 -" for n in range(len(judged))]
        given = [scored(v.index, one) for v, one in zip(judged, labels, strict=True)]
        make_run(tmp_path, "one", given, judge=judge, captions={v.index: "A dog." for v in videos})
    csv(tmp_path / "h.csv", "video_id,system,score", *(f"v{n},one,{n % 4}" for n in range(6)))
    for more, judges, n in (((), {"whole"}, 6), (("--missing", "drop"), {"whole", "part"}, 5)):
        done = correlate(tmp_path, "--human", "h.csv", *FAST, *more, "--json")
        found = {one["metric"].partition(":")[0] for one in done.json["results"]}
        assert found == judges, done.err
        assert {one["n"] for one in done.json["results"]} == {n}
