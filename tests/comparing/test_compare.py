from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.comparing.comparison import Comparison, Matrix
from capeval.errors import UsageError
from capeval.schema import Judgment, Provenance, Unscored
from tests.comparing.making import comparison, example, matrix
from tests.golden import check_golden, screen
from tests.judged_runs import make_run, write_annotations
from tests.scoring.making import annotation, scored, verdict
from tests.world import Said, typed
from tests.world import run as run_alone

pytestmark = pytest.mark.usefixtures("alone")

VIDEOS = [
    annotation("a", "c3 s1", "a2", domain="Film", visual_characteristic="Low-Dynamic"),
    annotation("b", "t2 c1", domain="Film", visual_characteristic="High-Dynamic"),
    annotation("c", "c1 a1", domain="Food", visual_characteristic="High-Dynamic"),
    annotation("d", "s1"),
]
BY = Provenance(judge="judge-1", prompts="set@1", models=("judge-1-2024",))


def run(name: str, *labels: str | None, by: Provenance = BY, **more: Any) -> list[Judgment]:
    """A judged run of the videos in order: `?` is unscored, None has no judgment at all."""
    judgments: list[Judgment] = []
    for video, row in zip(VIDEOS, labels, strict=False):
        if row == "?":
            judgments.append(Unscored(index=video.index, reason="the judge refused", provenance=by))
        elif row is not None:
            judgments.append(scored(video.index, row, provenance=by, **more))
    make_run(Path(), name, judgments)
    return judgments


@pytest.fixture(autouse=True)
def _annotated(tmp_path: Path) -> None:
    write_annotations(tmp_path, VIDEOS)


def compared(*named: str, **more: Any) -> Comparison:
    found = capeval.compare(named, **({"resamples": 99} | more))
    assert isinstance(found, Comparison)
    return found


def left_out_of(found: Comparison) -> dict[str, list[tuple[str, str]]]:
    return {
        side.name: [(left.index, left.reason) for left in side.left_out]
        for side in (found.first, found.second)
    }


def test_only_videos_that_both_scored_are_behind_the_numbers() -> None:
    run("old", "+0 -", "+0", "?", "+")
    run("new", "++ +", "?", "++", None)
    with Path("runs/new/captions.jsonl").open("a") as file:
        file.write('{"index": "d", "caption": "A dog runs."}\n')
    found = compared("old", "new")
    assert (found.paired, found.annotated, list(found.videos)) == (1, 4, ["a"])
    assert (found.overall.all.n, set(found.by.domain)) == (1, {"Film"})
    assert found.videos["a"].recall.model_dump() == {"first": 0.5, "second": 1.0, "value": 0.5}
    assert left_out_of(found) == {
        "old": [("b", "unscored in new: the judge refused"), ("d", "not judged yet in new")],
        "new": [("c", "unscored in old: the judge refused")],
    }
    assert (found.first.captioned, found.first.scored) == (4, 3)
    assert (found.second.captioned, found.second.scored) == (4, 2)


def test_a_video_without_a_caption_is_left_out_and_not_a_zero() -> None:
    run("old", "++ +", "++", "++", "+")
    run("new", "++ +", "++")
    found = compared("old", "new")
    assert (found.overall.all.f1.value, found.paired) == (0.0, 2)
    assert left_out_of(found) == {
        "old": [("c", "no caption in new"), ("d", "no caption in new")],
        "new": [],
    }


def test_no_common_video_is_refused() -> None:
    run("old", "+0 -", "?")
    run("new", "?", "++")
    with pytest.raises(UsageError, match="no video is scored in all of these runs: old and new"):
        compared("old", "new", fail_under=["f1=-100"])


def test_unlike_judges_and_prompts_are_refused_with_the_reason() -> None:
    message = "judge judge-1-2024 vs. lexical-2; prompts set@1 vs. none"
    run("old", "+0 -", "+0")
    other = Provenance(judge="lexical-2", prompts=None)
    run("new", "++ +", "++", by=other)
    with pytest.raises(UsageError, match=f"old and new .* because they differ: {message}; judge"):
        compared("old", "new")
    found = compared("old", "new", allow_mismatch=True)
    assert (found.comparable, "; ".join(found.unlike)) == (False, message)
    shown = typed(Path(), "compare", "old", "new", "--allow-mismatch").out
    assert shown.startswith("[not comparable] new is ")
    assert "\n[not comparable] A old, B new: " in shown
    assert "NOT COMPARABLE: " in shown
    latex = found.rendered("latex").split(r"\begin{table}")[1:]
    assert all("\nNOT COMPARABLE: judge" in table for table in latex)


