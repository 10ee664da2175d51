import gzip
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import capeval
from capeval.metrics.meteor import PARAPHRASES, _packaged_jar
from tests.world import lines, typed

needs_meteor = pytest.mark.skipif(
    shutil.which("java") is None or find_spec("pycocoevalcap") is None,
    reason="Java (Debian: default-jre-headless) or pycocoevalcap is not installed",
)

# Of the program itself: SCORE and EVAL typed into it.
GOLD = [
    (["a dog runs"], "a cat", 0.06106870229007633),
    (["a dog runs"], "a dog runs", 1.0),
    (["a cat", "a dog runs"], "a dog runs", 1.0),
    (["a dog runs"], "", 0.0),
    (["a dog ."], "A DOG.", 1.0),
    (["the of"], "the of", 1.0),
    (["😀 dog"], "😀 dog", 1.0),
    (["a b"], "a\x0b|||\n\ud800\u2028b", 1.0),
    (["SCORE ||| x"], "EVAL ||| 1", 0.0),
]


@needs_meteor
def test_values_are_those_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the decimal separator is a comma; the score of a system is not the mean."""
    # The program takes seconds to load its own table of paraphrases; no text here has one.
    (tmp_path / "data").mkdir()
    (tmp_path / PARAPHRASES).write_bytes(gzip.compress(b"0.5\nfast\nrapid\n"))
    shutil.copy(_packaged_jar(), tmp_path / "meteor.jar")
    (tmp_path / "capeval.toml").write_text('[metrics.meteor]\njar = "meteor.jar"\n', "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.language=de -Duser.country=DE")
    captions = {str(n): text for n, (_, text, _) in enumerate(GOLD)}
    references = {str(n): texts for n, (texts, _, _) in enumerate(GOLD)}
    (found,) = capeval.measure(
        metric="meteor", candidates=captions, references=references, out=tmp_path / "metrics.jsonl"
    )
    assert [row["value"] for row in lines(tmp_path / "metrics.jsonl")] == [
        value for *_, value in GOLD
    ]
    assert found.results[0].summaries["meteor"].value == 0.4236867836773428


ANSWERING = f"""#!{sys.executable}
import sys

for line in sys.stdin:
    if "die" in line:
        sys.exit("java.lang.OutOfMemoryError")
    if line.startswith("SCORE"):
        print(*[1] * 23, flush=True)
    else:
        print("0.5\\n" * line.count("|||"), "0.5", sep="", flush=True)
"""
"""Answers as METEOR's program does, and starts sooner."""


@pytest.fixture
def answering(tmp_path: Path) -> Path:
    """A folder whose settings name a program that answers in METEOR's place."""
    (tmp_path / "data").mkdir()
    for name in ("meteor.jar", "data/paraphrase-en.gz"):
        (tmp_path / name).touch()
    (tmp_path / "java").write_text(ANSWERING, "utf-8")
    (tmp_path / "java").chmod(0o755)
    settings = '[metrics.meteor]\njava = "./java"\njar = "meteor.jar"\n'
    (tmp_path / "capeval.toml").write_text(settings, "utf-8")
    return tmp_path


def test_a_program_that_dies_leaves_one_caption_unscored(
    answering: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(answering)
    (found,) = capeval.measure(
        metric="meteor",
        candidates={"1": "a dog", "2": "die", "3": "a dog"},
        references=dict.fromkeys("123", "a dog"),
    )
    (result,) = found.results
    assert (result.scored, [*result.unscored]) == (2, ["2"])
    assert result.unscored["2"] == "METEOR: the program ended: java.lang.OutOfMemoryError"


FAULTS = [
    ('java = "no-such-java"', "METEOR needs Java, and there is no no-such-java: install a Java"),
    ('jar = "absent.jar"', "absent.jar: is missing: METEOR needs meteor-1.5.jar"),
    ('jar = "alone.jar"', "paraphrase-en.gz: is missing: METEOR needs meteor-1.5.jar"),
    ('jar = "fake/broken.jar"', "METEOR cannot be run: the program ended: Error: "),
    ("jars = 1", "capeval.toml: metrics.meteor: jars: is not a known field"),
]


@needs_meteor
@pytest.mark.parametrize(("setting", "message"), FAULTS)
def test_what_is_missing_is_one_line_and_leaves_nothing(
    setting: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "capeval.toml").write_text(f"[metrics.meteor]\n{setting}\n", "utf-8")
    (tmp_path / "fake" / "data").mkdir(parents=True)
    for name in ("alone.jar", "fake/broken.jar", "fake/data/paraphrase-en.gz"):
        (tmp_path / name).write_bytes(b"none")
    (tmp_path / "c.json").write_text('{"1": "a dog"}', "utf-8")
    before = sorted(tmp_path.rglob("*"))
    command = ("metrics", "--metric", "meteor", "--candidates", "c.json", "--references", "c.json")
    ended = typed(tmp_path, *command)
    assert ended.code == 2
    assert message in ended.lines[-1]
    assert sorted(tmp_path.rglob("*")) == before
