"""Bridged scores of stored verdicts: how they are made, stored and shown, and when outdated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capeval
from capeval.errors import InputError, UsageError
from capeval.files.jsonl import dumps
from capeval.files.judgments import load_judgments, write_judgments
from capeval.runs.stored_scores import load_scores
from capeval.runs.verdicts import summarise
from capeval.scoring import GROUPS, MEASURES
from capeval.stats.calibration import calibrate
from capeval.trust.bridge_file import Bridge, load_bridge
from tests.bridged_runs import World, write_world
from tests.judged_runs import capeval as type_capeval

QUALITY = [-1.2, -0.7, -0.1, 0.4, 1.0, 0.2]
NAMES = [f"system-{letter}" for letter in "abcdef"]
VIDEOS, DRAWN = 120, 60
NEW_FOLDER, OLD_FOLDER = "new-judge@new-prompts", "old-judge@old-prompts"


@pytest.fixture(scope="session")
def world() -> World:
    return World(QUALITY, VIDEOS, seed=2)


@pytest.fixture(scope="session")
def _made(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bridge")
    write_world(world, folder / "runs", NAMES, old=NAMES[:5], anchors=DRAWN)
    return folder


@pytest.fixture
def folder(_made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six systems; the old judge has judged 60 random videos of the first five."""
    shutil.copytree(_made / "runs", tmp_path / "runs")
    shutil.copy(_made / "annotations.json", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stored(run: str, judge: str = NEW_FOLDER) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(f"runs/{run}/{judge}/scores.json").read_text())
    return found


def old_f1(world: World, system: int) -> float:
    """The old judge's F1 of all videos."""
    verdicts = world.judgments("old", system)
    scores = summarise(world.annotations, verdicts, captioned=VIDEOS)
    value = scores.overall.all.f1.value
    assert value is not None
    return value


def test_a_judged_sample_makes_a_run_its_own_anchor(folder: Path, world: World) -> None:
    found = capeval.bridge("old", "new")
    assert [of.method for of in found.runs.values()] == ["own_anchor"] * 5 + ["system_line"]
    bridged = found.runs["system-a"]
    estimate = bridged.overall.all.f1
    # The estimate is that of calibrated scores, with the old judge in the place of raters.
    new = load_judgments(Path(f"runs/system-a/{NEW_FOLDER}/judgments.jsonl"))
    drawn = json.loads(Path(f"runs/system-a/{OLD_FOLDER}/anchors.json").read_text())["indexes"]
    f1 = {
        judge: capeval.score(f"runs/system-a/{name}").videos
        for judge, name in (("old", OLD_FOLDER), ("new", NEW_FOLDER))
    }
    everything = [f1["new"][index]["all"].f1 for index in new]
    rows = [place for place, index in enumerate(new) if index in drawn]
    labelled = [f1["old"][index]["all"].f1 for index in new if index in drawn]
    expected = calibrate(everything, labelled, rows, bounds=(0, 1))
    assert estimate.value == pytest.approx(float(expected.value[0]))
    assert (estimate.low, estimate.high) == pytest.approx(
        (float(expected.low[0]), float(expected.high[0]))
    )
    assert estimate.same_videos is not None
    assert estimate.same_videos.low is not None
    assert estimate.low is not None
    assert estimate.same_videos.low > estimate.low
    assert bridged.anchored == DRAWN
    assert bridged.by is not None
    assert set(bridged.by.visual_characteristic) == {"Low-Dynamic", "High-Dynamic"}


@pytest.mark.parametrize("system", range(6))
def test_the_old_score_is_within_the_interval(folder: Path, world: World, system: int) -> None:
    of = capeval.bridge("old", "new", max_error=12).runs[NAMES[system]].overall.all.f1
    assert of.same_videos is not None
    low, high = of.same_videos.low, of.same_videos.high
    assert low is not None
    assert high is not None
    # An interval of 95% may miss: this seed's do not, by more than a point.
    assert low - 0.01 <= old_f1(world, system) <= high + 0.01


def test_bridged_scores_are_stored_beside_the_judges_own(folder: Path) -> None:
    before = stored("system-a")
    found = capeval.bridge("old", "new", "system-a")
    after = stored("system-a")
    assert after.pop("bridged") == json.loads(dumps(found.runs["system-a"].model_dump(mode="json")))
    assert after == before
    assert "bridged" not in stored("system-b")
    assert "bridged" not in stored("system-a", OLD_FOLDER)
    signature = found.runs["system-a"].signature
    assert "|judge:bridged:old-1<-new-1@" in signature
    assert "|prompts:old-prompts@111111<-new-prompts@222222|" in signature
    assert load_scores(Path(f"runs/system-a/{NEW_FOLDER}/scores.json")).bridged


