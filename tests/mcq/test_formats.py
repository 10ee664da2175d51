import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.errors import InputError, UsageError
from capeval.mcq.question_files import load_questions, parse_list, questions_hash, without_letters
from capeval.mcq.responses import load_responses
from capeval.mcq.tags import with_tags
from capeval.schema import Question
from tests.mcq.question_files import OPTIONS, harness, own, tomato, tsv, tuna, video_mme, write


def load(value: Any, name: str = "questions.json") -> tuple[Question, ...]:
    return load_questions(write(Path(name), value))


def without(record: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != name}


def test_tuna_is_read_from_json_and_from_a_table() -> None:
    expected = Question(
        id="7",
        benchmark="tuna",
        video="clip_1",
        question="Where does the ball roll?",
        options=tuple(OPTIONS),
        answer="B",
        tags={
            "video_index": "TUNA_0001",
            "visual_characteristic": ["High-Dynamic", "Multi-Scene"],
            "skill": "Action",
            "task": "Action Order",
        },
    )
    assert load([tuna()]) == load((tuna(),)) == (expected,)
    for candidates in (str(OPTIONS), json.dumps(OPTIONS)):
        assert load(tsv(tuna(candidates=candidates)), "questions.tsv") == (expected,)
    # Without an index, the position names a question.
    rows = [without(tuna(), "index") for _ in range(2)]
    assert [question.id for question in load(rows)] == ["0", "1"]


@pytest.mark.parametrize(
    ("answers", "letters"),
    [(["A", "C"], "AC"), (["not  at all", "left "], "DA"), (["left", "C", "B", "up"], "ACBC")],
)
def test_answers_are_texts_or_letters_each_by_itself(answers: list[str], letters: str) -> None:
    rows = [tuna(index=n, answer=answer) for n, answer in enumerate(answers)]
    assert "".join(question.answer for question in load(rows)) == letters


def test_an_option_that_is_a_letter_is_read_as_the_other_answers_are() -> None:
    rows = [tuna(candidates=["B", "A", "C"], answer="A"), tuna(index=8, answer="up")]
    assert [question.answer for question in load(rows)] == ["B", "C"]
    rows[1]["answer"] = "D"
    assert [question.answer for question in load(rows)] == ["A", "D"]


def test_tomato_ids_and_videos_are_unique() -> None:
    Path("data").mkdir()
    human = tomato(demonstration_type="human", reasoning_type="other")
    write(Path("data/count.json"), {"0": tomato(), "1": human})
    write(Path("data/visual_cues.json"), {"0": tomato(motion_type="visual cues")})
    notices: list[str] = []
    found = load_questions("data", notices.append)
    assert [(one.id, one.video, one.tags["reasoning_type"]) for one in found] == [
        ("count/0", "object/0001-01", "count"),
        ("count/1", "human/0001-01", "count"),
        ("visual_cues/0", "object/0001-01", "visual_cues"),
    ]
    (notice,) = notices
    assert "has 2 of TOMATO's 6 files; missing: direction.json, rotation.json" in notice
    assert (found[0].answer, found[0].tags["composite"]) == ("C", 1)
    assert load_questions("data/visual_cues.json") == found[2:]


def test_the_table_of_harnesses_names_the_same_questions() -> None:
    rows = [harness(), harness(id="visual_cues_3"), without(harness(), "demonstration_type")]
    found = [*map(load, ([row] for row in rows)), load(tsv(harness()), "q.tsv")]
    for (question,) in found:
        assert (question.id, question.video) == ("visual_cues/3", "object/0001-01")
        assert (question.answer, question.tags["reasoning_type"]) == ("A", "visual_cues")


