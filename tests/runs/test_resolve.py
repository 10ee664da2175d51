"""One rule for every command: what a name means, and what a path means."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from capeval.errors import InputError, UsageError
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import find_captions, find_judges, find_judgments
from tests.judged_runs import score_run, write_annotations

FAIR = "+0- 0++ | 0+- | 00 +"
JUDGE = "gpt-4o@tuna-cap-v1"
FINDERS: dict[str, Callable[[str | Path], object]] = {
    "captions": find_captions,
    "judgments": find_judgments,
    "judges": find_judges,
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judged run `mine`, a run `bare` without verdicts, and files to take them for."""
    monkeypatch.chdir(tmp_path)
    write_annotations(Path("a.json"))
    score_run("mine", FAIR, judge=JUDGE)
    score_run("gpt-4.1", FAIR, judge=JUDGE)
    score_run("bare", FAIR)
    shutil.rmtree("runs/bare/judge")
    shutil.copy(f"runs/mine/{JUDGE}/judgments.jsonl", "judgments.jsonl")
    Path("step").mkdir()
    for name in ("captions.v2.jsonl", "step/captions.jsonl"):
        shutil.copy("runs/mine/captions.jsonl", name)
    Path("tuna.json").write_text('[{"index": "a"}]')
    Path("metric.csv").write_text("video_id,score\na,1\n")


def path_of(found: object) -> str:
    """The path found, whatever kind of thing it is the path of."""
    if isinstance(found, list):
        (found,) = found
    return str(getattr(found, "path", found))


MINE = {
    "captions": "runs/mine",
    "judgments": f"runs/mine/{JUDGE}/judgments.jsonl",
    "judges": f"runs/mine/{JUDGE}",
}
OF_JUDGE = {
    "captions": "is neither a captions file nor a run",
    "judgments": MINE["judgments"],
    "judges": MINE["judges"],
}
# What is typed, and what each command that reads runs takes it for: a path, or why it is refused.
MEANT: dict[str, dict[str, str]] = {
    "mine": MINE,
    "runs/mine": MINE,
    "runs/mine/": MINE,
    "gpt-4.1": {kind: path.replace("mine", "gpt-4.1") for kind, path in MINE.items()},
    f"runs/mine/{JUDGE}": OF_JUDGE,
    "mine/": dict.fromkeys(FINDERS, "does not exist"),
    "bare": {
        "captions": "runs/bare",
        "judgments": "is a run that is not judged; run `capeval judge runs/bare` first",
    },
    "runs": {
        "captions": "is neither a captions file nor a run: it has no captions.jsonl",
        "judgments": "is neither a judged run nor a judge's folder",
    },
    "judgments.jsonl": {
        "captions": "judgments.jsonl",
        "judgments": "judgments.jsonl",
        "judges": "is neither a folder nor a run under runs/",
    },
    "runs/mine/captions.jsonl": {"captions": "runs/mine"},
    "runs/mine/manifest.json": {"captions": "runs/mine/manifest.json"},
    "captions.v2.jsonl": {"captions": "captions.v2.jsonl"},
    "step/captions.jsonl": {"captions": "step/captions.jsonl"},
    "tuna.json": {"judgments": "tuna.json"},
    "metric.csv": {"judgments": "metric.csv"},
    "mime": dict.fromkeys(FINDERS, 'run under runs/; did you mean "mine"?'),
    "tuna.jso": {"judgments": 'did you mean "tuna.json"?'},
    "sample": {"judgments": "is neither a file nor a run under runs/"},
    "": dict.fromkeys(FINDERS, "the name of a run is empty"),
    "mi\0ne": dict.fromkeys(FINDERS, "nor a run under runs/"),
    "x" * 300: dict.fromkeys(FINDERS, "nor a run under runs/"),
}
CASES = [(typed, kind, meant) for typed, of in MEANT.items() for kind, meant in of.items()]