def test_runs_judged_in_full_need_no_bridge(tmp_path: Path, world: World) -> None:
    write_world(world, tmp_path / "runs", NAMES, old=NAMES[:5])
    found = capeval.bridge("old", "new", runs=tmp_path / "runs", max_error=12)
    assert found.whole == tuple(NAMES[:5])
    assert list(found.runs) == ["system-f"]
    assert found.bridge.shared == VIDEOS


def test_the_order_of_runs_changes_nothing_but_names(folder: Path, world: World) -> None:
    one = capeval.bridge("old", "new").bridge
    for name in NAMES:
        Path("runs", name).rename(Path("runs", f"{9 - NAMES.index(name)}-{name}"))
    shutil.rmtree("bridges")
    other = capeval.bridge("old", "new").bridge
    for group in GROUPS:
        for measure in MEASURES:
            first, second = (getattr(getattr(b.lines, group), measure) for b in (one, other))
            assert second.line.slope == pytest.approx(first.line.slope)
            assert sorted(second.means) == sorted(first.means)


def test_few_anchors_are_refused_with_figures(folder: Path) -> None:
    found = capeval.bridge("old", "new", "system-f", anchor=["system-a", "system-b", "system-c"])
    (refusal,) = found.runs["system-f"].overall.all.f1.refusals
    assert (refusal.rule, refusal.figures) == ("systems", {"systems": 3, "least": 5})
    assert found.runs["system-f"].overall.all.f1.value is None


def test_videos_missing_in_some_anchors_are_counted(folder: Path) -> None:
    file = Path(f"runs/system-b/{OLD_FOLDER}/judgments.jsonl")
    verdicts = list(load_judgments(file).values())
    write_judgments(file, verdicts[5:])
    bridge = capeval.bridge("old", "new").bridge
    assert (bridge.shared, bridge.not_shared) == (DRAWN - 5, 5)
    assert bridge.lines.all.f1.n == DRAWN - 5
    warnings = capeval.bridge("old", "new").runs["system-b"].warnings
    assert any("5 of 60 drawn videos are not scored by both" in line for line in warnings)


def test_of_drawn_videos_only_these_count(folder: Path, world: World) -> None:
    one = capeval.bridge("old", "new").runs["system-a"]
    write_judgments(
        Path(f"runs/system-a/{OLD_FOLDER}/judgments.jsonl"), world.judgments("old", 0)[:-1]
    )
    other = capeval.bridge("old", "new").runs["system-a"]
    assert other.anchored == one.anchored == DRAWN
    assert other.overall == one.overall


def test_videos_that_were_not_drawn_at_random_are_warned_about(folder: Path) -> None:
    Path(f"runs/system-a/{OLD_FOLDER}/anchors.json").unlink()
    found = capeval.bridge("old", "new").runs
    assert any("not drawn at random" in line for line in found["system-a"].warnings)
    assert found["system-b"].warnings == ()


def test_a_type_without_elements_has_no_score_and_no_crash(tmp_path: Path) -> None:
    world = World(QUALITY, 40, seed=5)
    world.annotations = [
        one.model_copy(
            update={
                "events": tuple(
                    event.model_copy(
                        update={
                            "visual_elements": tuple(
                                e.model_copy(
                                    update={"type": "scene" if e.type == "camera" else e.type}
                                )
                                for e in event.visual_elements
                            )
                        }
                    )
                    for event in one.events
                )
            }
        )
        for one in world.annotations
    ]
    write_world(world, tmp_path / "runs", NAMES, old=NAMES[:5], anchors=32)
    found = capeval.bridge("old", "new", runs=tmp_path / "runs", max_error=50)
    assert "videos" in [one.rule for one in found.bridge.lines.camera.f1.refusals]
    assert found.runs["system-a"].overall.camera.f1.value is None
    assert found.runs["system-f"].overall.camera.f1.value is None
    assert "NaN" not in Path(found.file).read_text()


STALE = {
    "new verdicts": (NEW_FOLDER, "system-a", "the verdicts of new-judge@new-prompts have changed"),
    "old verdicts": (OLD_FOLDER, "system-a", "the verdicts of old-judge@old-prompts have changed"),
}


