"""The card of a judge is shown with scores of this judge, and with no others."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import capeval
from capeval.judging.lexical import LexicalJudge
from capeval.reporting.leaderboard.tables import rendered_leaderboard
from capeval.reporting.probe_tables import (
    card_line,
    print_probing,
    probing_headline,
    rendered_probing,
)
from capeval.runs.sources import annotations_of
from capeval.trust.cards import card_for
from capeval.trust.probe_card import Card, load_card
from capeval.trust.probing_result import Probing
from tests.trust.probed_judges import NeverContradicts, Oracle
from tests.typed import typed

SAMPLE = annotations_of("sample")
CARD = Path("probes/lexical-1/probe.json")
VERDICTS = Path("runs/sample-terse/lexical-1/judgments.jsonl")

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def judged(alone: None) -> None:
    folder = Path(capeval.__file__).parent.parent / "annotations/sample/captions"
    capeval.judge(folder / "terse.jsonl", "sample", run="sample-terse", judge="lexical")


@pytest.fixture
def probing(alone: None) -> Probing:
    return capeval.probe("sample", judge="lexical", videos=4)


@pytest.mark.usefixtures("judged", "probing")
def test_judge_report_and_leaderboard_show_it() -> None:
    card = card_for(VERDICTS)
    assert card is not None
    line = card_line(card)
    assert line.startswith("Card of the baseline lexical-1 (capeval probe): ")
    assert rendered_leaderboard(capeval.leaderboard(), "markdown").count("Card of") == 1
    report = capeval.report("sample-terse", frames=0)
    assert line in report.file.read_text(encoding="utf-8")
    said = typed(Path.cwd(), "judge", "sample", "--judge", "lexical", env={"COLUMNS": "200"})
    assert said.code == 0, said
    assert " ".join(said.out.split()).count(f"{line}.") == 1


@pytest.mark.usefixtures("judged")
def test_without_a_card_nothing_is_shown() -> None:
    assert card_for(VERDICTS) is None
    assert "Card of" not in rendered_leaderboard(capeval.leaderboard(), "markdown")
    assert "capeval probe" not in capeval.report("sample-terse", frames=0).file.read_text()


@pytest.mark.parametrize("runs", ["runs", ".", "other/runs", "../here/runs"])
def test_cards_are_next_to_the_runs(alone: None, runs: str, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    os.chdir(here)
    capeval.probe("sample", judge="lexical", videos=1, runs=runs)
    folder = Path(capeval.__file__).parent.parent / "annotations/sample/captions"
    capeval.judge(folder / "terse.jsonl", "sample", run="sample-terse", judge="lexical", runs=runs)
    assert card_for(Path(runs) / "sample-terse/lexical-1/judgments.jsonl") is not None


def test_what_no_video_could_be_used_for_is_counted(alone: None) -> None:
    card = capeval.probe([SAMPLE[0]], judge="lexical").cards["lexical-1"]
    result = card.kinds["foreign"]
    assert (result.captions, result.tested) == (0, {})
    assert result.unused == {"video has no other to take a caption from": 1}


def edit(change: Callable[[dict[str, Any]], object], path: Path = CARD) -> None:
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value))


@pytest.mark.usefixtures("judged", "probing")
@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["judge"].update(hashes=["another"]),
        lambda card: card["judge"]["identity"].update(judge="another"),
        lambda card: card["judge"]["identity"].update(prompts="p@1"),
        lambda card: card["judge"]["identity"].update(endpoint="another"),
        lambda card: card["judge"]["identity"].update(repeats=3),
        lambda card: card["judge"]["identity"].update(more="settings"),
        lambda card: card.pop("headline"),
        lambda card: card["headline"].update(value=2.0),
        lambda card: card.update(more=1),
    ],
)
def test_a_card_of_another_judge_or_a_damaged_one_is_not_shown(change: Any) -> None:
    assert card_for(VERDICTS) is not None
    edit(change)
    assert card_for(VERDICTS) is None


@pytest.mark.usefixtures("judged", "probing")
@pytest.mark.parametrize("text", ["", "[]", "{", "\ufeff", "null", "1e999", '{"a": NaN}'])
def test_a_file_that_is_no_card_stops_nothing(text: str) -> None:
    CARD.write_text(text)
    assert card_for(VERDICTS) is None
    assert capeval.leaderboard().sections
    assert capeval.probe("sample", judge="lexical", videos=4).cards["lexical-1"] == load_card(CARD)


@pytest.mark.usefixtures("probing")
@pytest.mark.parametrize("text", ["", "nonsense\n", '{"status": "scored"}\n', "[1]\n", "\xff\n"])
def test_verdicts_that_cannot_be_read_have_no_card(text: str) -> None:
    VERDICTS.parent.mkdir(parents=True)
    VERDICTS.write_bytes(text.encode("latin-1"))
    assert card_for(VERDICTS) is None
    assert card_for(Path("missing.jsonl")) is None


@pytest.mark.usefixtures("judged", "probing")
def test_snapshots_that_did_not_answer_the_probes_have_no_card() -> None:
    lines = [json.loads(line) for line in VERDICTS.read_text().splitlines()]
    for line in lines:
        line["provenance"]["models"] = ["snapshot-2"]
    VERDICTS.write_text("".join(json.dumps(line) + "\n" for line in lines))
    # The card records no snapshot: the judge is the same as far as is known.
    assert card_for(VERDICTS) is not None
    edit(lambda card: card["judge"].update(models=["snapshot-1"]))
    assert card_for(VERDICTS) is None
    edit(lambda card: card["judge"].update(models=["snapshot-1", "snapshot-2"]))
    assert card_for(VERDICTS) is not None


# ---- tables ----------------------------------------------------------------------------------


def printed(found: Probing, **given: Any) -> str:
    out = io.StringIO()
    print_probing(found, Console(file=out, width=100, color_system=None), **given)
    return out.getvalue()


def test_the_first_line_is_the_answer_and_the_sample_fits_a_screen() -> None:
    found = capeval.probe("sample", judge=NeverContradicts(SAMPLE))
    lines = printed(found).splitlines()
    assert lines[0] == probing_headline(found)
    assert lines[0].startswith("never-contradicts: 66.7% [")
    assert lines[0].endswith("; worst probe: contradicted, 0.0%.")
    assert len(lines) <= 42
    full = printed(found, full=True)
    assert "has no word that can be replaced for certain" in full
    assert full.count("\n") > len(lines)


def test_a_headline_says_what_it_rests_on(probing: Probing) -> None:
    (card,) = probing.cards.values()
    part = card.model_copy(update={"unscored": 12})
    assert f"; 12/{card.captions} captions unscored" in card_line(part)
    assert probing_headline(Probing(cards={"part": part})).endswith(" captions unscored.")
    assert "unscored" not in card_line(card)


def test_a_card_without_a_headline_says_what_was_not_tested() -> None:
    event = SAMPLE[0].events[0]
    event = event.model_copy(update={"visual_elements": event.visual_elements[:1]})
    plain = SAMPLE[0].model_copy(update={"events": (event,)})
    assert probing_headline(capeval.probe([plain], judge="lexical")) == (
        "lexical-1: no headline, because no verdict of lack or contradiction was tested, on probes "
        "of 1 video; worst probe: verbatim, 100.0%."
    )


def test_a_headline_of_zero_is_higher_than_none(probing: Probing) -> None:
    (card,) = probing.cards.values()
    cards = {
        name: card.model_copy(
            update={
                "headline": card.headline.model_copy(update={"value": value, "low": 0, "high": 1}),
                "judge": card.judge.model_copy(update={"identity": {"judge": name}}),
            }
        )
        for name, value in (("unknown", None), ("zero", 0.0))
    }
    assert probing_headline(Probing(cards=cards)).startswith("zero: 0.0% [")


def test_a_card_of_several_snapshots_says_so(probing: Probing) -> None:
    (card,) = probing.cards.values()
    mixed = card.model_copy(
        update={"judge": card.judge.model_copy(update={"models": ["snap-1", "snap-2"]})}
    )
    text = " ".join(printed(Probing(cards={"mixed": mixed})).split())
    assert "answered as snap-1, snap-2: the verdicts are of several snapshots." in text
    assert "snapshot" not in printed(probing)


def test_several_judges_are_side_by_side() -> None:
    found = capeval.probe("sample", judge=[LexicalJudge(), NeverContradicts(SAMPLE)])
    text = printed(found)
    assert text.splitlines()[0].startswith("lexical-1: ")
    assert "the highest of 2 judges" in text
    assert "A: lexical-1, B: never-contradicts" in text
    markdown = rendered_probing(found, "markdown")
    assert "| Probe | lexical-1 | never-contradicts |" in markdown
    assert json.loads(rendered_probing(found, "json")) == found.model_dump(mode="json")


def test_what_a_judge_is_called_is_only_text() -> None:
    class Odd(Oracle):
        name = "[red]a|b\x1b[31m <i>"

    found = capeval.probe("sample", judge=Odd(SAMPLE))
    assert "\x1b" not in printed(found)
    assert "[red]a|b" in printed(found)
    assert r"\[red\]a\|b" in rendered_probing(
        capeval.probe("sample", judge=[Odd(SAMPLE), LexicalJudge()]), "markdown"
    )


def test_out_is_written_in_the_format_of_its_suffix(probing: Probing) -> None:
    for name, begins in (("card.md", "**Right"), ("card.csv", '"Right'), ("card.json", "{")):
        capeval.probe("sample", judge="lexical", videos=4, out=name)
        assert Path(name).read_text().startswith(begins), name
    assert json.loads(Path("card.json").read_bytes()) == probing.model_dump(mode="json")


def test_a_card_survives_its_file(probing: Probing) -> None:
    assert isinstance(probing.cards["lexical-1"], Card)
    assert load_card(CARD) == probing.cards["lexical-1"]
