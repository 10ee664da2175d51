"""What `--out` may name; `tests/cli/test_output_ends.py` has what a command reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from capeval.errors import UsageError
from capeval.files.outputs import check_output, write_output

pytestmark = pytest.mark.usefixtures("alone")


@pytest.mark.parametrize("path", ["new.json", "new/er/new.json", "old.json", "link.json"])
def test_new_and_other_files_are_written_and_links_followed(path: str) -> None:
    Path("old.json").write_text("old")
    Path("link.json").symlink_to("old.json")
    check_output(Path(path), ["in.csv"])
    write_output(Path(path), "text")
    assert Path(path).read_text() == "text"
    assert Path("link.json").is_symlink()


def test_devices_are_written_to_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def replaces(*_: object) -> None:
        raise AssertionError("a file would stand in the device's place")

    monkeypatch.setattr("capeval.files.outputs.write_atomic", replaces)
    for path in (Path("/dev/stdout"), Path("/dev/null")):
        check_output(path, ["in.csv"])
        write_output(path, "text")
    assert capsys.readouterr().out == "text"


@pytest.mark.parametrize(
    "name",
    [
        *("captions.jsonl", "judgments.jsonl", "manifest.json", "scores.json", "Scores.json"),
        *("calibrated.json", "judge.json"),
        *("captions.2-of-4.jsonl", "ungenerated.jsonl", "ungenerated.12-of-34.jsonl", ".lock"),
        *("responses.jsonl", "responses.1-of-2.jsonl"),
        *(".lock.2-of-4", "capeval.toml", "replies.sqlite", "replies.sqlite-wal"),
    ],
)
@pytest.mark.parametrize("there", [False, True])
def test_names_of_files_that_capeval_keeps_are_for_these(name: str, there: bool) -> None:
    if there:
        Path(name).touch()
    for option in ("--out", "--debug"):
        with pytest.raises(
            UsageError, match=f"{option}: {name} (has a name that capeval|is one of the files)"
        ):
            check_output(Path(name), [], option=option)
    if name in ("scores.json", "responses.jsonl"):
        check_output(Path(name), [], own=name)
