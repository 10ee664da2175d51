import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from capeval.construct.drafts import Draft
from tests.world import Said, here, write_lines

# Each event is its sentence and its elements: content, type, weight.
Events = Sequence[tuple[str, Sequence[tuple[str, str, int]]]]
CHEF = ("A chef chops onions.", [("A chef chops.", "action", 3), ("It is bright.", "scene", 2)])
TRAIN = ("A train crosses.", [("A train crosses.", "action", 3), ("A stone bridge.", "scene", 2)])
SNOW = ("Snow falls.", [("Snow falls.", "scene", 2), ("A quiet village.", "attribute", 1)])
ALL = [CHEF, TRAIN, SNOW]
MORNING, NOON = "2026-10-05T08:00:00.000Z", "2026-10-05T12:00:00.000Z"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("clips").mkdir()
    videos = [{"index": f"v{n}", "video": f"day/{n}.mp4", "keep": n < 8} for n in range(9)]
    write_lines(Path("clips/videos.jsonl"), videos)


def draft(index: str, annotator: str, events: Events = ALL, **fields: Any) -> Draft:
    """Return a finished annotation, all of it by a model and confirmed by the annotator."""
    made = [
        {
            "event": sentence,
            "visual_elements": [
                {"content": content, "type": kind, "weight": weight, "source": "org/drafter"}
                | {"confirmed_by": [annotator]}
                for content, kind, weight in elements
            ],
        }
        for sentence, elements in events
    ]
    common = {"video": f"day/{index[1:]}.mp4", "visual_characteristic": ["High-Dynamic"]}
    common |= {"domain": "Film", "drafted_by": ["org/drafter"]}
    common |= {"annotator": annotator, "exported": MORNING}
    value = {"index": index, "events": made, **common, **fields}
    return Draft.model_validate(value)


def export(name: str, *drafts: Draft) -> str:
    Path(name).write_text(json.dumps([one.model_dump(mode="json") for one in drafts]))
    return name


def agreement(first: Sequence[Draft], second: Sequence[Draft]) -> dict[str, Any]:
    said = here("annotate", "agree", export("a.json", *first), export("b.json", *second), "--json")
    assert (said.code, said.err) == (0, "")
    (record,) = said.json
    assert isinstance(record, dict)
    return record


def test_planted_disagreements_give_the_numbers_computed_by_hand() -> None:
    """In one of six videos an event and an element lack, a type and a weight differ."""
    same = [f"v{n}" for n in range(5)]
    mine = [draft(index, "ann") for index in [*same, "v5"]]
    changed = [
        (CHEF[0], CHEF[1][:1]),
        (SNOW[0], [("Snow falls.", "action", 2), ("A quiet village.", "attribute", 3)]),
    ]
    found = agreement(mine, [*(draft(i, "bob") for i in same), draft("v5", "bob", changed)])
    assert (found["annotators"], found["videos"], found["matched"]) == ("ann – bob", 6, 33)
    assert found["event_f1"] == pytest.approx(2 * 17 / (18 + 17))
    assert found["element_f1"] == pytest.approx(2 * 33 / (36 + 33))
    for name in ("event_f1", "element_f1"):
        assert found[f"{name}_low"] < found[name] < found[f"{name}_high"]
    # Of 66 labels 23 are actions, 31 scenes and 12 attributes; one pair of 33 differs.
    expected = (66**2 - 23**2 - 31**2 - 12**2) / (66 * 65)
    assert found["type_alpha"] == pytest.approx(1 - (1 / 33) / expected)
    # Of 66 weights 11 are 1, 32 are 2 and 23 are 3; one pair has 1 and 3, whose ranks differ by all
    # but half of the ends: 32 + (11 + 23) / 2.
    apart = {(11, 32): 21.5, (32, 23): 27.5, (11, 23): 49.0}
    expected = sum(2 * m * n * d**2 for (m, n), d in apart.items()) / (66 * 65)
    assert found["weight_alpha"] == pytest.approx(1 - (49.0**2 / 33) / expected)


