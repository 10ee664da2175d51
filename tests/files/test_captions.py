from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.errors import InputError
from capeval.files.captions import (
    COLUMNS,
    captions_hash,
    known_captions,
    load_captions,
    read_captions,
)
from capeval.files.tables import is_missing
from capeval.schema import Caption
from capeval.schema.annotation import id_text
from tests.files.making import annotated

pytestmark = pytest.mark.usefixtures("alone")

FILE = Path("c.jsonl")


WRONG = {
    "caption missing": (
        '{"index": "v", "captoin": "A dog."}\n{"index": "w", "caption": "A dog."}',
        'line 1: index "v": caption: Field required',
    ),
    "index missing, alone": (
        '{"caption": "A dog."}',
        "has no captions in a known layout: no column of the index (index, video_id, id, video)",
    ),
    "caption misspelt": (
        '{"index": "v", "captoin": "A dog."}',
        (
            "has no captions in a known layout: no column of the caption (caption, prediction, "
            'response, text, output, pred); it has "index", "captoin"; name it with --columns '
            'caption=NAME; did you mean "captoin"?'
        ),
    ),
    "index blank": (
        '{"index": "", "caption": "x"}',
        'line 1: index "": index: String should match pattern',
    ),
    "index twice": (
        '{"index": "v", "caption": "a"}\n\n{"index": "v", "caption": "a"}',
        'line 3: index "v": index: is duplicated (see line 1)',
    ),
    "submission doubled": ('{\n"v": "a",\n"v": "c"}', 'line 1: the key "v" is duplicated'),
    "submission cut off": (
        '{"v": "a",\n"w": "A do',
        "line 2: broken JSON at column 6 (Unterminated string starting at)",
    ),
    "list of strings": ('["A dog."]', 'entry 1: must be a JSON object, not "A dog."'),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_captions_are_reported_in_one_line(case: str) -> None:
    text, message = WRONG[case]
    FILE.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_captions(FILE, ())
    assert str(error.value).startswith(f"c.jsonl: {message}")
    assert error.value.exit_code == 2


CAPTIONS = {"b": "A dog\u2028runs. \u0085", "a": "", "c": "狗 \ud800 \x00 \x1b[31m ```"}
LINES = [json.dumps({"index": index, "caption": text}) for index, text in CAPTIONS.items()]
LAYOUTS = {
    "JSON lines": "\n".join(LINES) + "\n",
    "blank lines": "\n\n".join(["", *LINES, ""]),
    "mark": "\ufeff" + "\n".join(LINES),
    "list": f"[{','.join(LINES)}]",
    "submission": json.dumps(CAPTIONS),
    "submission in two lines": json.dumps(CAPTIONS).replace('"a"', '\n"a"'),
    "submission after a mark": "\ufeff" + json.dumps(CAPTIONS),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_loads_the_same(layout: str) -> None:
    FILE.write_bytes(LAYOUTS[layout].encode())
    loaded = read_captions(FILE, ()).captions
    assert {caption.index: caption.caption for caption in loaded} == CAPTIONS
    assert [caption.index for caption in loaded] == list(CAPTIONS)


@pytest.mark.parametrize("text", [LINES[0], json.dumps(json.loads(LINES[0]), indent=1)])
def test_single_object_is_one_caption(text: str) -> None:
    FILE.write_text(text)
    assert read_captions(FILE, ()).captions == (Caption(index="b", caption=CAPTIONS["b"]),)


@pytest.mark.parametrize("captions", [{"index": "A dog."}, {"index": "A dog.", "v": "A cat."}])
def test_submission_may_have_the_index_index(captions: dict[str, str]) -> None:
    file = FILE.with_suffix(".json")
    file.write_text(json.dumps(captions))
    assert {c.index: c.caption for c in read_captions(file, ()).captions} == captions


@pytest.mark.parametrize("captions", [{"caption": "A dog."}, {"v": "A cat.", "caption": "A dog."}])
def test_submission_with_the_index_caption_is_refused_rather_than_misread(
    captions: dict[str, str],
) -> None:
    FILE.write_text(json.dumps(captions))
    with pytest.raises(InputError, match="no column of the index"):
        read_captions(FILE, ())


def test_other_fields_are_kept() -> None:
    FILE.write_text('{"index": "v", "caption": "a", "model": "m", "frames": {"n": 8}}')
    assert read_captions(FILE, ()).captions[0].model_dump() == {
        "index": "v",
        "caption": "a",
        "model": "m",
        "frames": {"n": 8},
    }


# "NA" and "-" are what a missing caption leaves in files; marks of reasoning begin with the others.
INDEXES = st.text(min_size=1).filter(str.strip).map(id_text)
TEXTS = st.text(st.characters(exclude_characters="<[◁")).filter(
    lambda text: not text.strip() or not (is_missing(text) or text.strip()[0] == "#")
)


@settings(deadline=None)
@given(st.dictionaries(INDEXES, TEXTS, min_size=1))
def test_hash_knows_neither_layout_nor_order(captions: dict[str, str]) -> None:
    for name in ("caption", "doc_id", "logs", *COLUMNS["index"], *COLUMNS["caption"]):
        captions.pop(name, None)  # of a record
    captions.setdefault("v", "A dog.")
    lines = [{"caption": captions[index], "index": index} for index in sorted(captions)]
    for layout in (json.dumps(captions), "\n".join(map(json.dumps, lines)), json.dumps(lines)):
        FILE.write_text(layout)
        loaded = read_captions(FILE, ()).captions
        assert {caption.index: caption.caption for caption in loaded} == captions
        assert captions_hash(loaded) == captions_hash(
            [Caption(index=index, caption=text) for index, text in captions.items()]
        )


def of(*indexes: str) -> list[Caption]:
    return [Caption(index=index, caption="A dog.") for index in indexes]


UNKNOWN = {
    "one": (
        of("TUNA_1", "TUNA_0002"),
        (
            'c.jsonl: index "TUNA_1": index: is unknown to the annotations; "TUNA_1" and '
            '"TUNA_0001" look alike: write the ids alike in both files, or skip such captions with '
            "--ignore-unknown"
        ),
    ),
    "several": (
        of("TUNA_0001", "x", "y"),
        (
            'c.jsonl: index "x": index: is unknown to the annotations (2 captions); '
            "correct it, or skip such captions with --ignore-unknown"
        ),
    ),
    "all": (
        of("x", "y"),
        (
            'c.jsonl: no caption is known to the annotations (captions: "x"…; '
            'annotations: "TUNA_0001"…); name the matching --annotations'
        ),
    ),
    "doubled": (of("TUNA_0001", "TUNA_0001"), 'c.jsonl: index "TUNA_0001": index: is duplicated'),
    "none": ([], "c.jsonl: there are no captions"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_captions_that_do_not_belong_to_the_annotations_are_refused(case: str) -> None:
    captions, message = UNKNOWN[case]
    with pytest.raises(InputError) as error:
        known_captions(captions, annotated("TUNA_0001", "TUNA_0002"), file=FILE)
    assert str(error.value) == message


def test_unknown_captions_are_skipped_on_demand_but_not_all_of_them() -> None:
    annotations = annotated("a", "b", "c")
    known = known_captions(of("x", "c", "a"), annotations, file=FILE, ignore_unknown=True)
    assert [caption.index for caption in known] == ["a", "c"]
    with pytest.raises(InputError, match="no caption is known to the annotations"):
        known_captions(of("x"), annotations, file=FILE, ignore_unknown=True)


def test_torn_last_line_of_an_unfinished_run_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "captions.jsonl"
    path.write_text('{"index": "a", "caption": "x"}\n{"index": "b", "capt')
    assert [caption.index for caption in load_captions(path, unfinished=True)] == ["a"]
    with pytest.raises(InputError, match="line 2"):
        load_captions(path)
