from collections.abc import Sequence
from pathlib import Path

import pytest

import capeval
from capeval.schema import Judgment, Provenance, Unscored
from tests.judged_runs import make_run, write_annotations
from tests.scoring.making import annotation, scored, verdict
from tests.world import here as typed

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


def judged(name: str, captions: dict[str, str], judgments: Sequence[Judgment]) -> None:
    by = judgments[0].provenance
    alike = [judgment.model_copy(update={"provenance": by}) for judgment in judgments]
    make_run(Path(), name, alike, judge=by.judge, captions=captions)


@pytest.fixture(autouse=True)
def _files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two judged runs of four videos."""
    monkeypatch.chdir(tmp_path)
    write_annotations(Path(), VIDEOS)
    first = scored(
        "V1",
        "+0- 0",
        candidate_events=("A dog \x1b[31mruns.", "Then it sits.", "It is [b]late[/b]."),
        matches=(1, 1, None),
        notes=("split: asked again: the \x1b[31mreply is empty", "match: repaired"),
        repeats=tuple(map(verdict, ("+0- 0", "+-- 0", "+00 0"))),
        explanations=(("The \x1b[31mcaption [red]says[/red] so.", "", "Not there."), ("",)),
        provenance=ASKED,
    )
    unscored = Unscored(index="V2", reason="split: the reply is \x1b[31mno JSON")
    judged("mine", {"V1": HOSTILE, "V2": "A cat sleeps.", "V3": " "}, [first, unscored])
    captions = {"V1": "A dog runs.", "V2": "A dog."}
    judged("other", captions, [scored("V1", "++0 +", provenance=RULES), scored("V2", "++")])


def test_the_card_explains_the_score() -> None:
    said = typed("inspect", "mine", "V1", columns=80).out
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert (
        lines[0] == "V1 in mine: F1 46.2, precision 60.0, recall 37.5, judged by judge-model-2024."
    )
    for line in (
        "- match: repaired",
        "event 1 1 A dog \\x1b[31mruns.",
        "(matched by caption events: 1, 2)",
        "none 3 It is [b]late[/b].",
        "all 3 3 2 8 60.0 37.5 46.2",
    ):
        assert any(line in one for one in lines), line
    assert typed("inspect", "mine", "V2").lines == []
    assert "V2 in mine: unscored: split: the reply is" in typed("inspect", "mine", "V2").out
    assert "V3 in mine: not judged yet" in typed("inspect", "mine", "V3").out


@pytest.mark.parametrize("columns", [20, 300])
def test_nothing_can_act_on_a_terminal_and_no_number_is_cut(columns: int) -> None:
    text = typed("inspect", "mine", "V1", columns=columns).out
    assert all(c.isprintable() or c == "\n" for c in text)
    words = text.replace("\n", "").replace(" ", "")
    assert all(one in words for one in ("[red]", r"\x1b", "60.0", "37.5", "46.2", "100.0"))


def test_in_python_the_card_has_its_values_and_prints_as_the_command_does() -> None:
    card = capeval.inspect("mine", "V1")
    assert typed("inspect", "mine", "V1", "--json").json == card.as_json()
    shown = typed("inspect", "mine", "V1", columns=100).out
    assert str(card) == "\n".join(line.rstrip() for line in shown.rstrip().split("\n"))
    assert (card.run, card.caption, card.matches) == ("mine", HOSTILE, (1, 1, None))
    assert [(event.number, event.matched) for event in card.events] == [(1, (1, 2)), (2, ())]
    first = card.elements[0]
    assert (first.id, first.relation, first.votes) == ("1.1", "entailment", ("entailment",) * 3)
    assert card.scores["all"].f1 == pytest.approx(6 / 13)
    assert typed("inspect", "mine", "V4", "--json").json["status"] == "uncaptioned"


def test_an_unknown_video_is_one_line() -> None:
    complaint = 'annotations.json: has no video "V11"; did you mean "V1"?'
    assert complaint in typed("inspect", "mine", "V11").refusal