def test_the_template_loads_with_a_notice_and_yields_its_responses() -> None:
    fields = video_mme()
    questions = [
        {name: fields[name] for name in ("task_type", "question", "options", "answer")}
        | {"question_id": f"001-{number}", "response": response}
        for number, response in enumerate(("C. 3, [x,]", "", None), start=1)
    ]
    video = {name: fields[name] for name in ("video_id", "duration", "domain", "sub_category")}
    text = json.dumps([video | {"questions": questions}], indent=1)
    file = write(Path("t.json"), text.replace("}\n]", "},\n]"))
    with pytest.raises(json.JSONDecodeError):
        json.loads(file.read_text())
    notices: list[str] = []
    found = load_questions(file, notices.append)
    (notice,) = notices
    assert notice.startswith("t.json: has trailing commas, which JSON forbids; they are ignored")
    assert [(q.id, q.video) for q in found] == [(f"001-{n}", "001") for n in (1, 2, 3)]
    assert (found[0].answer, found[0].options) == ("C", ("1.", "2.", "3.", "None."))
    assert found[0].tags == {"task_type": fields["task_type"], **video}
    assert load([fields])[0].video == fields["videoID"]
    responses = load_responses(file)
    assert [response.reply for response in responses] == ["C. 3, [x,]", "", None]
    assert responses[2].reason == "no response in t.json"


def test_any_other_field_of_an_own_question_is_a_tag() -> None:
    extra = {"level": 2, "tags_of": ["x", "y"], "hard": True, "gone": None, "weight": 2.50}
    (question,) = load((own(**extra),), "q.jsonl")
    assert (question.tags, question.benchmark) == (extra, "own")
    (question,) = load([own(benchmark="mine")])
    assert question.benchmark == "mine"
    # The hash is of what is asked.
    assert questions_hash(load([own(level=3)])) == questions_hash(load([own()]))
    assert questions_hash(load([own(answer="C")])) != questions_hash(load([own()]))


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        *((options, ("x", "y")) for options in (["A. x", "B. y"], ["(A)x", "(B) y"])),
        (["a) x", "b) y"], ("x", "y")),
        (["A: x", "B: y\nz"], ("x", "y\nz")),
        *(
            (kept, tuple(kept))
            for kept in (
                *(["A. x", "y"], ["B. x", "A. y"], ["A. x", "C. y"], ["A. x", "B) y"]),
                *(["A.D.", "B.C."], ["A", "B"], ["A man", "B man"]),
            )
        ),
    ],
)
def test_letters_are_removed_only_if_every_option_has_its_own(
    options: list[str], texts: tuple[str, ...]
) -> None:
    assert without_letters(options) == texts


def test_an_answer_can_repeat_its_options_letter() -> None:
    lettered = [f"{letter}. {text}" for letter, text in zip("ABCD", OPTIONS, strict=True)]
    for answer in ("B. right", "right", "B"):
        (question,) = load([own(options=lettered, answer=answer)])
        assert (question.options, question.answer) == (tuple(OPTIONS), "B")


def test_a_folder_has_files_of_tomato() -> None:
    with pytest.raises(InputError, match=r"^\.: has none of TOMATO's files \(count\.json, "):
        load_questions(".")


def second(**fields: Any) -> dict[str, Any]:
    """Return a file of TOMATO whose second question is wrong."""
    return {"0": tomato(), "5": tomato(**fields)}