@pytest.mark.parametrize("what", STALE)
def test_bridged_scores_of_changed_verdicts_are_left_out(folder: Path, what: str) -> None:
    judge, run, why = STALE[what]
    capeval.bridge("old", "new")
    file = Path(f"runs/{run}/{judge}/judgments.jsonl")
    write_judgments(file, list(load_judgments(file).values())[:-1])
    notices: list[str] = []
    assert capeval.score(run, judge="new", on_notice=notices.append).bridged is None
    assert any(why in line for line in notices)
    capeval.bridge("old", "new", run)
    if judge == OLD_FOLDER:
        assert capeval.score(run, judge="new").bridged is not None


def test_a_line_is_outdated_when_an_anchor_or_the_bridge_changes(folder: Path) -> None:
    def of_line() -> tuple[bool, str]:
        notices: list[str] = []
        scores = capeval.score("system-f", on_notice=notices.append)
        return scores.bridged is not None, " ".join(notices)

    found = capeval.bridge("old", "new", max_error=12)
    assert of_line() == (True, "")
    file = Path(f"runs/system-c/{OLD_FOLDER}/judgments.jsonl")
    write_judgments(file, list(load_judgments(file).values())[:-1])
    kept, why = of_line()
    assert (kept, "anchor system-c" in why) == (False, True)
    capeval.bridge("old", "new", "system-c", max_error=12)
    kept, why = of_line()
    assert (kept, "the bridge was made again since" in why) == (False, True)
    capeval.bridge("old", "new", max_error=12)
    assert of_line() == (True, "")
    Path(found.file).unlink()
    kept, why = of_line()
    assert (kept, "cannot be checked" in why) == (False, True)


def test_edited_bridged_scores_are_left_out(folder: Path) -> None:
    capeval.bridge("old", "new")
    assert capeval.score("runs/system-a/" + NEW_FOLDER).bridged is not None
    file = Path(f"runs/system-a/{NEW_FOLDER}/scores.json")
    value = json.loads(file.read_text())
    value["bridged"]["overall"]["all"]["f1"]["value"] = 0.99
    file.write_text(json.dumps(value))
    notices: list[str] = []
    assert capeval.score(file.parent, on_notice=notices.append).bridged is None
    assert "system-a: its bridged scores are left out: they were edited" in notices[0]
    capeval.bridge("old", "new", "system-a")
    assert capeval.score(file.parent).bridged is not None


def test_scores_of_other_annotations_get_no_bridged_ones(folder: Path) -> None:
    file = Path("annotations.json")
    file.write_text(file.read_text().replace("Element 1 of V0000.", "Another element."))
    before = stored("system-f")
    notices: list[str] = []
    found = capeval.bridge("old", "new", annotations=file, on_notice=notices.append)
    assert found.stored == ()
    assert len(notices) == len(NAMES)
    assert "system-f/new-judge@new-prompts/scores.json: is of other annotations" in notices[-1]
    assert stored("system-f") == before
    # What the message says to do helps.
    run = f"runs/system-f/{NEW_FOLDER}"
    capeval.score(run, annotations=file, out=f"{run}/scores.json")
    again = capeval.bridge("old", "new", "system-f", annotations=file)
    assert again.stored == (f"{run}/scores.json",)
    notices.clear()
    scores = capeval.score(run, annotations=file, on_notice=notices.append)
    assert scores.bridged is not None
    assert not any("bridged" in one for one in notices)


def test_rescoring_the_same_verdicts_keeps_bridged_scores(folder: Path) -> None:
    capeval.bridge("old", "new")
    before = stored("system-a")["bridged"]
    file = Path(f"runs/system-a/{NEW_FOLDER}/scores.json")
    capeval.score("system-a", judge="new", out=file)
    assert stored("system-a")["bridged"] == before


def test_a_check_of_published_scores_does_not_mind_bridged_ones(folder: Path) -> None:
    capeval.bridge("old", "new")
    file = Path(f"runs/system-a/{NEW_FOLDER}/scores.json")
    checked = capeval.check_scores(f"runs/system-a/{NEW_FOLDER}", file)
    assert [one for one in checked.differences if "bridged" in one["path"]] == []


def test_a_bridge_made_elsewhere_can_be_used(folder: Path, tmp_path: Path) -> None:
    made = capeval.bridge("old", "new", max_error=12)
    shared = tmp_path / "shared.json"
    shutil.copy(made.file, shared)
    for name in NAMES[:5]:
        shutil.rmtree(Path("runs", name))
    Path(made.file).unlink()
    found = capeval.bridge("old", "new", use=shared, max_error=12)
    assert found.runs["system-f"] == made.runs["system-f"]
    assert capeval.score("system-f").bridged is not None
    with pytest.raises(InputError, match='no run under runs/ was judged by "old"'):
        capeval.bridge("old", "new")
    with pytest.raises(UsageError, match="between other judges"):
        capeval.bridge("older", "new", use=shared)