def test_identical_files_agree_fully_and_one_annotator_is_refused() -> None:
    of = {name: [draft(f"v{n}", name) for n in range(6)] for name in ("ann", "bob")}
    found = agreement(of["ann"], of["bob"])
    names = ("event_f1", "event_f1_high", "element_f1", "type_alpha", "weight_alpha")
    assert [found[name] for name in names] == [1, 1, 1, 1, 1]
    assert 0.5 < found["event_f1_low"] < 1
    said = here("annotate", "agree", "a.json", "b.json")
    assert said.out.startswith(
        "Event F1 100.0 [54.1, 100.0], element F1 100.0 [54.1, 100.0] over 6"
    )
    assert "For 6 videos both started from a model's draft" in " ".join(said.out.split())
    said = here("annotate", "agree", "a.json")
    assert "no video was finished by two annotators; finish it, and export" in said.refusal


@pytest.mark.parametrize(
    ("events", "event_f1", "element_f1"),
    [
        pytest.param(
            [(CHEF[0] + TRAIN[0], [*CHEF[1], *TRAIN[1]]), SNOW], 4 / 5, 1, id="two are one"
        ),
        pytest.param(
            [CHEF, (TRAIN[0], [*TRAIN[1], SNOW[1][0]]), (SNOW[0], SNOW[1][1:])], 1, 1, id="later"
        ),
        pytest.param(
            [(CHEF[0], [*CHEF[1], SNOW[1][0]]), TRAIN, (SNOW[0], SNOW[1][1:])],
            *(1, 5 / 6),
            id="at another moment",
        ),
        pytest.param([TRAIN, CHEF, SNOW], 2 / 3, 4 / 6, id="another order"),
    ],
)
def test_elements_match_within_neighbouring_events(
    events: Events, event_f1: float, element_f1: float
) -> None:
    found = agreement([draft("v0", "ann")], [draft("v0", "bob", events)])
    assert (found["event_f1"], found["element_f1"]) == pytest.approx((event_f1, element_f1))
    assert found["event_f1_low"] is None  # one video


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("The man then steps back while closing the door.", "He steps back and closes it.", True),
        ("The camera moves to the right.", "The camera pans right.", True),
        ("A man in a black suit turns around.", "A woman with a bag walks.", False),
        ("The man wears a blue shirt.", "The man wears a red shirt.", False),
        ("Two men talk.", "Three men talk.", False),
    ],
)
def test_other_words_match_and_other_statements_do_not(
    first: str, second: str, is_same: bool
) -> None:
    one, other = (
        draft("v0", name, [("One event.", [(text, "action", 3)])])
        for name, text in (("ann", first), ("bob", second))
    )
    assert agreement([one], [other])["element_f1"] == is_same


def test_unfinished_and_adjudicated_videos_are_not_compared() -> None:
    files = [
        export("ann.json", draft("v0", "ann"), draft("v1", "ann")),
        export("bob.json", draft("v0", "bob"), draft("v1", "bob", domain=None)),
        export("cy.json", draft("v0", "cy", [SNOW], adjudicates=["ann", "bob"])),
    ]
    said = here("annotate", "agree", *files)
    assert "over 1 video of ann, bob" in said.out
    assert "Left out: 1 video that one of two annotators has not finished." in said.out
    earlier = export("ann-0.json", draft("v0", "ann", [SNOW], exported="2026-10-04"))
    assert here("annotate", "agree", *files, earlier) == said


def merge(*files: str) -> Said:
    return here("annotate", "merge", "clips", *files)


def withdrawn(**fields: Any) -> Draft:
    value = draft("v1", "ann", **fields).model_dump()
    value["events"][0]["visual_elements"][1]["confirmed_by"] = ()
    return Draft.model_validate(value)


