from pathlib import Path
from typing import Any

import pytest

from tests.judged_runs import VIDEOS, score_run, write_annotations
from tests.mcq.graded_runs import FRAMES, write_responses
from tests.world import here, lines, write_lines

DRAFTER = "Qwen/Qwen2-VL-7B-Instruct"
WARNING = f"annotations were drafted with {DRAFTER}, the tested model: its scores may be too"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    drafted = {"drafted_by": ("gpt-4o", DRAFTER)}
    write_annotations(Path("a.json"), [one.model_copy(update=drafted) for one in VIDEOS])


@pytest.mark.parametrize(
    ("run", "generation", "is_warned"),
    [
        ("mine", None, False),
        ("qwen2-vl-7b-instruct", None, True),
        ("mine", {"model": "hf:other/qwen2-vl-7b-instruct/"}, True),
    ],
)
def test_judge_score_and_leaderboard_warn_of_the_captioner(
    run: str, generation: dict[str, Any] | None, is_warned: bool
) -> None:
    score_run(run, "+++ +++ | +++ | ++ +", generation=generation)
    judged = here("judge", run, "--judge", "lexical").err
    scored = here("score", run, "--judge", "judge").err
    for text in (judged, scored, " ".join(here("leaderboard").out.split())):
        assert (f"{run}: the {WARNING}" in text) is is_warned


@pytest.mark.parametrize(
    ("model", "how", "is_warned"),
    [(DRAFTER.lower(), "drafted", True), (DRAFTER, "filtered", True), ("other", "drafted", False)],
)
def test_grade_and_leaderboard_warn_of_the_answering_model(
    model: str, how: str, is_warned: bool
) -> None:
    file = write_responses(Path("runs/mcq/tomato/mine"), [True, False] * 4, FRAMES["multi"])
    write_lines(file, [line | {f"{how}_by": [DRAFTER]} for line in lines(file)])
    warning = f"mine: the questions were {how} with {DRAFTER}, the tested model"
    assert (warning in here("mcq", "grade", "mine", "--model", model).err) is is_warned
    said = here("leaderboard", "--questions")
    assert (warning in " ".join(said.out.split())) is is_warned