def test_a_bridge_whose_anchors_are_gone_is_not_replaced(folder: Path) -> None:
    made = capeval.bridge("old", "new")
    shutil.rmtree("runs/system-a")
    with pytest.raises(UsageError, match=r"has anchors that are not under runs/ \(system-a\)"):
        capeval.bridge("old", "new")
    assert load_bridge(Path(made.file)) == made.bridge


def test_verdicts_of_two_judges_under_one_name_are_refused(folder: Path) -> None:
    file = Path(f"runs/system-b/{OLD_FOLDER}/judgments.jsonl")
    text = file.read_text().replace("old-prompts@111111", "old-prompts@333333")
    file.write_text(text)
    with pytest.raises(InputError, match="holds verdicts of another judge"):
        capeval.bridge("old", "new")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("older", "new", 'no run under runs/ was judged by "older"'),
        ("new", "new", "both mean new-judge@new-prompts"),
        ("old", "", "NEW|new.* is empty"),
    ],
)
def test_names_that_mean_no_two_judges(folder: Path, old: str, new: str, message: str) -> None:
    with pytest.raises((InputError, UsageError), match=message):
        capeval.bridge(old, new)


def test_a_run_that_the_new_judge_has_not_judged_is_refused(folder: Path) -> None:
    shutil.rmtree(f"runs/system-a/{NEW_FOLDER}")
    with pytest.raises(InputError, match=r"system-a: was not judged by new-judge@new-prompts"):
        capeval.bridge("old", "new", "system-a")


def _edited(change: dict[str, Any]) -> Any:
    def edit(value: dict[str, Any]) -> None:
        for path, new in change.items():
            *parents, last = path.split(".")
            at: Any = value
            for parent in parents:
                at = at[int(parent) if parent.isdigit() else parent]
            if new is ...:
                del at[last]
            else:
                at[last] = new

    return edit


