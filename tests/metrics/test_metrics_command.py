import json
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import InputError, UsageError
from capeval.metrics.protocol import Item, Outcome
from capeval.metrics.registry import METRICS
from tests.metrics import own_metrics
from tests.world import ROOT, install, installed, typed
from tests.world import lines as rows

OWN = ("letters", "hostile", "unmade")


@pytest.fixture(autouse=True)
def _own_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OWN:
        place = f"tests.metrics.own_metrics:{name.title()}"
        monkeypatch.setitem(METRICS.packaged, name, place)
    own_metrics.SCORED.clear()


def write(folder: Path, captions: dict[str, str], references: dict[str, Any] | None = None) -> None:
    (folder / "c.json").write_text(json.dumps(captions), "utf-8")
    references = references or dict.fromkeys(captions, "A dog runs.")
    (folder / "r.json").write_text(json.dumps(references), "utf-8")


def values(file: Path) -> dict[tuple[str, str], float | None]:
    return {(row["index"], row["metric"]): row["value"] for row in rows(file)}


FILES = ("metrics", "--candidates", "c.json", "--references", "r.json", "--metric")


def test_the_sample_gets_its_controls(tmp_path: Path) -> None:
    done = typed(tmp_path, "metrics", "sample")
    assert (done.code, len(done.out.splitlines())) == (0, 16)
    assert done.out.startswith(
        "unigram-f1 25.6 (sample-terse) to 60.2 (sample-thorough), length 19.7 (sample-terse) to "
        "152.7 (sample-thorough); all 30 captions scored."
    )
    assert done.out.splitlines()[3].split() == ["System", "unigram-f1", "length", "scored"]
    found = values(tmp_path / "runs" / "sample-terse" / "metrics.jsonl")
    assert found["sample_01", "length"] == 23
    assert found["sample_01", "unigram-f1"] == 22 / 69
    row = rows(tmp_path / "runs" / "sample-terse" / "metrics.jsonl")[0]
    assert " ".join(row) == "index system metric value reason signature caption_hash"
    assert row["system"] == "sample-terse"


def test_only_what_is_missing_or_outdated_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"1": "one", "2": "a fail", "3": "three"})
    out = tmp_path / "metrics.jsonl"
    assert typed(tmp_path, *FILES, "letters,length").code == 3
    before = out.read_bytes()
    assert typed(tmp_path, *FILES, "letters,length").code == 3
    assert own_metrics.SCORED == ["1", "2", "3", "2"]  # a failure is retried
    assert out.read_bytes() == before
    # Values of an earlier text leave the file, although only the other metric is computed.
    write(tmp_path, {"1": "one", "2": "too", "3": "three!"})
    assert typed(tmp_path, *FILES, "length").code == 0
    assert {index for index, metric in values(out) if metric == "letters"} == {"1"}
    own_metrics.SCORED.clear()
    done = typed(tmp_path, *FILES, "letters")
    assert "removed 1 outdated value of letters (the caption or reference changed)" in done.err
    assert (own_metrics.SCORED, values(out)["3", "letters"]) == (["2", "3"], 5)
    (tmp_path / "r.json").write_text('{"1": ["A.", "B."], "2": "A dog runs.", "3": "A dog runs."}')
    assert typed(tmp_path, *FILES, "letters").code == 0
    assert own_metrics.SCORED[2:] == ["1"]
    monkeypatch.setattr(own_metrics.Letters, "settings", {"version": "2"})
    done = typed(tmp_path, *FILES, "letters")
    assert "removed 3 outdated values of letters (the metric's settings changed)" in done.err
    signatures = {row["signature"] for row in rows(out) if row["metric"] == "letters"}
    assert signatures == {f"capeval:letters|version:2|v:{capeval.__version__}"}


def test_a_stopped_metric_keeps_its_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"1": "one", "2": "two", "3": "three"})
    score = own_metrics.Letters.score_caption

    async def stopped(metric: own_metrics.Letters, item: Item) -> Outcome:
        if item.index == "3":
            raise KeyboardInterrupt
        return await score(metric, item)

    with monkeypatch.context() as patched:
        patched.setattr(own_metrics.Letters, "score_caption", stopped)
        assert typed(tmp_path, *FILES, "letters").code == 130
    assert typed(tmp_path, *FILES, "letters").code == 0
    assert own_metrics.SCORED == ["1", "2", "3"]