def test_unlike_repeats_are_refused() -> None:
    run("old", "+0 -")
    again = (verdict("++ +"),) * 3
    run("new", "++ +", candidate_events=("x", "y"), matches=(1, 2), repeats=again)
    with pytest.raises(UsageError, match=r"repeats 1 vs\. 3"):
        compared("old", "new")
    assert compared("old", "new", allow_mismatch=True).settings["repeats"] == {"old": 1, "new": 3}


def test_unlike_data_are_refused_and_anyway_pairs_what_can_be() -> None:
    run("old", "+0 -", "+0", "+0", "+")
    changed = [
        VIDEOS[0].model_copy(update={"domain": "Sport"}),
        annotation("b", "t2 c3", domain="Film", visual_characteristic="High-Dynamic"),
        annotation("e", "s1"),
    ]
    Path("other").mkdir()
    write_annotations(Path("other"), changed)
    judgments: list[Judgment] = [
        scored(video.index, labels, provenance=BY)
        for video, labels in zip(changed, ("++ +", "++", "+"), strict=True)
    ]
    make_run(Path(), "new", judgments, annotations={"path": "other/annotations.json"})
    with pytest.raises(UsageError, match=r"data \w{6}@4 vs. \w{6}@3; judge them in the same way"):
        compared("old", "new")
    found = compared("old", "new", allow_mismatch=True)
    assert (list(found.videos), found.annotated) == (["a", "b"], 5)
    # A video is of a bucket where both annotations say so.
    assert set(found.by.domain) == {"Film"}
    assert set(found.by.visual_characteristic) == {"Low-Dynamic", "High-Dynamic"}
    # Elements flip only where both annotations have them alike.
    assert found.flips.videos == 1
    assert {flip.index for flip in found.flips.elements} == {"a"}
    assert left_out_of(found) == {
        "old": [("c", "not annotated in new"), ("d", "not annotated in new")],
        "new": [("e", "not annotated in old")],
    }


TEN = [annotation(index, "c3 s1", "a2", domain="Film") for index in "abcdefghij"]


def compare(*arguments: str) -> Said:
    return typed(Path(), "compare", *arguments, columns=100)


@pytest.fixture
def ten(tmp_path: Path) -> None:
    """`new` is a little worse than `old`; `other` has another judge; `half` lacks four videos."""
    write_annotations(tmp_path, TEN)
    runs = {
        "old": ["++ +", "+0 +", "++ -", "+0 0", "++ 0"],
        "new": ["+0 +", "+0 +", "+- -", "+0 0", "++ 0"],
    }
    for name, labels in runs.items():
        judgments = [
            scored(video.index, row, provenance=BY)
            for video, row in zip(TEN, labels * 2, strict=True)
        ]
        make_run(tmp_path, name, list(judgments))
    make_run(tmp_path, "other", [scored("a", "++ +", provenance=Provenance(judge="judge-2"))])
    failed = [Unscored(index=i, reason="no") for i in "abfg"]
    make_run(tmp_path, "half", [*failed, *(scored(i, "++ +", provenance=BY) for i in "cdehij")])


@pytest.mark.usefixtures("ten")
def test_the_table_reads_from_the_first_to_the_second() -> None:
    done = compare("old", "new")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("old is 5.2 points of F1 better than new (95% CI 0.1 to 12.5, p = ")
    assert "\nA old, B new: B − A, in points, 10 videos\n" in done.out
    assert "A old: captioned 10/10, scored 10/10, 3.0 words per caption\n" in done.out
    assert "B new: captioned 10/10, scored 10/10, 3.0 words per caption (B − A: 0.0)" in done.out
    assert "|judge:judge-1-2024|prompts:set@1|" in done.out
    assert "baseline" not in done.out


@pytest.mark.usefixtures("ten")
def test_a_run_that_is_judged_in_part_says_so_in_the_headline_and_in_a_notice() -> None:
    file = Path("runs/half/judge/judgments.jsonl")
    file.write_text("".join(file.read_text().splitlines(keepends=True)[1:]))
    done = compare("old", "half")
    out = " ".join(done.out.split())
    assert "over the 6 videos scored in both runs (half scored 6/10)." in out
    assert "half: 1 of 10 captions is not judged yet; finish with the same `capeval judge`" in out


@pytest.mark.usefixtures("ten")
def test_json_is_the_comparison_alone_and_the_same_again() -> None:
    Path("capeval.toml").write_text("commands.compare.seed = 3")
    arguments = ("old", "new", "--json", "--fail-under", "f1=-50")
    # A process of its own has its own hashes, and so its own order of sets.
    first = run_alone(Path(), "compare", *arguments, PYTHONHASHSEED="1")
    second = compare(*arguments)
    assert (first.code, first.err) == (0, "")
    assert first.out == second.out
    found = Comparison.model_validate_json(first.out)
    assert (found.settings["test"]["seed"], found.settings["test"]["resamples"]) == (3, 10_000)
    assert [(gate.gate, gate.passed) for gate in found.gates] == [("f1", True)]
    three = Matrix.model_validate_json(compare("old", "half", "new", "--json").out)
    # In the order typed: the letters of the tables follow the command line.
    assert [one.name for one in three.runs] == ["old", "half", "new"]
    assert (three.paired, len(three.pairs)) == (6, 3)
    assert [len(one.left_out) for one in three.runs] == [4, 0, 4]