MALFORMED: dict[str, tuple[Any, str]] = {
    "edited": ({"lines.all.f1.line.slope": 2.0}, "hash: does not match"),
    "no hash": ({"hash": ...}, "hash: does not match"),
    "no lines": ({"lines": ...}, "is no bridge.json"),
    "no type": ({"lines.camera": ...}, "lines.camera: Field required"),
    "unknown key": ({"lies": 1}, "lies: Extra inputs are not permitted"),
    "text for a number": ({"lines.all.f1.line.slope": "1"}, "Input should be a valid number"),
    "negative": ({"lines.all.f1.line.ms_res": -1.0}, "Input should be greater than or equal to 0"),
    "no spread": ({"lines.all.f1.line.sxx": 0.0}, "Input should be greater than 0.000"),
    "a slope that overflows": (
        {"lines.all.f1.line.slope": 1e308},
        "Input should be less than or equal to 1000000000000000000",
    ),
    "a spread whose square overflows": (
        {"lines.all.f1.line.s_res": 1e200},
        "Input should be less than or equal to 1000000000000000000",
    ),
    "no score": (
        {"lines.all.f1.line.low": -0.5},
        "Input should be greater than or equal to -0.000000001",
    ),
    "a range that ends before it begins": (
        {"lines.all.f1.line.low": 1.0, "lines.all.f1.line.high": 0.0},
        "center must be from low to high",
    ),
    "more systems than a float holds": (
        {"lines.all.f1.k": 10**400},
        "Input should be less than or equal to",
    ),
    "a system that is no name": (
        {"lines.all.f1.refusals": [{"rule": "misfit", "figures": {"system": 99.0}}]},
        "a refusal must name its system",
    ),
    "no anchors": ({"anchors": []}, "a line is of other anchors"),
    "unknown rule": (
        {"lines.all.f1.refusals": [{"rule": "mood", "figures": {}}]},
        "Input should be 'systems'",
    ),
    "line of two systems": ({"lines.all.f1.k": 2}, "no line can be fitted"),
    "neither line nor refusal": (
        {"lines.all.f1.line": None, "lines.all.f1.refusals": []},
        "neither a line nor a refusal",
    ),
    "another format": ({"format": 2}, "format"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_bridge_is_one_line_with_its_field(folder: Path, name: str) -> None:
    change, message = MALFORMED[name]
    file = Path(capeval.bridge("old", "new", max_error=12).file)
    value = json.loads(file.read_text())
    _edited(change)(value)
    bad = Path("bad.json")
    bad.write_text(json.dumps(value))
    with pytest.raises(InputError) as fault:
        capeval.bridge("old", "new", use=bad)
    assert str(fault.value).startswith("bad.json: ")
    assert message in str(fault.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("[]", "is no bridge.json"),
        ("{", "broken JSON"),
        ('{"lines": NaN}', "NaN"),
        ('{"lines": {}, "lines": {}}', "is duplicated"),
    ],
)
def test_what_is_no_bridge_is_refused(folder: Path, text: str, message: str) -> None:
    Path("bad.json").write_text(text)
    with pytest.raises(InputError, match=message):
        capeval.bridge("old", "new", use="bad.json")


def test_the_file_holds_what_is_needed_to_transfer_scores(folder: Path) -> None:
    made = capeval.bridge("old", "new")
    value = json.loads(Path(made.file).read_text())
    assert Bridge.model_validate(value) == made.bridge
    assert [anchor["run"] for anchor in value["anchors"]] == NAMES[:5]
    assert {anchor["seed"] for anchor in value["anchors"]} == {0}
    assert {anchor["N"] for anchor in value["anchors"]} == {VIDEOS}
    of = value["lines"]["all"]["f1"]
    assert set(of["line"]) >= {"intercept", "slope", "s_res", "ms_res", "ms_video"}
    assert (of["k"], of["n"], len(of["means"]), len(of["left_out"])) == (5, DRAWN, 5, 5)
    assert Path(made.file).parent.parent == Path("bridges")


def test_the_judges_are_compared(folder: Path, world: World) -> None:
    found = capeval.bridge_show("old", "new")
    of = found.agreement.all
    drawn = json.loads(Path(f"runs/system-a/{OLD_FOLDER}/anchors.json").read_text())["indexes"]
    rows = [at for at, one in enumerate(world.annotations) if one.index in drawn]
    same = total = 0
    for row in rows:
        size = world.sizes[row]
        old, new = (world.labels[judge][:5, row, :size] for judge in ("old", "new"))
        same += int((old == new).sum())
        total += old.size
    assert (of.same, of.elements) == (same, total)
    assert sum(sum(row.values()) for row in of.transitions.values()) == total
    assert len(found.elements) == total - same
    assert [one.run for one in found.runs] == NAMES[:5]
    assert all(one.random for one in found.runs)
    assert len(found.pairs) == 10
    gaps = [abs(one.old - one.new) for one in found.videos]
    assert gaps == sorted(gaps, reverse=True)


def test_a_plan_meets_its_half_width(folder: Path) -> None:
    plan = capeval.bridge_plan("old", "new", half_width=2, videos=1000)
    of = plan.own_anchor["all"]
    assert of is not None
    assert of.least is not None
    assert of.most is not None
    assert 10 <= of.least <= of.needed <= of.most <= 1000
    fewer = capeval.bridge_plan("old", "new", half_width=4, videos=1000).own_anchor["all"]
    assert fewer is not None
    assert fewer.needed < of.needed
    stated = capeval.bridge_plan("gpt-4o", "gpt-9", half_width=2.3, sd=12)
    assert stated.assumed
    assert stated.own_anchor["all"] is not None
    assert stated.own_anchor["all"].needed == 97


def typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setenv("COLUMNS", "120")
    return type_capeval(monkeypatch, capsys, *arguments)


def test_bridged_scores_have_their_own_mark_everywhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = typed(monkeypatch, capsys, "bridge", "old", "new")
    assert code == 0
    assert out.startswith("old-judge@old-prompts<-new-judge@new-prompts: F1 of ")
    assert "‡ bridged from new-judge@new-prompts to the scale of old-judge@old-prompts" in out
    signature = stored("system-a")["bridged"]["signature"]
    for command in (["score", "system-a", "--judge", "new"], ["bridge", "old", "new", "system-a"]):
        code, out, _ = typed(monkeypatch, capsys, *command)
        assert code == 0
        assert signature in out
        assert "‡" in out
        assert "judged by old" not in out
    code, out, err = typed(monkeypatch, capsys, "leaderboard")
    assert code == 0
    assert "Bridged scores, bridged:old-1<-new-1@" in out
    assert "system-a‡" in out
    assert "5 random samples of videos for `capeval bridge` are not ranked" in err
    assert "judged by old" not in out
    code, out, _ = typed(monkeypatch, capsys, "report", "system-a", "--frames", "0")
    page = Path(f"runs/system-a/{NEW_FOLDER}/report.html").read_text()
    assert signature.replace("<", "&lt;") in page
    assert "judged by old" not in page


def test_a_sample_does_not_stand_in_the_way_of_the_judged_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = typed(monkeypatch, capsys, "score", "system-a")
    assert (code, err) == (0, "")
    assert "judged by new-1" in out
    code, _, err = typed(monkeypatch, capsys, "score", "system-a", "--judge", "old")
    assert code == 0
    assert "only 60 of 120 captions are judged: a random sample for `capeval bridge`" in err


def test_a_sample_is_no_metric_of_a_correlation(folder: Path) -> None:
    rated = "".join(f"V{n:04d},system-a,{n % 7}\n" for n in range(VIDEOS))
    Path("human.csv").write_text("video_id,system,score\n" + rated)
    found = capeval.correlate("human.csv", ci="none", resamples=99)
    assert found.results
    assert not any("old-judge" in one.metric for one in found.results)


def test_anchors_that_were_not_drawn_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(f"runs/system-b/{OLD_FOLDER}/anchors.json").unlink()
    _, out, _ = typed(monkeypatch, capsys, "bridge", "old", "new")
    assert "the videos of system-b were not drawn at random" in " ".join(out.split())


def test_a_reasoning_effort_is_part_of_both_judges(folder: Path) -> None:
    one = capeval.bridge("old", "new", "system-a").runs["system-a"]
    for run in NAMES[:5]:
        file = Path(f"runs/{run}/{OLD_FOLDER}/judgments.jsonl")
        text, own = file.read_text(), '"judge": "old-judge"'
        assert own in text
        file.write_text(text.replace(own, f'{own}, "reasoning": "low"'))
    other = capeval.bridge("old", "new", "system-a").runs["system-a"]
    assert "|reasoning:low<-not set|" in other.signature
    assert "reasoning" not in one.signature
    hashes = [of.signature.split("@")[1].split("|")[0] for of in (one, other)]
    assert hashes[0] != hashes[1]


def test_the_exit_code_says_when_nothing_could_be_bridged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = typed(
        monkeypatch, capsys, "bridge", "old", "new", "system-f", "--anchor", "system-a,system-b"
    )
    assert code == 4
    assert "too few anchors: 2 runs are judged by both, at least 5 are needed" in out
    assert "no bridged F1" in out


@pytest.mark.parametrize(("old", "new"), [("gpt-9", "new"), ("old", "gpt-9"), ("gpt-8", "gpt-9")])
def test_a_plan_without_verdicts_says_how_to_plan_from_an_assumption(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
) -> None:
    code, _, err = typed(monkeypatch, capsys, "bridge", "plan", old, new)
    assert code == 2
    assert "to plan without verdicts, state an assumption: --sd 12, in points of F1" in err
    code, out, _ = typed(monkeypatch, capsys, "bridge", "plan", old, new, "--sd", "12")
    assert (code, "assuming a standard deviation of 12.0 points" in out) == (0, True)


def test_only_full_shows_pairs_in_the_same_order_and_elements(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = capeval.bridge_show("old", "new")
    changed = sum(not pair.kept for pair in found.pairs)
    _, brief, _ = typed(monkeypatch, capsys, "bridge", "show", "old", "new")
    assert ("Differences of runs that change order" in brief) == (changed > 0)
    assert "Elements with different labels" not in brief
    _, full, _ = typed(monkeypatch, capsys, "bridge", "show", "old", "new", "--full")
    assert "Differences of runs in overall F1" in full
    assert "Elements with different labels" in full


@pytest.mark.parametrize("command", [["show"], ["plan"], ["build"], []])
def test_json_is_everything_and_alone(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    code, out, err = typed(monkeypatch, capsys, "bridge", *command, "old", "new", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)


def test_scores_of_every_video_are_not_needed_twice(folder: Path) -> None:
    """The values behind the line are those of `capeval.score`."""
    found = capeval.bridge("old", "new", max_error=12).bridge
    drawn = json.loads(Path(f"runs/system-a/{OLD_FOLDER}/anchors.json").read_text())["indexes"]
    scores = capeval.score(f"runs/system-a/{OLD_FOLDER}")
    mean = np.mean([scores.videos[index]["all"].f1 for index in drawn])
    assert found.lines.all.f1.means[0][0] == pytest.approx(float(mean))
