"""`capeval score`: stored verdicts scored again, without any model."""

from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.files.judgments import write_judgments
from capeval.schema import Inputs, Provenance, Unscored
from tests.judged_runs import make_run, write_annotations
from tests.scoring.making import annotation, scored
from tests.world import Said, lines, typed, write_lines

VIDEOS = [
    annotation("a", "c3 s1", "a2", domain="Film"),
    annotation("b", "t2"),
    annotation("c", "c1"),
]
BY = Provenance(judge="lexical-2", prompts=None, baseline=True)
JUDGMENTS = [scored("a", "+0 -", provenance=BY), scored("b", "+", provenance=BY)]
RUN = Path("runs/mine")
JUDGE = RUN / "lexical-2"
UNFINISHED = (
    "mine: 1 of 3 captions is not judged yet; finish with the same `capeval judge` command as "
    "before (judge: lexical-2, a baseline, repeats 1)\n"
)


@pytest.fixture(autouse=True)
def _run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judged run of three captions, one of which has no judgment yet."""
    monkeypatch.chdir(tmp_path)
    write_annotations(Path(), VIDEOS)
    captions = dict.fromkeys("abc", "A dog.")
    path = str(tmp_path / "annotations.json")
    more = {"path": path}
    make_run(Path(), "mine", JUDGMENTS, judge="lexical-2", captions=captions, annotations=more)
    Path("copy.jsonl").write_bytes((JUDGE / "judgments.jsonl").read_bytes())


def score(*arguments: str, cwd: Path = Path()) -> Said:
    return typed(cwd, "score", *arguments)


@pytest.mark.parametrize(
    ("path", "captioned"),
    [("mine", 3), (str(JUDGE / "judgments.jsonl"), 3), ("copy.jsonl", 2)],
)
def test_stored_verdicts_give_the_same_numbers_wherever_they_lie(path: str, captioned: int) -> None:
    done = score(path, "--annotations", "annotations.json", "--json")
    assert (done.code, done.err) == (0, UNFINISHED if captioned == 3 else "")
    scores = done.json
    # Of a: 3 of (3 + 2) mentioned and of 6 in all; of b: everything.
    assert scores["overall"]["all"]["precision"]["value"] == (3 / 5 + 1) / 2
    assert scores["overall"]["all"]["recall"]["value"] == (3 / 6 + 1) / 2
    assert scores["overall"]["all"]["n"] == 2
    counts = {"annotated": 3, "captioned": captioned, "scored": 2, "unscored": captioned - 2}
    assert scores["counts"] == counts
    assert "|judge:lexical-2|" in scores["signature"]
    assert scores["mean_words"] == (2.0 if captioned == 3 else None)


def test_table_shows_coverage_and_signature_and_out_writes_the_same_json() -> None:
    done = score("mine", "--out", "deep/scores.json")
    assert done.code == 0
    assert done.lines == ["deep/scores.json: the scores of 2 videos", *UNFINISHED.splitlines()]
    assert done.out.startswith("mine: F1 ")
    assert " over 2 of 3 videos (scored 2/3), judged by " in done.out.splitlines()[0]
    assert "mine: captioned 3/3, scored 2/3" in done.out
    assert done.out.split("F1 [95%]")[1].startswith("  Words")
    assert "capeval:tuna-cap|judge:lexical-2|prompts:none|repeats:1|avg:macro|data:" in done.out
    again = score("mine", "--json")
    assert Path("deep/scores.json").read_text() == again.out


def test_a_torn_last_line_is_passed_over() -> None:
    for path, name in ((JUDGE / "judgments.jsonl", "mine"), (Path("copy.jsonl"), "copy.jsonl")):
        path.write_bytes(path.read_bytes()[:-20])
        scores = score(name, "--annotations", "annotations.json", "--json").json
        assert scores["counts"]["scored"] == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"relations": scored("a", "+0- -").relations}, "do not fit the events"),
        ({"matches": (1, None)}, "labels reference event 2, which nothing matches"),
        ({"inputs": Inputs(judge="j", caption="c", reference="r")}, "another annotation"),
    ],
)
def test_verdicts_that_contradict_themselves_are_unscored(
    change: dict[str, Any], reason: str
) -> None:
    write_judgments(Path("copy.jsonl"), [JUDGMENTS[0].model_copy(update=change), JUDGMENTS[1]])
    done = score("copy.jsonl", "--annotations", "annotations.json")
    assert done.code == 0
    assert "captioned 2/3, scored 1/2" in done.out
    assert reason in done.err


@pytest.mark.parametrize("count", [1, 5, 6])
def test_nothing_scored_exits_with_the_first_five_reasons(count: int) -> None:
    indexes = "abcdef"[:count]
    write_annotations(Path(), [annotation(index, "c1") for index in indexes])
    refused = [Unscored(index=index, reason="the judge refused") for index in indexes]
    write_judgments(Path("copy.jsonl"), refused)
    done = score("copy.jsonl", "--annotations", "annotations.json")
    assert done.code == 3
    assert "a is unscored: the judge refused" in done.err
    assert ("1 more is unscored" in done.err, " more are" in done.err) == (count == 6, False)


def test_a_verdict_without_a_caption_does_not_count() -> None:
    (RUN / "captions.jsonl").write_text('{"index": "a", "caption": "A dog."}\n')
    counts = capeval.score(RUN, "annotations.json").counts
    assert (counts.captioned, counts.scored, counts.unscored) == (1, 1, 0)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"index": "a", "status": "scored"}', 'index "a": candidate_events: is missing'),
        (
            '{"index": "z", "status": "unscored", "reason": "no"}',
            'index "z": is not in the ann',
        ),
        ('{"index": "a"', "has no judgments"),
    ],
)
def test_damaged_or_foreign_judgments_are_refused(lines: str, message: str) -> None:
    Path("copy.jsonl").write_text(lines)
    refusal = score("copy.jsonl", "--annotations", "annotations.json").refusal
    assert refusal.startswith("capeval: copy.jsonl: ")
    assert message in refusal


def test_run_that_does_not_know_its_annotations_asks_for_them() -> None:
    (RUN / "manifest.json").write_text("{}")
    assert score("mine").refusal == "capeval: mine: name its annotations with --annotations\n"


def test_verdicts_of_two_settings_are_not_one_result_and_an_unknown_judge_is_reported() -> None:
    file = JUDGE / "judgments.jsonl"
    first, second = lines(file)

    def of_nobody(line: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in line.items() if name != "provenance"}

    for changed in (
        first | {"provenance": BY.model_dump() | {"baseline": False}},
        of_nobody(first),
    ):
        write_lines(file, [changed, second])
        assert "mixes verdicts of 2 judges or settings (lexical-2," in score("mine").refusal
    write_lines(file, [of_nobody(first), of_nobody(second)])
    done = score("mine")
    assert (done.code, "mine: the judge is unknown" in done.err) == (0, True)