GATES = [
    (["--fail-under", "f1=-0.5"], "F1 of new is 5.15 points below old; --fail-under is f1=-0.5"),
    (["--fail-under", " F1=-50 "], ""),
    (["--fail-under", "f1=-50", "--fail-under", "recall=0"], "recall of new is "),
    (
        ["--fail-under", "f1=99", "--fail-under", "f1=-50"],
        "F1 of new is 5.15 points below old; --fail-under is f1=99",
    ),
    (["--fail-under", "attribute.f1=-100"], "new has no F1 of attribute elements to compare"),
    (["--fail-under", "action.recall=+1.25"], "recall of action elements of new is 0.00 points"),
    (["half", "--min-coverage", "60%"], ""),
    (["half", "--min-coverage", "61%"], "6 of 10 annotated videos (60.00%) are scored in all ru"),
]


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize(("arguments", "message"), GATES)
def test_a_gate_that_fails_ends_with_4_and_says_why_in_a_line(
    arguments: list[str], message: str
) -> None:
    done = compare("old", "new", *arguments, "--json")
    assert done.code == (4 if message else 0), done.err
    assert done.err.count("\n") == bool(message)
    assert done.err.startswith(f"capeval: gate failed: {message}" if message else "")
    # The comparison is shown either way.
    assert done.json["paired"] in (6, 10)


@pytest.mark.parametrize(
    ("value", "passed"),
    # The last bit of a mean decides nothing.
    [(-0.005, True), (-0.0050000000000000044, True), (-0.00500001, False), (0.0, True)],
)
def test_a_gate_allows_just_its_points(
    value: float, passed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = comparison("old", "new", value=value)
    monkeypatch.setattr("capeval.comparing.compare.load_judged_runs", lambda *_, **__: {})
    monkeypatch.setattr("capeval.comparing.compare.compare_judged", lambda *_, **__: found)
    (gate,) = capeval.compare(("old", "new"), fail_under=["f1=-0.5"]).gates
    assert (gate.passed, gate.at_least) == (passed, -0.5)
    assert ("0.500001" in gate.message) == (not passed)


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["old"], "name at least two runs"),
        (["old", "none"], "none: is neither a file nor a run under runs/"),
        (["old", "runs/old"], "is named twice"),
        (["old", "new", "--annotations", "none.json"], "none.json"),
        (["old", "other", "--fail-under", "f1=-100"], "cannot be compared"),
        (["old", "new", "half", "--fail-under", "f1=0"], "name two"),
        (["old", "new", "--fail-under=sound.f1=-1"], "'sound.f1=-1' must be like f1=-0.5"),
        (["old", "new", "--fail-under=f1=nan"], "--fail-under: 'f1=nan' must be like f1=-0.5"),
        (["old", "new", "--min-coverage=0.99"], "--min-coverage: '0.99' must be a share"),
        (["old", "new", "--min-coverage=nan%"], "--min-coverage: 'nan%' must be a share"),
        (["old", "new", "--json", "--format", "latex"], "--format is for tables"),
        (["old", "new", "--judge", "gpt"], "was not judged by gpt"),
        ([], "capeval compare --help"),
    ],
)
def test_mistakes_are_one_line_and_2(arguments: list[str], message: str) -> None:
    assert message in compare(*arguments).refusal


GOLDEN = Path(__file__).parent / "golden"


def test_screens_are_the_golden_ones() -> None:
    check_golden(GOLDEN / "comparison.txt", screen(example()))
    found = matrix("low", "[b]high[/b]", "also low")
    check_golden(GOLDEN / "comparison-matrix.txt", screen(found))


@pytest.mark.parametrize(
    ("more", "printed"),
    [
        (
            {"value": -0.05, "low": -0.08, "high": 0.01, "p": 0.2},
            "A is 5.0 points of F1 better than B (95% CI -1.0 to 8.0, p = 0.200, not significant)",
        ),
        ({"value": -0.05, "p": 0.2}, ", p = 0.200, not significant) over the"),
        ({"value": 0.0001, "p": 0.9}, "B has the same F1 as A ("),
    ],
)
def test_headline_does_not_overstate(more: Any, printed: str) -> None:
    found = comparison(**more)
    assert printed in found.headline()
