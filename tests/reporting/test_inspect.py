"""`capeval inspect`: one video of a run in the terminal.

`CAPEVAL_GOLDEN=1 pytest tests/reporting` writes the golden files anew; look at the
difference.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

import capeval
from capeval.files.judgments import write_judgments
from capeval.schema import Judgment, Provenance, Unscored, Verdict
from tests.scoring.making import annotation, relations, scored
from tests.typed import here as typed

GOLDEN = Path(__file__).parent / "golden"
VIDEOS = [
    annotation("V1", "c3 s1 a2", "t2", domain="Film", visual_characteristic="Low-Dynamic"),
    annotation("V2", "t2 a1", video="two.mp4"),
    annotation("V3", "c1"),
    annotation("V4", "s1"),
]
HOSTILE = (
    "A dog \x1b[31mruns\x1b[0m to [red]a car[/red], \x1b]8;;http://evil\x07there\x1b]8;;\x07.\n\n"
    "\u202eThen\x00 it 你好 [link=http://evil]sits[/link]. 🎬"
)
ASKED = Provenance(
    judge="judge-model",
    prompts="tuna-cap-v1@abc123",
    base_url="http://127.0.0.1:8000/v1",
    models=("judge-model-2024",),
    fingerprints=("fp_1",),
    left_off=("seed",),
)
RULES = Provenance(judge="lexical-2", prompts=None, baseline=True)


def votes(*each: str) -> tuple[Verdict, ...]:
    return tuple(
        Verdict(candidate_events=("A dog.",), matches=(1,), relations=relations(labels))
        for labels in each
    )


def make_run(name: str, captions: dict[str, str], judgments: Sequence[Judgment]) -> None:
    folder = Path("runs") / name
    folder.mkdir(parents=True)
    lines = [json.dumps({"index": index, "caption": text}) for index, text in captions.items()]
    (folder / "captions.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "manifest.json").write_text(json.dumps({"annotations": {"path": "a.json"}}))
    made = judgments[0].provenance
    write_judgments(
        folder / made.judge / "judgments.jsonl",
        [judgment.model_copy(update={"provenance": made}) for judgment in judgments],
    )


@pytest.fixture(autouse=True)
def _files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two judged runs of four videos, and labels of two human raters."""
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(json.dumps([video.model_dump() for video in VIDEOS]))
    first = scored(
        "V1",
        "+0- 0",
        candidate_events=("A dog \x1b[31mruns.", "Then it sits.", "It is [b]late[/b]."),
        matches=(1, 1, None),
        notes=("split: asked again: the \x1b[31mreply is empty", "match: repaired"),
        repeats=votes("+0- 0", "+-- 0", "+00 0"),
        explanations=(("The \x1b[31mcaption [red]says[/red] so.", "", "Not there."), ("",)),
        provenance=ASKED,
    )
    unscored = Unscored(index="V2", reason="split: the reply is \x1b[31mno JSON")
    make_run("mine", {"V1": HOSTILE, "V2": "A cat sleeps.", "V3": " "}, [first, unscored])
    captions = {"V1": "A dog runs.", "V2": "A dog."}
    judged = [scored("V1", "++0 +", provenance=RULES), scored("V2", "++")]
    make_run("other", captions, judged)
    rows = [
        ("V1", "mine", "1.1", "ann", "entailment"),
        ("V1", "mine", "1.1", "[b]bob", "contradiction"),
        ("V1", "mine", "1.2", "ann", "lack"),
    ]
    text = "\n".join(",".join(row) for row in rows)
    Path("human.csv").write_text(f"video_id,system,element_id,rater,label\n{text}\n")


@pytest.mark.parametrize(
    ("name", "index", "more"),
    [
        ("one", "V1", ["--human", "human.csv"]),
        ("unscored", "V2", []),
        ("unjudged", "V3", []),
    ],
)
def test_card_is_the_golden_one(name: str, index: str, more: list[str]) -> None:
    shown = typed("inspect", "mine", index, *more, columns=80).out
    text = "".join(line.rstrip() + "\n" for line in shown.splitlines())
    golden = GOLDEN / f"inspect-{name}.txt"
    if os.environ.get("CAPEVAL_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("columns", [20, 80, 300])
def test_nothing_can_act_on_a_terminal(columns: int) -> None:
    text = typed("inspect", "mine", "V1", "--human", "human.csv", columns=columns).out
    assert all(c.isprintable() or c == "\n" for c in text)
    words = text.replace("\n", "").replace(" ", "")
    assert "[red]" in words
    assert r"\x1b" in words
    # Nor is a number cut.
    assert all(number in words for number in ("60.0", "37.5", "46.2", "100.0"))


def test_a_human_file_without_the_video_is_a_notice() -> None:
    shown = typed("inspect", "mine", "V2", "--human", "human.csv")
    assert shown.code == 0
    assert shown.err.startswith('human.csv: has no label of "V2" in mine; its video_id')


def test_covered_or_not_agrees_with_either_verdict_that_is_not_entailed() -> None:
    rows = [f"V1,mine,1.{n},0" for n in (1, 2, 3)]
    Path("human.csv").write_text("\n".join(["video_id,system,element_id,label", *rows]) + "\n")
    shown = typed("inspect", "mine", "V1", "--human", "human.csv").out
    assert "Human raters labelled 3 elements and differ from the judge on 1." in shown
    assert shown.count("≠ – not covered") == 1
    assert "✓ entailed; – lacking; ✗ contradicted; – not covered; ≠ " in shown


def test_json_is_the_card() -> None:
    card = typed("inspect", "mine", "V1", "--human", "human.csv", "--json").json
    assert card == capeval.inspect("mine", "V1", human="human.csv").as_json()
    assert (card["run"], card["caption"], card["matches"]) == ("mine", HOSTILE, [1, 1, None])
    assert card["events"][0]["matched"] == [1, 2]
    first = card["events"][0]["elements"][0]
    assert (first["id"], first["relation"], first["votes"]) == (
        "1.1",
        "entailment",
        ["entailment"] * 3,
    )
    assert first["human"] == {"ann": "entailment", "[b]bob": "contradiction"}
    assert card["scores"]["all"]["f1"] == pytest.approx(6 / 13)
    assert card["provenance"]["left_off"] == ["seed"]
    assert typed("inspect", "mine", "V4", "--json").json["status"] == "uncaptioned"


def test_one_of_several_judges_is_chosen() -> None:
    write_judgments(Path("runs/mine/zeta/judgments.jsonl"), [scored("V1", "000 0")])
    refused = typed("inspect", "mine", "V1")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "was judged by several judges" in refused.err
    assert typed("inspect", "mine", "V1", "--judge", "zeta", "--json").json["matches"] != [1, 1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["mine", "V11"], 'a.json: has no video "V11"; did you mean "V1"?'),
        (["mien", "V1"], 'is neither a file nor a run under runs/; did you mean "mine"?'),
        (["mine", "V1", "--judge", "gpt"], "was not judged by gpt, but by judge-model"),
        (["mine", "V1", "--human", "ratings.csv"], "--human needs labels of elements"),
        (["mine"], "Missing argument 'VIDEO'"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], complaint: str) -> None:
    Path("ratings.csv").write_text("video_id,system,score\nV1,mine,3\n")
    shown = typed("inspect", *arguments)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("capeval: ")
    assert shown.err.count("\n") == 1
    assert complaint in shown.err