@pytest.mark.parametrize(
    ("drafts", "line", "annotators"),
    [
        pytest.param([draft("v1", "ann", events=[], domain=None)],
                     "v1 ann: no events, no domain", None, id="empty"),
        pytest.param([withdrawn(exported=NOON), draft("v1", "ann")],
                     "v1 ann: 1 unconfirmed element", None, id="withdrawn"),
        pytest.param([withdrawn(), draft("v1", "ann", exported=NOON)],
                     "2 of 8 videos merged", ["ann"], id="confirmed since"),
        pytest.param([draft("v1", "ann", reviewers=["ann", "bob"])],
                     "v1 missing from the exports of bob", None, id="one of two missing"),
        pytest.param([draft("v1", "ann"), draft("v1", "bob", domain=None)],
                     "v1 bob: no domain", None, id="one of two unfinished"),
        pytest.param([draft("v1", "bob", [SNOW]), draft("v1", "ann")],
                     "v1 ann and bob differ: capeval annotate review --differences",
                     None, id="differing"),
        pytest.param([draft("v1", "bob"), draft("v1", "ann")],
                     "v2 not in any file",
                     ["ann", "bob"], id="identical"),
        pytest.param([draft("v1", "bob", [SNOW], domain=None), draft("v1", "ann"),
                      draft("v1", "cy", adjudicates=["ann", "bob"])],
                     "2 of 8 videos merged", ["ann", "bob", "cy"], id="adjudicated"),
        pytest.param([draft("v1", "ann", comment="Which dog?")],
                     "v1: ann: Which dog?", ["ann"], id="comment"),
    ],
)  # fmt: skip
def test_only_what_is_finished_and_agreed_on_is_merged(
    drafts: list[Draft], line: str, annotators: list[str] | None
) -> None:
    said = merge(export("done.json", draft("v0", "ann")), *(
        export(f"{n}.json", one) for n, one in enumerate(drafts)
    ))  # fmt: skip
    assert (said.code, said.err) == (0, "")
    assert line in " ".join(said.out.split())
    _, *merged = json.loads(Path("clips/annotations.json").read_bytes())
    assert [one["annotators"] for one in merged] == [annotators][: annotators is not None]


def test_merged_annotations_name_their_sources_and_are_read_as_any() -> None:
    events = [one.model_copy(update={"start": 1.5}) for one in draft("v0", "ann", [SNOW]).events]
    ann = draft("v0", "ann", visual_characteristic=["Multi-Scene", "High-Dynamic"])
    ann = ann.model_copy(update={"events": tuple(events)})
    bob = draft("v0", "bob", [SNOW], visual_characteristic=["High-Dynamic", "Multi-Scene"])
    assert merge(export("ann.json", ann), export("bob.json", bob)).code == 0
    (merged,) = json.loads(Path("clips/annotations.json").read_bytes())
    ((event,), both) = (
        merged.pop("events"),
        {"source": "org/drafter", "confirmed_by": ["ann", "bob"]},
    )
    parts = [dict(zip(("content", "type", "weight"), one, strict=True)) | both for one in SNOW[1]]
    assert event == {"event": "Snow falls.", "start": 1.5, "visual_elements": parts}
    names = {"drafted_by": ["org/drafter"], "annotators": ["ann", "bob"]}
    held = {"visual_characteristic": "High-Dynamic,Multi-Scene", "domain": "Film"}
    assert merged == {"index": "v0", "video": "day/0.mp4", **held, **names}
    checked = here("check", "clips/annotations.json")
    assert "no problems, 0 warnings; 1 valid video" in checked.out


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "x.json: line 1: broken JSON"),
        ('{"index": "v0"}', "x.json: must be the JSON that a review page exports"),
        ('[{"index": "v0", "video": "v"}]', 'x.json: index "v0": has no annotator or time'),
        ('[{"index": "v0", "rating": 3}]', "x.json: video 1: "),
        ("[]", "no video can be merged"),
        (None, "no video can be merged: v9: not kept in videos.jsonl"),
    ],
)
def test_other_files_are_refused_in_a_line(text: str | None, line: str) -> None:
    export("x.json", draft("v9", "ann"))
    if text is not None:
        Path("x.json").write_text(text)
    assert line in merge("x.json").refusal
    assert not Path("clips/annotations.json").exists()


def test_a_merge_drops_no_confirmed_videos_and_no_edits() -> None:
    made = Path("clips/annotations.json")
    assert merge(export("all.json", draft("v0", "ann"), draft("v1", "ann"))).code == 0
    # A correction by the annotator is no loss.
    assert merge(export("all.json", draft("v0", "ann", [SNOW]), draft("v1", "ann"))).code == 0
    before = made.read_bytes()
    fewer = export("fewer.json", draft("v0", "ann"))
    said = merge(fewer)
    assert (said.code, made.read_bytes()) == (2, before)
    assert "clips/annotations.json would lose 1 confirmed video: v1 (not in any file)" in said.err
    made.write_text(edited := made.read_text().replace("Film", "Cooking"))
    said = merge("all.json")
    assert (said.code, made.read_text()) == (2, edited)
    assert "clips/annotations.json was edited, or not written by this command" in said.err