CHAPTER = {"video_id": "1"}
MISTAKES: list[tuple[str, Any, str]] = [
    # TUNA-MCQ
    ("q.json", [tuna(candidates=["B", "A"], answer="A")], 'answer: "A" is the text of one option'),
    (
        "q.json",
        [tuna(), tuna(index=8, candidates=["right", "right"])],
        'entry 2: answer: must be the text of one option or a letter, not "right"',
    ),
    ("q.json", [tuna(candidates="['a', 'b' 'c']")], "candidates: is not a list of texts in quotes"),
    ("q.json", [tuna(candidates=["right"])], "candidates: needs at least 2, and has 1"),
    ("q.json", [tuna(candidates=["right", "\u200b\u2060"])], "candidates.2: is blank"),
    ("q.json", [tuna(), without(tuna(), "index")], "entry 2: index: is missing"),
    ("q.json", [tuna(), tuna()], 'id: "7" is duplicated (entry 1 and entry 2)'),
    ("q.json", [tuna(reply="B")], 'tags: no tag can be called "reply"'),
    # TOMATO
    ("count.json", second(answer=3), "question 5: answer: must be the number of an option from 0,"),
    ("count.json", second(options=[1, [2]]), "question 5: options.2: must be text"),
    ("count.json", second(key=""), "question 5: key: is empty"),
    ("count.json", second(variation=1), "question 5: variation: must be a JSON object"),
    # Video-MME
    ("q.json", [video_mme(answer="E")], 'entry 1: answer: must be a letter, not "E"'),
    ("q.json", [CHAPTER | {"questions": [3]}], "entry 1, question 1: must be a JSON object"),
    ("q.json", [CHAPTER | {"questions": []}], "entry 1: questions: must be a list of questions"),
    # A user's own
    ("q.json", [], "has no questions"),
    ("q.json", [own(), own(id="q2", options=None)], "entry 2: options: must be a list, not null"),
    ("q.json", [without(own(), "video") | {"vdeo": 1}], 'lacks "video"; did you mean "vdeo"?'),
    ("q.json", "a,b\n1,2\n", 'line 2: lacks "id", "video"'),
]


@pytest.mark.parametrize(("name", "value", "message"), MISTAKES)
def test_a_mistake_is_named_with_its_place(name: str, value: Any, message: str) -> None:
    write(Path(name), value)
    with pytest.raises(InputError) as caught:
        load_questions(name)
    assert str(caught.value).startswith(f"{name}: ")
    assert message in str(caught.value)


LISTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=2)


@settings(max_examples=40)
@given(LISTS, st.data())
def test_a_list_is_what_python_prints_and_a_lost_comma_never_fuses_items(
    items: list[str], data: st.DataObject
) -> None:
    assert parse_list(repr(items)) == parse_list(json.dumps(items, indent=1)) == items
    at = data.draw(st.integers(1, len(items) - 1))
    first, second = (", ".join(map(repr, part)) for part in (items[:at], items[at:]))
    blank = data.draw(st.sampled_from(["", " ", "\n "]))
    with pytest.raises(ValueError, match="is not a list"):
        parse_list(f"[{first}{blank}{second}]")


TAGGED = tuple(
    Question(id=str(n), video="v", question="?", options=("a", "b"), answer="A", tags=tags)
    for n, tags in enumerate(
        (
            {"task": "count", "zoom": 1, "kind": ["Multi-Scene", "High-Dynamic"]},
            {"task": "rotation", "zoom": 0, "kind": ["Multi-Scene"], "hard": True},
            {"task": "visual cues", "zoom": 1, "hard": None, "weight": 2.5},
        )
    )
)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["task=visual cues", "weight=2.5", "hard=null"], "2"),
        (["kind=Multi-Scene", "kind=High-Dynamic"], "0"),
        (["hard=true"], "1"),
        (["tsak=count"], 'this tag; the tags: hard, kind, task, weight, zoom; did you mean "ta'),
        (["task=conut"], "task can be count, rotation, visual cues; did you mean"),
        (["zoom=0", "task=count"], "no question has all of --where zoom=0 --where task=count"),
    ],
)
def test_every_condition_must_hold(where: list[str], expected: str) -> None:
    try:
        found = "".join(one.id for one in with_tags(TAGGED, where))
    except UsageError as error:
        found = str(error)
    assert found.endswith(expected) if expected.isdigit() else expected in found


TOMATO_FILES = Path(__file__).resolve().parents[3] / "shared" / "data" / "tomato"


@pytest.mark.skipif(not TOMATO_FILES.exists(), reason="TOMATO's files are not here")
def test_all_of_tomato_loads() -> None:
    questions = load_questions(TOMATO_FILES)
    assert len({question.video for question in questions}) == 1397
    # The counts of the paper's table 7.
    types = Counter(question.id.partition("/")[0] for question in questions)
    assert [*types.values()] == [292, 403, 286, 223, 210, 70]
    kinds = Counter(question.tags["demonstration_type"] for question in questions)
    assert kinds == {"human": 595, "object": 656, "simulated": 233}
