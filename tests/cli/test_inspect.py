"""`capeval inspect`: one video in the terminal.

`CAPEVAL_GOLDEN=1 pytest tests/cli/test_inspect.py` writes the golden files anew; look at the
difference.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from capeval.api.inspecting import runs_with_video
from capeval.api.run_options import InspectOptions
from capeval.files.judgments import write_judgments
from capeval.reporting.viewer.cards import card_of, load_human_labels
from capeval.reporting.viewer.raw_replies import RawReplies, RawReply
from capeval.reporting.viewer.terminal import print_cards, print_raw_replies
from capeval.schema import Judgment, Provenance, Unscored, Verdict
from tests.scoring.making import annotation, relations, scored
from tests.typed import Typed

GOLDEN = Path(__file__).resolve().parents[1] / "reporting" / "golden"
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
RULES = Provenance(judge="lexical-1", prompts=None, baseline=True)


def votes(*each: str) -> tuple[Verdict, ...]:
    return tuple(
        Verdict(candidate_events=("A dog.",), matches=(1,), relations=relations(labels))
        for labels in each
    )


def make_run(name: str, captions: dict[str, str], *judges: Sequence[Judgment]) -> None:
    folder = Path("runs") / name
    folder.mkdir(parents=True)
    lines = [json.dumps({"index": index, "caption": text}) for index, text in captions.items()]
    (folder / "captions.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "manifest.json").write_text(json.dumps({"annotations": {"path": "a.json"}}))
    for judgments in judges:
        made = judgments[0].provenance
        write_judgments(
            folder / made.judge / "judgments.jsonl",
            [judgment.model_copy(update={"provenance": made}) for judgment in judgments],
        )


@pytest.fixture
def typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Typed:
    """Two judged runs of four videos, and labels of two people."""
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(json.dumps([video.model_dump() for video in VIDEOS]))
    make_run(
        "mine",
        {"V1": HOSTILE, "V2": "A cat sleeps.", "V3": " "},
        [
            scored(
                "V1",
                "+0- 0",
                candidate_events=("A dog \x1b[31mruns.", "Then it sits.", "It is [b]late[/b]."),
                matches=(1, 1, None),
                notes=("split: asked again: the \x1b[31mreply is empty", "match: repaired"),
                repeats=votes("+0- 0", "+-- 0", "+00 0"),
                provenance=ASKED,
            ),
            Unscored(index="V2", reason="split: the reply is \x1b[31mno JSON"),
        ],
    )
    make_run(
        "other",
        {"V1": "A dog runs.", "V2": "A dog."},
        [scored("V1", "++0 +", provenance=RULES), scored("V2", "+0")],
    )
    rows = [
        ("V1", "mine", "1.1", "ann", "entailment"),
        ("V1", "mine", "1.1", "[b]bob", "contradiction"),
        ("V1", "mine", "1.2", "ann", "lack"),
        ("V1", "other", "1.1", "ann", "entailment"),
    ]
    text = "\n".join(",".join(row) for row in rows)
    Path("human.csv").write_text(f"video_id,system,element_id,rater,label\n{text}\n")
    return Typed(monkeypatch, capsys)


def card(index: str, *runs: str, human: bool = False, columns: int = 80) -> str:
    """Return everything about a video."""
    labels = load_human_labels(Path("human.csv")) if human else None
    found = runs_with_video(InspectOptions(index, runs))
    out = io.StringIO()
    print_cards(
        {name: card_of(one, annotation, labels) for name, (one, annotation) in found.items()},
        Console(file=out, width=columns, color_system=None),
        full=True,
    )
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


@pytest.mark.usefixtures("typed")
@pytest.mark.parametrize(
    ("name", "index", "runs", "human"),
    [
        ("one", "V1", ["mine"], True),
        ("several", "V1", [], True),
        ("unscored", "V2", [], False),
        ("unjudged", "V3", ["mine"], False),
    ],
)
def test_card_is_the_golden_one(name: str, index: str, runs: list[str], human: bool) -> None:
    text = card(index, *runs, human=human)
    golden = GOLDEN / f"inspect-{name}.txt"
    if os.environ.get("CAPEVAL_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_first_line_is_the_score_and_the_rest_is_what_is_not_entailed(typed: Typed) -> None:
    said = typed("inspect", "V1", "--run", "mine")
    lines = said.out.splitlines()
    assert lines[0] == (
        "V1 in mine: F1 46.2, precision 60.0, recall 37.5; of weight 8, 3 entailed, 3 lacking, "
        "2 contradicted, judged by judge-model-2024."
    )
    assert len(lines) <= 40
    rows = [line.split() for line in lines]
    assert not any(row[:2] == ["✓", "entailed"] and "1.1" in row for row in rows)
    assert any(row[:3] == ["✗", "contradicted", "1.3"] for row in rows)
    assert typed("inspect", "V2", "--run", "mine").out.startswith(
        r"V2 in mine: unscored: split: the reply is \x1b[31mno JSON"
    )


def test_several_runs_are_letters_and_verdicts_signs(typed: Typed) -> None:
    lines = typed("inspect", "V1", columns=60).out.splitlines()
    assert [line[:9] for line in lines[:2]] == ["A V1 in m", "B V1 in o"]
    assert len(lines) <= 40
    rows = [line.split() for line in lines]
    assert ["–", "✓", "1.2", "scene", "1", "Element", "2", "of", "event", "1."] in rows


@pytest.mark.parametrize("columns", [20, 40, 80, 120, 300])
def test_nothing_that_a_terminal_obeys_comes_out(typed: Typed, columns: int) -> None:
    said = typed("inspect", "V1", "--raw", "--human", "human.csv", columns=columns)
    assert said.code == 0
    for text in (said.out, card("V1", human=True, columns=columns)):
        assert all(c.isprintable() or c == "\n" for c in text)
    assert "[red]" in text.replace("\n", "").replace(" ", "")
    assert r"\x1b" in text.replace("\n", "").replace(" ", "")


def test_replies_keep_their_lines_and_indents() -> None:
    out = io.StringIO()
    reply = RawReply(
        1, "split", 1, "validated", "m", "stop", '{\n\t"events":\x07 [\n  ]\u2028}', None
    )
    print_raw_replies({"run": RawReplies((reply,))}, Console(file=out, width=80))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert lines[:6] == [
        "Raw replies  run",
        "  split, m: accepted",
        "    {",
        '        "events":\\x07 [',
        "      ]",
        "    }",
    ]


@pytest.mark.usefixtures("typed")
def test_sums_are_beside_the_scores() -> None:
    lines = [" ".join(line.split()) for line in card("V1", "mine").splitlines()]
    assert "all 3 3 2 3/5 = 60.0 3/8 = 37.5 46.2" in lines
    assert "attribute 0 2 0 0/0 = 0.0 0/2 = 0.0 0.0" in lines


@pytest.mark.usefixtures("typed")
@pytest.mark.parametrize("columns", [30, 80])
def test_no_number_is_cut(columns: int) -> None:
    text = " ".join(card("V1", columns=columns).split())
    assert all(number in text for number in ("3/5 = 60.0", "3/8 = 37.5", "46.2", "100.0"))
    assert "…" not in text


@pytest.mark.usefixtures("typed")
def test_runs_are_side_by_side_where_they_fit() -> None:
    assert card("V1", columns=80).count("Reference events") == 1
    assert card("V1", columns=50).count("Reference events") == 2


@pytest.mark.usefixtures("typed")
def test_headings_break_at_hyphens_and_keep_both_ends() -> None:
    names = [f"tuned-on-everything-that-there-is-until-step-{n}000" for n in (1, 2)]
    for name in names:
        make_run(name, {"V3": "A dog."}, [scored("V3", "+", provenance=RULES)])
    lines = card("V3", *names).split("Reference events")[1].splitlines()
    assert lines[1].split()[-4:] == ["Id", "Type", "Weight", "Element"]
    heading = "".join(lines[1:5])
    assert "1000" in heading
    assert "2000" in heading


def test_verdicts_have_the_words_of_the_report(typed: Typed) -> None:
    text = typed("inspect", "V1", "--human", "human.csv").out
    assert "✓ entailed  – lacking  ✗ contradicted" in text
    assert not re.search(r"\b(entailment|lack|contradiction)\b", text)


def test_where_human_raters_differ_from_the_judge_is_always_listed(typed: Typed) -> None:
    one = typed("inspect", "V1", "--run", "mine", "--human", "human.csv").out
    assert "Human raters labelled 2 elements and differ from the judge on 1." in one
    assert "not entailed or that human raters label otherwise" in one
    # The judge's "entailed" is disputed by one of two raters.
    assert re.search(r"✓ entailed +✓ entailed ann +1\.1", one)
    assert "≠ ✗ contradicted [b]bob" in one
    assert "≠ a human label that differs from the verdict" in one
    several = typed("inspect", "V1", "--human", "human.csv").out
    assert re.search(r"^ +✓≠✗ +✓ +1\.1", several, re.MULTILINE)
    assert re.search(r"^ +– +✓ +1\.2", several, re.MULTILINE)
    without = typed("inspect", "V1").out
    assert "1.1 " not in without
    assert "≠" not in without


def test_covered_or_not_agrees_with_either_verdict_that_is_not_entailed(typed: Typed) -> None:
    rows = [f"V1,mine,1.{n},{label}" for n, label in ((1, 0), (2, 0), (3, 0))]
    Path("human.csv").write_text("\n".join(["video_id,system,element_id,label", *rows]) + "\n")
    said = typed("inspect", "V1", "--run", "mine", "--human", "human.csv").out
    assert "Human raters labelled 3 elements and differ from the judge on 1." in said
    assert said.count("≠ – not covered") == 1
    assert "✓ entailed  – lacking  ✗ contradicted  – not covered  ≠ " in said


def test_what_is_entailed_throughout_is_a_sentence_and_no_empty_table(typed: Typed) -> None:
    make_run("best", {"V1": "A dog.", "V3": "A dog."}, [scored("V1", "+++ +"), scored("V3", "+")])
    said = typed("inspect", "V1", "--run", "best")
    assert "  All 4 elements are entailed.\n" in said.out
    assert "Reference events" not in said.out
    assert "  The only element is entailed.\n" in typed("inspect", "V3", "--run", "best").out
    # An event of which nothing is listed says why.
    partly = typed("inspect", "V1", "--run", "other").out
    assert "2. Something happens. (matched by events: 2, every element entailed)" in partly


def test_a_human_file_without_labels_of_the_video_is_reported(typed: Typed) -> None:
    said = typed("inspect", "V2", "--human", "human.csv")
    assert said.code == 0
    assert said.err.startswith('warning: human.csv: has no label of "V2" in mine, other; its ')
    assert typed("inspect", "V1", "--human", "human.csv").err == ""


def test_several_runs_follow_the_order_in_which_they_are_named(typed: Typed) -> None:
    cards = typed("inspect", "V1", "--run", "other", "--run", "mine", "--json").json
    assert list(cards) == ["other", "mine"]
    assert list(typed("inspect", "V1", "--json").json) == ["mine", "other"]


def test_only_runs_that_have_the_video_are_shown(typed: Typed) -> None:
    assert list(typed("inspect", "V3", "--json").json) == ["mine"]
    # Where none has a caption of it, all say so.
    cards = typed("inspect", "V4", "--json").json
    assert {name: card["status"] for name, card in cards.items()} == {
        "mine": "uncaptioned",
        "other": "uncaptioned",
    }


def test_json_is_the_card(typed: Typed) -> None:
    card: dict[str, Any] = typed(
        "inspect", "V1", "--run", "mine", "--human", "human.csv", "--json"
    ).json["mine"]
    assert card["caption"] == HOSTILE
    assert card["matches"] == [1, 1, None]
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
    assert "raw" not in card


def test_several_judges_are_several_cards(typed: Typed) -> None:
    write_judgments(Path("runs/mine/zeta/judgments.jsonl"), [scored("V1", "000 0")])
    cards = typed("inspect", "V1", "--json").json
    assert list(cards) == ["mine (judge-model)", "mine (zeta)", "other"]
    assert list(typed("inspect", "V1", "--judge", "zeta", "--json").json) == ["mine"]


def test_runs_that_cannot_be_read_are_left_out_aloud(typed: Typed) -> None:
    Path("runs/other/manifest.json").write_text('{"annotations": {"path": "gone.json"}}')
    said = typed("inspect", "V1", "--json")
    assert (said.code, list(said.json)) == (0, ["mine"])
    assert said.err.startswith(
        "warning: left out: runs/other/lexical-1/judgments.jsonl: its annotations gone.json "
    )
    assert said.err.count("\n") == 1


def test_reasons_are_beside_their_elements(typed: Typed) -> None:
    path = Path("runs/mine/judge-model/judgments.jsonl")
    first, *rest = path.read_text("utf-8").splitlines()
    reasons = [["The \x1b[31mcaption [red]says[/red] so.", "", "Not there."], [""]]
    line = json.dumps(json.loads(first) | {"explanations": reasons})
    path.write_text("\n".join([line, *rest, ""]), encoding="utf-8")
    alone = typed("inspect", "V1", "--run", "mine", "--full").out
    assert "→ The \\x1b[31mcaption [red]says[/red] so." in alone
    assert alone.count("→") == 2
    both = typed("inspect", "V1", "--full").out
    assert both.count("→") == 2
    assert "\x1b" not in alone + both
    assert "→" not in typed("inspect", "V1").out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["V11"], 'runs: no judged run has the video "V11"; did you mean "V1"?'),
        (["V11", "--run", "mine"], 'a.json: has no video "V11"; did you mean "V1"?'),
        (["V1", "--run", "mien"], 'is neither a file nor a run under runs/; did you mean "mine"?'),
        (["V1", "--run", "mine", "--judge", "gpt"], "was not judged by gpt, but by judge-model"),
        (["V1", "--judge", "gpt"], "runs: has no run that was judged by gpt"),
        (["V1", "--run", "mine", "--run", "mine"], "is named twice"),
        (["V1", "--human", "gone.csv"], "gone.csv"),
        (["V1", "--human", "ratings.csv"], "--human needs labels of elements"),
        (["V1", "--human", "broken.csv"], "broken.csv: line 2: label"),
        (["V1", "--prompts", "x"], "--prompts requires --raw"),
        (["V1", "--raw", "--prompts", "nowhere"], "nowhere: is neither a folder nor a packaged"),
        (["V1", "--run", "alone.jsonl"], "alone.jsonl: name its annotations with --annotations"),
        ([], "Missing argument 'INDEX'"),
    ],
)
def test_mistakes_are_one_line(typed: Typed, arguments: list[str], complaint: str) -> None:
    Path("ratings.csv").write_text("video_id,system,score\nV1,mine,3\n")
    Path("broken.csv").write_text("video_id,system,element_id,label\nV1,mine,1.1,maybe\n")
    Path("alone.jsonl").write_bytes(Path("runs/mine/judge-model/judgments.jsonl").read_bytes())
    said = typed("inspect", *arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("capeval: ")
    assert said.err.count("\n") == 1
    assert complaint in said.err