def test_an_undefined_value_is_no_failure(tmp_path: Path) -> None:
    write(tmp_path, {"1": "one!", "2": ""})
    done = typed(tmp_path, *FILES, "letters", "--json")
    assert done.code == 0
    (result,) = done.json[0]["metrics"]
    assert result["counts"] == {"captioned": 2, "scored": 2}
    assert result["outputs"]["letters"]["value"] == 1.5
    share = result["outputs"]["letter-share"]
    assert (share["value"], share["groups"]) == (0.75, {"all": 0.75})
    row = rows(tmp_path / "metrics.jsonl")[3]
    assert (row["metric"], row["value"], row["reason"]) == (
        "letter-share",
        None,
        "the caption is empty",
    )
    typed(tmp_path, *FILES, "letters")
    assert own_metrics.SCORED == ["1", "2"]
    kind = own_metrics.Letters
    (one,) = capeval.measure(candidates={"1": "a."}, references={"1": "A."}, metric=[kind])
    assert one.value("letters") == 1


UNSCORED = {
    "not finite": "the metric returned no usable value for hostile: must be a finite",
    "text": "the metric returned no usable value for hostile: must be a number",
    "endless": "the metric returned no usable value for hostile: ",
    "surrogate": "\ufffd",
    "reply": "no number",
}


def test_what_is_no_value_leaves_a_caption_unscored(tmp_path: Path) -> None:
    write(tmp_path, {name: name for name in (*UNSCORED, "good")})
    assert typed(tmp_path, *FILES, "hostile").code == 3
    *found, good = rows(tmp_path / "metrics.jsonl")
    assert good["value"] == 0.5
    for row, reason in zip(found, UNSCORED.values(), strict=True):
        assert row["value"] is None
        assert row["reason"].startswith(reason)
    assert typed(tmp_path, *FILES, "hostile", "--max-failed", len(UNSCORED)).code == 0


@pytest.mark.parametrize(
    ("name", "caption", "message"),
    [
        ("hostile", "bug", "the metric \"hostile\" failed: KeyError: 'no\\nsuch key'"),
        (
            "hostile",
            "another output",
            "the metric hostile returned another, not one value for each of hostile",
        ),
        ("unmade", "", 'the metric "unmade" cannot be used: RuntimeError: no weights'),
    ],
)
def test_a_metric_that_breaks_the_protocol_is_one_line(
    name: str, caption: str, message: str, tmp_path: Path
) -> None:
    write(tmp_path, {"1": caption})
    done = typed(tmp_path, *FILES, name)
    assert done.code == 2
    assert message in done.lines[-1]


FAULTS: list[tuple[list[str], str]] = [
    (["--candidates", "c.json"], "unigram-f1 compares captions with references"),
    (["--references", "r.json"], "--references is for --candidates"),
    (["sample", *FILES[1:5]], "measure runs, or --candidates with --references, not both"),
    (["sample", "--out", "x.jsonl"], "--out is for one run"),
    ([*FILES[1:5], "--out", "r.json"], "--out: r.json is one of the files to be read"),
    ([*FILES[1:5], "--out", "text.jsonl"], "text.jsonl: line 1: is not a metrics.jsonl"),
    (["--candidates", "c.json", "--references", "other.json"], "no caption is in the"),
    (
        ["--candidates", "c.json", "--references", "half.json"],
        'c.json: index "2": index: is not in the references',
    ),
    (["--candidates", "c.json", "--references", "blank.json"], "references.1: "),
    (
        [*FILES[1:5], "--metric", "meteor"],
        'metrics.metoer: is not a metric; did you mean "meteor"?',
    ),
    ([*FILES[1:], "clair"], "there is no key for the chat model: set OPENAI_API_KEY, or name"),
    ([*FILES[1:], "clair", "--judge", "lexical"], "is not a chat model"),
]


@pytest.mark.parametrize(("arguments", "message"), FAULTS)
def test_what_does_not_fit_is_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    write(tmp_path, {"1": "one", "2": "two"})
    (tmp_path / "text.jsonl").write_text('{"index": "1"}\n', "utf-8")
    (tmp_path / "other.json").write_text('{"x": "A."}', "utf-8")
    (tmp_path / "half.json").write_text('{"1": "A."}', "utf-8")
    (tmp_path / "blank.json").write_text('{"1": [" "], "2": "A."}', "utf-8")
    if "meteor" in arguments:
        (tmp_path / "capeval.toml").write_text("[metrics.metoer]\njava = 'j'\n", "utf-8")
    before = sorted(tmp_path.rglob("*"))
    done = typed(tmp_path, "metrics", *arguments)
    assert done.code == 2
    assert message in done.lines[-1]
    assert sorted(tmp_path.rglob("*")) == before