@pytest.mark.parametrize(("typed", "kind", "meant"), CASES)
def test_what_is_typed_means_one_thing(typed: str, kind: str, meant: str) -> None:
    if " " not in meant:
        assert path_of(FINDERS[kind](typed)) == meant
        return
    with pytest.raises((InputError, UsageError)) as refused:
        FINDERS[kind](typed)
    assert meant in str(refused.value)


def test_a_path_object_is_a_path_even_without_a_separator() -> None:
    assert find_captions(Path("runs/mine")) == RunFolder(Path("runs/mine"))
    with pytest.raises(InputError, match=r"mine: does not exist"):
        find_captions(Path("mine"))


def unrelated_folder() -> None:
    Path("mine").mkdir()
    Path("mine/weights.bin").write_bytes(b"\0\1")


BESIDE: dict[str, tuple[Callable[[], object], set[str]]] = {
    "an unrelated folder": (unrelated_folder, set()),
    "an unrelated file": (
        lambda: Path("mine").write_bytes(b"\0\1weights"),
        {"captions", "judgments"},
    ),
    "a broken link": (lambda: Path("mine").symlink_to("gone"), set()),
    "a link to the run": (lambda: Path("mine").symlink_to("runs/mine"), set()),
    "a run": (lambda: shutil.copytree("runs/bare", "mine"), {"captions"}),
    "a judged run": (lambda: shutil.copytree("runs/mine", "mine"), set(FINDERS)),
}


@pytest.mark.parametrize("beside", BESIDE)
def test_only_what_could_serve_too_makes_a_name_ambiguous(beside: str) -> None:
    make, serve_too = BESIDE[beside]
    make()
    for kind, find in FINDERS.items():
        if kind not in serve_too:
            assert path_of(find("mine")) == MINE[kind]
            continue
        with pytest.raises(InputError) as refused:
            find("mine")
        assert str(refused.value) == "mine: can mean runs/mine or ./mine; name one of these paths"
        assert path_of(find("runs/mine")) == MINE[kind]
        assert path_of(find("./mine")).startswith("mine")


@pytest.mark.parametrize(
    ("judge", "meant"),
    [
        (JUDGE, JUDGE),
        ("gpt-4o", JUDGE),
        ("Qwen/Qwen3", "Qwen-Qwen3-8B@v1-ab265f"),
        ("q", "was not judged by q, but by Qwen-Qwen3-8B@v1-ab265f, gpt-4o@tuna-cap-v1"),
        (
            None,
            "was judged by several judges; choose one with --judge, or name its folder: runs/mine",
        ),
    ],
)
def test_a_judge_is_chosen_by_its_name_or_the_beginning_of_it(
    judge: str | None, meant: str
) -> None:
    run = RunFolder(Path("runs/mine"))
    shutil.copytree(f"runs/mine/{JUDGE}", run.judge("Qwen/Qwen3-8B", "v1", identity="0").path)
    if " " not in meant:
        assert find_judgments("mine", judge=judge).parent.name == meant
        return
    with pytest.raises(InputError) as refused:
        find_judgments("mine", judge=judge)
    assert meant in str(refused.value)


def test_the_exact_name_of_a_judge_wins_over_longer_ones() -> None:
    shutil.copytree(f"runs/mine/{JUDGE}", "runs/mine/gpt-4o")
    assert find_judgments("mine", judge="gpt-4o").parent.name == "gpt-4o"


@pytest.mark.parametrize("content", [None, b""])
def test_a_folder_without_verdicts_belongs_to_no_judge(content: bytes | None) -> None:
    left = Path("runs/mine/wrong-model@tuna-cap-v1")
    left.mkdir()
    (left / ".lock").touch()
    if content is not None:
        (left / "judgments.jsonl").write_bytes(content)
    for kind, meant in MINE.items():
        assert path_of(FINDERS[kind]("mine")) == meant
    with pytest.raises(InputError):
        find_judgments(str(left))
