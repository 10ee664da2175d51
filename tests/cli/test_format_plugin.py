"""Annotation formats of installed packages: `--annotations NAME:PATH`."""

import json
from pathlib import Path

import pytest

from tests.files.making import record
from tests.world import Said, install, installed, typed

READER = '''
from capeval.schema import Annotation

def read_scenes(path):
    """One video per line: INDEX | EVENT | ELEMENT | WEIGHT."""
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        index, event, content, weight = (part.strip() for part in line.split("|"))
        record = {
            "index": index,
            "events": [
                {
                    "event": event,
                    "visual_elements": [
                        {"content": content, "type": "action", "weight": int(weight)}
                    ],
                }
            ],
        }
        yield f"line {number}", record if number % 2 else Annotation(**record)

def no_pairs(path):
    return ["v1"]

'''
FORMATS = {
    "scenes": "scenes_reader:read_scenes",
    "broken": "scenes_reader:missing",
    "no-pairs": "scenes_reader:no_pairs",
}
SCENES = "v1 | A dog runs. | a dog runs | 3\nv2 | A cat sleeps. | a cat sleeps | 1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    points = "".join(f"{name} = {target}\n" for name, target in FORMATS.items())
    install(tmp_path, "scenes_reader", READER, f"[capeval.formats]\n{points}")
    (tmp_path / "scenes.txt").write_text(SCENES)
    captions = {"v1": "A dog runs.", "v2": "A man walks."}
    lines = [json.dumps({"index": index, "caption": text}) for index, text in captions.items()]
    (tmp_path / "captions.jsonl").write_text("\n".join(lines))
    return tmp_path


def capeval(folder: Path, *arguments: str) -> Said:
    (folder / "scenes.txt").touch()  # what a process has read, it does not read again
    with installed(folder / "site", "scenes_reader"):
        return typed(folder, *arguments)


def judge(folder: Path, annotations: str) -> Said:
    return capeval(
        folder, "judge", "captions.jsonl", "--annotations", annotations, "--judge", "lexical"
    )


def test_annotations_of_a_plugin_are_judged_and_scored_again_by_later_commands(
    folder: Path,
) -> None:
    done = judge(folder, "scenes:scenes.txt")
    assert done.code == 0, done.err
    manifest = json.loads((folder / "runs" / "captions" / "manifest.json").read_text())
    assert manifest["annotations"]["path"] == "scenes:scenes.txt"
    scores = capeval(folder, "score", "captions", "--json").json
    assert scores["counts"]["scored"] == 2
    assert (scores["videos"]["v1"]["all"]["f1"], scores["videos"]["v1"]["all"]["total"]) == (1, 3)


def test_a_mistake_in_a_plugins_file_names_file_place_and_field(folder: Path) -> None:
    (folder / "scenes.txt").write_text("v1 | A dog runs. | a dog runs | 7\n")
    assert judge(folder, "scenes:scenes.txt").refusal.startswith(
        'capeval: scenes.txt: line 1: index "v1": events.1.visual_elements.1.weight: '
    )


BROKEN = 'the annotation format "{}" '


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ("broken:scenes.txt", BROKEN + "of the package scenes-reader cannot be loaded: Attribut"),
        ("no-pairs:scenes.txt", f'scenes.txt: {BROKEN}must yield (place, record), not "v1"'),
        ("scenes:captions.jsonl", f"captions.jsonl: {BROKEN}cannot read it: ValueError: not en"),
        ("scenes:scene.txt", 'scene.txt: does not exist; did you mean "scenes.txt"?'),
        (
            "scene:scenes.txt",
            (
                'no annotation format is called "{}"; choose from tuna, broken, no-pairs, '
                'scenes; did you mean "scenes"?'
            ),
        ),
    ],
)
def test_a_broken_plugin_or_a_wrong_name_is_one_line(
    folder: Path, annotations: str, message: str
) -> None:
    said = message.format(annotations.partition(":")[0])
    assert judge(folder, annotations).refusal.startswith(f"capeval: {said}")
    assert not (folder / "runs").exists()


def test_a_file_with_a_colon_in_its_name_is_a_path(folder: Path) -> None:
    (folder / "broken:videos.json").write_text(json.dumps([record("v1"), record("v2")]))
    assert judge(folder, "broken:videos.json").code == 0