def test_files_of_lines_have_a_system_each(tmp_path: Path) -> None:
    systems = tmp_path / "systems"
    systems.mkdir()
    (systems / "vtt.A").write_bytes(b"a dog\nbad \xff byte\n")
    (systems / "b.txt").write_text("a dog runs\n\n", "utf-8")
    (tmp_path / "refs").write_text("a dog runs\nx\n", "utf-8")
    command = ("metrics", "--candidates", "lines:systems", "--references", "lines:refs")
    done = typed(tmp_path, *command, "--out", "out.jsonl")
    assert done.code == 0
    assert "; all 4 captions scored." in done.out.splitlines()[0]
    found = rows(tmp_path / "out.jsonl")
    got = {(r["system"], r["index"]): r["value"] for r in found if r["metric"] == "unigram-f1"}
    assert got == {("A", "1"): 0.8, ("A", "2"): 0.0, ("b", "1"): 1.0, ("b", "2"): 0.0}


def test_python_measures_texts_in_memory(tmp_path: Path) -> None:
    (found,) = capeval.measure(
        candidates={"1": "A dog.", "2": ""},
        references={"1": ["A cat.", "The dog"], "2": "A."},
        metric="unigram-f1",
    )
    assert found.file is None
    assert found.results[0].summaries["unigram-f1"].value == 0.25
    with pytest.raises(InputError, match='references: index "1": references'):
        capeval.measure(candidates={"1": "A."}, references={"1": []})
    with pytest.raises(UsageError, match="name their file with --references"):
        capeval.measure(candidates={"1": "A."})


def test_a_package_can_add_a_metric(tmp_path: Path) -> None:
    source = "from tests.metrics.own_metrics import Letters\nclass Mine(Letters): name = 'mine'"
    site = install(tmp_path, "my_metric", source, "[capeval.metrics]\nmine = my_metric:Mine\n")
    write(tmp_path, {"1": "one"})
    with installed(site, "my_metric"):
        done = typed(tmp_path, *FILES, "mine")
    assert done.code == 0, done.err
    assert values(tmp_path / "metrics.jsonl")["1", "letters"] == 3
    assert "must be a class derived from capeval.metrics.protocol" in str(METRICS.check(print))


def test_without_a_name_it_is_every_run(tmp_path: Path) -> None:
    for name in ("mine", "other", "broken"):
        captions = [{"index": "sample_01", "caption": "A dog."}]
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(captions[0]) + "\n", "utf-8")
        typed(tmp_path, "metrics", f"{name}.jsonl", "--annotations", "sample")
    (tmp_path / "runs" / "broken" / "manifest.json").write_text("[]", "utf-8")
    done = typed(tmp_path, "metrics", "--metric", "letters")
    assert done.code == 0
    assert "runs/broken/manifest.json: must be a JSON object" in done.err
    assert own_metrics.SCORED == ["sample_01"] * 2
    both = typed(tmp_path, "metrics", "mine", "other", "--format", "markdown")
    assert "| mine | 3.4 | 2.0 | 1/1 |" in both.out
    (tmp_path / "runs/mine/notes.txt").write_text("my notes")
    kept = typed(tmp_path, "metrics", "runs/mine", "--out", "runs/mine/notes.txt")
    assert "is one of the files to be read" in kept.refusal
    alone = typed(tmp_path, "metrics", "mine", "--out", "alone.jsonl", "--limit", "1")
    assert alone.code == 0
    assert values(tmp_path / "alone.jsonl")["sample_01", "length"] == 2


def test_measured_runs_are_correlated_unless_their_captions_changed(tmp_path: Path) -> None:
    typed(tmp_path, "metrics", "sample", "--metric", "length,unigram-f1", "--quiet")
    run = ("correlate", "--human", ROOT / "annotations" / "sample" / "human.csv", "--json")
    done = typed(tmp_path, *run)
    assert {one["metric"] for one in done.json["results"]} == {"length", "unigram-f1"}
    options = [f"--metric=m=sample-{name}:length" for name in ("terse", "thorough", "confused")]
    assert [r["value"] for r in typed(tmp_path, *run, *options).json["results"]] == [
        r["value"] for r in done.json["results"] if r["metric"] == "length"
    ]
    wrong = typed(tmp_path, *run, "--metric", "m=sample-terse:meteor")
    assert "has no metric meteor; it has length, unigram-f1" in wrong.err
    captions = tmp_path / "runs" / "sample-terse" / "captions.jsonl"
    text = captions.read_text("utf-8")
    captions.write_text(text.replace('"caption": "', '"caption": "Other. ', 1), "utf-8")
    for metric in ((), ("--metric", "length=runs/sample-terse/metrics.jsonl:length")):
        done = typed(tmp_path, *run, *metric)
        assert done.code == 2
        assert "sample_01 of sample-terse (another caption of this video was measured" in done.err
    typed(tmp_path, "metrics", "sample-terse", "--metric", "length,unigram-f1")
    assert typed(tmp_path, *run).code == 0
