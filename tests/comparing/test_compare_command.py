"""`capeval compare` as it is typed: exit codes, JSON, gates, mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capeval.comparing.comparison import Comparison, Matrix
from capeval.schema import Provenance, Unscored
from tests.cli_runs import run
from tests.correlation.making import make_run, write_annotations
from tests.scoring.making import annotation, scored
from tests.typed import Said, typed

BY = Provenance(judge="judge-1", prompts="set@1")
VIDEOS = [annotation(index, "c3 s1", "a2", domain="Film") for index in "abcdefghij"]


def compare(*arguments: str) -> Said:
    return typed(Path(), "compare", *arguments, columns=100)


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`new` is a little worse than `old`; `other` has another judge; `half` lacks four videos."""
    monkeypatch.chdir(tmp_path)
    write_annotations(tmp_path, VIDEOS)
    runs = {
        "old": ["++ +", "+0 +", "++ -", "+0 0", "++ 0"],
        "new": ["+0 +", "+0 +", "+- -", "+0 0", "++ 0"],
    }
    for name, labels in runs.items():
        judgments = [
            scored(video.index, told, provenance=BY)
            for video, told in zip(VIDEOS, labels * 2, strict=True)
        ]
        make_run(tmp_path, name, list(judgments))
    make_run(tmp_path, "other", [scored("a", "++ +", provenance=Provenance(judge="judge-2"))])
    failed = [Unscored(index=i, reason="no") for i in "abfg"]
    make_run(tmp_path, "half", [*failed, *(scored(i, "++ +", provenance=BY) for i in "cdehij")])


def test_the_table_reads_from_the_first_to_the_second() -> None:
    done = compare("old", "new")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("old is 5.2 points of F1 better than new (95% CI 0.1 to 12.5, p = ")
    assert "\nA old, B new: B − A, in points, 10 videos\n" in done.out
    assert "A old: captioned 10/10, scored 10/10" in done.out
    assert "|judge:judge-1|prompts:set@1|" in done.out
    assert "baseline" not in done.out


def test_a_run_that_is_judged_in_part_says_so_in_the_headline_and_in_a_notice() -> None:
    file = Path("runs/half/judge/judgments.jsonl")
    file.write_text("".join(file.read_text().splitlines(keepends=True)[1:]))
    done = compare("old", "half")
    assert "over the 6 videos scored in both runs (half scored 6/10)." in " ".join(done.out.split())
    notice = (
        "half: 1 of 10 captions is not judged yet; finish with the same `capeval judge` command"
    )
    assert notice in " ".join(done.out.split())
    assert notice in compare("old", "half", "--json").json["notes"][0]


def test_json_is_the_comparison_alone_and_the_same_again() -> None:
    typed = ("old", "new", "--json", "--seed", "3", "--fail-under", "f1=-50")
    here = Path()
    # A process of its own has its own hashes, and so its own order of sets.
    first = run(here, "compare", *typed, "--out", "c.json", PYTHONHASHSEED="1")
    second = compare(*typed)
    assert (first.code, first.err) == (0, "")
    assert first.out == second.out == Path("c.json").read_text("utf-8")
    found = Comparison.model_validate_json(first.out)
    assert (found.settings["test"]["seed"], found.settings["test"]["resamples"]) == (3, 10_000)
    assert (found.first.name, found.second.name, found.direction) == (
        "old",
        "new",
        "second - first",
    )
    assert [(gate.gate, gate.passed) for gate in found.gates] == [("f1", True)]
    other = Comparison.model_validate_json(compare(*typed, "--seed", "4").out)
    assert other.overall.all.f1.value == found.overall.all.f1.value
    # Only the sign flips are random, and these are so few that all of them are gone through.
    assert other.overall == found.overall


def test_three_runs_are_a_matrix() -> None:
    done = compare("old", "new", "half", "--json")
    assert done.code == 0
    found = Matrix.model_validate_json(done.out)
    assert (found.paired, len(found.runs), len(found.pairs)) == (6, 3, 3)
    assert "rank" in compare("old", "new", "half").out


GATES = [
    (["--fail-under", "f1=-0.5"], 4, "F1 of new is "),
    (["--fail-under", "f1=-50"], 0, ""),
    (["--fail-under", "f1=-50", "--fail-under", "recall=0"], 4, "recall of new is "),
    (["--fail-under", "attribute.f1=-100"], 4, "new has no F1 of attribute elements to compare"),
    (["--min-coverage", "99%"], 0, ""),
    (["--min-coverage", "11"], 4, "10 of 10 annotated videos (100.00%) are scored in both"),
]


@pytest.mark.parametrize(("arguments", "code", "told"), GATES)
@pytest.mark.parametrize("as_json", [True, False])
def test_a_gate_that_fails_ends_with_4_and_says_why_in_a_line(
    arguments: list[str], code: int, told: str, as_json: bool
) -> None:
    done = compare("old", "new", *arguments, *(["--json"] if as_json else []))
    assert done.code == code, done.err
    if code:
        assert done.err.startswith(f"capeval: gate failed: {told}")
        assert done.err.count("\n") == 1
    else:
        assert done.err == ""
    # What was found is shown either way.
    assert Comparison.model_validate_json(done.out) if as_json else "B − A" in done.out


def test_coverage_counts_what_both_scored() -> None:
    assert compare("old", "half", "--min-coverage", "60%").code == 0
    done = compare("old", "new", "half", "--min-coverage", "61%")
    assert done.code == 4
    assert done.err == (
        "capeval: gate failed: 6 of 10 annotated videos (60.00%) are scored in all runs; "
        "--min-coverage requires at least 61%\n"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["old"], "name at least two runs"),
        (["old", "none"], "none: is neither a file nor a run under runs/"),
        (["old", "runs/old"], "is named twice"),
        (["old", "new", "--annotations", "none.json"], "none.json"),
        (["old", "other"], "cannot be compared because they differ: judge judge-1 vs. judge-2"),
        (["old", "other", "--fail-under", "f1=-100"], "cannot be compared"),
        (["old", "new", "half", "--fail-under", "f1=0"], "name two"),
        (["old", "new", "--fail-under", "f1"], "--fail-under: 'f1' must be like f1=-0.5"),
        (["old", "new", "--min-coverage", "some"], "--min-coverage: 'some' must be"),
        (["old", "new", "--json", "--format", "latex"], "--format is for tables"),
        (["old", ""], "RUN is empty"),
        (["old", "new", "--judge", "gpt"], "was not judged by gpt"),
        ([], "capeval compare --help"),
    ],
)
def test_mistakes_are_one_line_and_2(arguments: list[str], told: str) -> None:
    done = compare(*arguments, "--out", "c.json")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("capeval: ")
    assert told in done.err
    assert done.err.count("\n") == 1
    assert not Path("c.json").exists()


def test_anyway_marks_the_table() -> None:
    done = compare("old", "other", "--allow-mismatch")
    assert done.code == 0
    assert done.out.startswith("[not comparable] other has the same F1 as old (no interval")
    assert "\n[not comparable] A old, B other: " in done.out
    assert "NOT COMPARABLE: judge judge-1 vs. judge-2" in done.out
    found = json.loads(compare("old", "other", "--allow-mismatch", "--json").out)
    assert found["comparable"] is False
