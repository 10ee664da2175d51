"""Each layout of questions, recognised from its content."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.errors import InputError, UsageError
from capeval.mcq.layouts import parse_list, without_letters
from capeval.mcq.question_files import load_questions, questions_hash, with_tags
from capeval.mcq.responses import predictions
from capeval.schema.question import Question, Response
from tests.mcq.question_files import OPTIONS, harness, own, tomato, tsv, tuna, video_mme, write


def load(value: Any, name: str = "questions.json") -> tuple[Question, ...]:
    return load_questions(write(Path(name), value))


# TUNA-MCQ


def test_tuna_is_read_from_json_and_from_a_table() -> None:
    found = [
        load([tuna()]),
        load((tuna(),)),
        *(
            load(tsv(tuna(candidates=candidates)), "questions.tsv")
            for candidates in (str(OPTIONS), json.dumps(OPTIONS))
        ),
    ]
    assert found[0] == (
        Question(
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
        ),
    )
    assert all(questions == found[0] for questions in found)


def test_without_an_index_the_position_names_a_question() -> None:
    rows = [{k: v for k, v in tuna().items() if k != "index"} for _ in range(2)]
    assert [question.id for question in load(rows)] == ["0", "1"]


@pytest.mark.parametrize(
    ("answers", "letters"),
    [
        (["left", "up"], "AC"),
        (["A", "C"], "AC"),
        (["not  at all", "left "], "DA"),
        (["left", "C", "B", "up"], "ACBC"),
    ],
)
def test_answers_are_texts_or_letters_each_by_itself(answers: list[str], letters: str) -> None:
    rows = [tuna(index=n, answer=answer) for n, answer in enumerate(answers)]
    assert "".join(question.answer for question in load(rows)) == letters


def test_an_option_that_is_a_letter_is_read_as_the_other_answers_are() -> None:
    rows = [tuna(candidates=["B", "A", "C"], answer="A"), tuna(index=8, answer="up")]
    assert [question.answer for question in load(rows)] == ["B", "C"]
    rows[1]["answer"] = "D"
    assert [question.answer for question in load(rows)] == ["A", "D"]


# TOMATO


def test_tomato_ids_and_videos_are_unique() -> None:
    Path("data").mkdir()
    write(Path("data/count.json"), {"0": tomato(), "1": tomato(demonstration_type="human")})
    write(Path("data/visual_cues.json"), {"0": tomato(motion_type="visual cues")})
    notices: list[str] = []
    found = load_questions("data", notices.append)
    assert [(question.id, question.video) for question in found] == [
        ("count/0", "object/0001-01"),
        ("count/1", "human/0001-01"),
        ("visual_cues/0", "object/0001-01"),
    ]
    (notice,) = notices
    assert notice == (
        "data: has 2 files of TOMATO's 6; without direction.json, rotation.json, "
        "shape&trend.json, velocity&frequency.json"
    )
    assert found[0].answer == "C"
    assert found[2].tags["motion_type"] == "visual cues"
    assert found[2].tags["reasoning_type"] == "visual_cues"
    assert found[0].tags["composite"] == 1
    assert load_questions("data/visual_cues.json") == found[2:]


def test_the_table_of_harnesses_names_the_same_questions() -> None:
    fields = {"video_path": "videos/object/0001-01.mp4", "reason_type": "visual cues"}
    found = [
        load([harness()]),
        load([harness(id="visual_cues_3")]),
        load([{k: v for k, v in harness().items() if k != "demonstration_type"}]),
        load(tsv(harness(**fields)), "q.tsv"),
    ]
    for (question,) in found:
        assert (question.id, question.video) == ("visual_cues/3", "object/0001-01")
        assert question.answer == "A"
        assert question.tags["reasoning_type"] == "visual_cues"


def test_the_reasoning_type_of_tomato_is_the_name_of_the_file() -> None:
    (question,) = load({"0": tomato(reasoning_type="other")}, "count.json")
    assert question.tags["reasoning_type"] == "count"


def test_a_folder_without_any_file_of_tomato_is_refused() -> None:
    with pytest.raises(InputError, match=r"^\.: has none of TOMATO's files \(count\.json, "):
        load_questions(".")


# Video-MME


def test_video_mme_is_read_with_its_letters_removed() -> None:
    (question,) = load([video_mme()])
    assert (question.id, question.video, question.answer) == ("001-1", "a-b_C", "C")
    assert question.options == ("1.", "2.", "3.", "None.")
    assert question.tags == {
        "video_id": "001",
        "duration": "short",
        "domain": "Knowledge",
        "sub_category": "Geography",
        "task_type": "Counting Problem",
    }


def template(*responses: Any) -> str:
    names = ("question_id", "task_type", "question", "options", "answer")
    fields = video_mme()
    questions = [
        {name: fields[name] for name in names}
        | {"question_id": f"001-{number}"}
        | ({} if response is ... else {"response": response})
        for number, response in enumerate(responses, start=1)
    ]
    video = {name: fields[name] for name in ("video_id", "duration", "domain", "sub_category")}
    text = json.dumps([video | {"questions": questions}], indent=1)
    return text.replace('"\n  }', '",\n  }').replace("}\n]", "},\n]")


def test_the_template_loads_with_a_notice_and_yields_its_responses() -> None:
    file = write(Path("t.json"), template("C. 3, [x,]", "", None, ...))
    with pytest.raises(json.JSONDecodeError):
        json.loads(file.read_text())
    notices: list[str] = []
    questions = load_questions(file, notices.append)
    (notice,) = notices
    assert notice.startswith("t.json: has trailing commas, which JSON forbids; they are ignored")
    assert [(q.id, q.video) for q in questions] == [(f"001-{n}", "001") for n in (1, 2, 3, 4)]
    found = predictions(file)
    assert [response.reply for response in found] == ["C. 3, [x,]", "", None, None]
    assert [response.reason for response in found] == [
        None,
        None,
        *2 * ["no response in t.json"],
    ]
    stored = found[0].model_dump()
    assert stored["duration"] == "short"
    assert Response.model_validate(stored) == found[0]


def test_responses_are_needed_to_import_a_template() -> None:
    with pytest.raises(InputError, match=r"t\.json: has no responses"):
        predictions(write(Path("t.json"), template(...)))
    with pytest.raises(InputError, match="has no responses; give JSON lines"):
        predictions(write(Path("own.json"), [own()]))


# Questions of users


def test_any_other_field_of_an_own_question_is_a_tag() -> None:
    extra = {"level": 2, "tags_of": ["x", "y"], "hard": True, "gone": None, "weight": 2.50}
    (question,) = load((own(**extra),), "q.jsonl")
    assert question.tags == extra
    assert question.benchmark == "own"
    (question,) = load([own(benchmark="mine")])
    assert question.benchmark == "mine"


# What is refused


def without(record: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != name}


def second(**fields: Any) -> dict[str, Any]:
    """Return a file of TOMATO whose second question is wrong."""
    return {"0": tomato(), "5": tomato(**fields)}


CHAPTER = {"video_id": "1"}
MISTAKES: list[tuple[str, Any, str]] = [
    # TUNA-MCQ
    (
        "q.json",
        [tuna(candidates=["B", "A"], answer="A")],
        'answer: "A" is the text of one option and the letter of another',
    ),
    (
        "q.json",
        [tuna(), tuna(index=8, candidates=["right", "right"])],
        'entry 2: answer: must be the text of one option or a letter, not "right"',
    ),
    ("q.json", [tuna(candidates="['a', 'b' 'c']")], "candidates: is not a list of texts in quotes"),
    ("q.json", [tuna(candidates=["right"])], "candidates: must have 2 to 26 options; it has 1"),
    ("q.json", [tuna(candidates=["right", "\u200b\u2060"])], "candidates.2: is empty"),
    ("q.json", [tuna(), without(tuna(), "index")], "entry 2: index: is missing"),
    ("q.json", [tuna(), tuna()], 'id: "7" is duplicated (entry 1 and entry 2)'),
    ("q.json", [tuna(skill={"a": 1})], "skill: must be text, a number, true, false"),
    (
        "q.json",
        [tuna(reply="B")],
        'tags: no tag can be called "reply", which responses.jsonl uses itself',
    ),
    ("q.json", [tuna(question="\ud800")], "question: must be text"),
    # TOMATO
    ("count.json", second(answer=3), "question 5: answer: must be the number of an option from 0,"),
    ("count.json", second(options=[1, [2]]), "question 5: options.2: must be text, not [2]"),
    ("count.json", second(key=""), "question 5: key: is empty"),
    ("count.json", second(variation=1), "question 5: variation: must be a JSON object"),
    ("count.json", {"0": tomato(), "1": 3}, "question 1: must be a JSON object, not 3"),
    ("tomato:count.json", [tomato()], 'must be a JSON object of questions such as {"0"'),
    ("tomato:count.json", {}, "has no questions"),
    # Video-MME
    ("q.json", [video_mme(answer="E")], 'entry 1: answer: must be a letter, not "E"'),
    ("q.json", [CHAPTER | {"questions": []}], "questions: must be a list of questions"),
    ("q.json", [CHAPTER | {"questions": [3]}], "entry 1, question 1: must be a JSON object"),
    (
        "q.json",
        [CHAPTER | {"questions": [{"question_id": "1-1"}]}],
        "entry 1, question 1: question: is missing",
    ),
    # A user's own
    ("q.json", [], "has no questions"),
    ("q.json", "", "is empty"),
    ("q.json", (own(), 3), "line 2: must be a JSON object, not 3"),
    ("q.json", [own(id=None)], "entry 1: id: is empty"),
    ("q.json", [own(id="a\nb")], 'id: "a\\nb" has a control character, which names must not have'),
    ("q.json", [own(), own(id="q2", options=None)], "entry 2: options: is empty"),
    (
        "q.json",
        [without(own(), "video") | {"vdeo": "x"}],
        'entry 1: lacks "video"; did you mean "vdeo"?; questions need id, video',
    ),
    ("q.json", [{"index": "a", "caption": "x"}], "entry 1: has no known layout of questions (capt"),
    ("q.json", "[" + json.dumps(own()) + "}", "line 1: broken JSON at column"),
    ("q.json", json.dumps(own()) + "\n{,}\n", "line 2: broken JSON at column 2"),
    ("q.json", "a,b\n1,2\n", "line 2: has no known layout of questions (a, b)"),
    ("q.json", "{}", "has no known layout of questions (no fields)"),
]


@pytest.mark.parametrize(("name", "value", "message"), MISTAKES)
def test_a_mistake_is_named_with_its_place(name: str, value: Any, message: str) -> None:
    file = name.rpartition(":")[2]
    write(Path(file), value)
    with pytest.raises(InputError) as caught:
        load_questions(name)
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)


# Letters, names of layouts, plugins


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (["A. x", "B. y"], ("x", "y")),
        (["(A) x", "(B) y"], ("x", "y")),
        (["(A)x", "(B)y"], ("x", "y")),
        (["a) x", "b) y"], ("x", "y")),
        (["A: x", "B: y\nz"], ("x", "y\nz")),
        *(
            (kept, tuple(kept))
            for kept in (
                ["A. x", "y"],
                ["B. x", "A. y"],
                ["A. x", "C. y"],
                ["A. x", "B) y"],
                ["A.D.", "B.C."],
                ["A", "B"],
                ["A man", "B man"],
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


def test_a_layout_can_be_named() -> None:
    file = write(Path("q.json"), [tuna()])
    assert load_questions(f"tuna:{file}") == load_questions(file)
    with pytest.raises(InputError, match=r"q\.json: entry 1: id: is missing"):
        load_questions(f"own:{file}")
    with pytest.raises(UsageError, match=r'no layout of questions is called "tunna".*"tuna"'):
        load_questions(f"tunna:{file}")
    with pytest.raises(InputError, match="is a folder; name a file"):
        load_questions("tuna:.")
    with pytest.raises(InputError, match=r"x\.json: does not exist"):
        load_questions("tuna:x.json")


def test_the_hash_is_of_what_is_asked() -> None:
    one = load([own()])
    assert questions_hash(one) == questions_hash(load([own(level=3)]))
    assert questions_hash(one) != questions_hash(load([own(answer="C")]))


# Parquet and lists in tables


def write_parquet(path: str, records: list[dict[str, Any]]) -> str:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra data")
    import pyarrow

    parquet.write_table(pyarrow.Table.from_pylist(records), path)
    return path


@pytest.mark.parametrize(
    "record", [tuna(candidates=str(OPTIONS), answer="B"), video_mme(), harness(), own()]
)
def test_parquet_is_read_as_json_is(record: dict[str, Any]) -> None:
    # Recognised from the content: the name does not matter.
    assert load_questions(write_parquet("q.tsv", [record])) == load([record])


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([tuna(), tuna(index=8, candidates=["left", None])], r"row 2: candidates\.2: is empty"),
        ([own(photo=b"x")], "row 1: photo: must be text, a number"),
        ([own(level=float("-inf"))], "row 1: level: must be text, a number"),
    ],
)
def test_a_mistake_in_parquet_is_named_with_its_row(
    records: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(InputError, match=rf"^q\.parquet: {message}"):
        load_questions(write_parquet("q.parquet", records))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LISTS = st.lists(TEXTS, min_size=2, max_size=26)


@given(LISTS)
def test_a_list_is_read_from_json_and_from_what_python_prints(items: list[str]) -> None:
    assert parse_list(repr(items)) == items
    assert parse_list(json.dumps(items, ensure_ascii=False, indent=1)) == items


@given(LISTS, st.data())
def test_a_lost_comma_never_fuses_items(items: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(items) - 1))
    first, second = (", ".join(map(repr, part)) for part in (items[:at], items[at:]))
    blank = data.draw(st.sampled_from(["", " ", "\n "]))
    with pytest.raises(ValueError, match="is not a list"):
        parse_list(f"[{first}{blank}{second}]")


def test_numbers_become_texts_and_other_values_are_refused() -> None:
    assert parse_list("[1, 2.50, 1e3]") == ["1", "2.50", "1e3"]
    assert parse_list("['a', -3]") == ["a", "-3"]
    for text in ("left, right", "[left, right]", "['a', None]", '["a", ["b"]]', "[" * 50_000):
        with pytest.raises(ValueError, match="is not a list"):
            parse_list(text)


# Tags that select questions

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
    ("where", "ids"),
    [
        ([], "012"),
        (["task=visual cues"], "2"),
        (["zoom=1"], "02"),
        (["kind=Multi-Scene", "kind=High-Dynamic"], "0"),
        (["hard=true"], "1"),
        (["hard=null"], "2"),
        (["weight=2.5"], "2"),
    ],
)
def test_every_condition_must_hold(where: list[str], ids: str) -> None:
    assert "".join(found.id for found in with_tags(TAGGED, where)) == ids


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (["task"], '--where "task" must be TAG=VALUE, such as task=count'),
        (
            ["tsak=count"],
            'tag "tsak"; there are hard, kind, task, weight, zoom; did you mean "task"',
        ),
        (["task=conut"], "task can be count, rotation, visual cues; did you mean"),
        (["zoom=0", "task=count"], "no question has all of --where zoom=0 --where task=count"),
    ],
)
def test_a_condition_that_selects_nothing_is_refused(where: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_tags(TAGGED, where)
    assert message in str(caught.value)


# The benchmarks' own files, which are not part of the project

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TOMATO_FILES = DATA / "tomato"
TEMPLATE_FILE = DATA / "videomme_output_template.json"


def _needs(path: Path) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not path.exists(), reason=f"{path.name} is not here")


@_needs(TOMATO_FILES)
def test_all_of_tomato_loads() -> None:
    notices: list[str] = []
    questions = load_questions(TOMATO_FILES, notices.append)
    assert notices == []
    assert len(questions) == 1484
    assert len({question.video for question in questions}) == 1397
    assert len({question.tags["key"] for question in questions}) < 1397
    # The counts of the paper's table 7.
    assert Counter(question.id.partition("/")[0] for question in questions) == {
        "count": 292,
        "direction": 403,
        "rotation": 286,
        "shape&trend": 223,
        "velocity&frequency": 210,
        "visual_cues": 70,
    }
    assert Counter(question.tags["demonstration_type"] for question in questions) == {
        "human": 595,
        "object": 656,
        "simulated": 233,
    }
    assert {len(question.options) for question in questions} == {3, 4, 5, 6, 7}
    assert len(with_tags(questions, ["motion_type=visual cues"])) == 70
    assert len(with_tags(questions, ["composite=1", "demonstration_type=human"])) < 490


@_needs(TEMPLATE_FILE)
def test_the_template_of_video_mme_loads_with_its_responses() -> None:
    notices: list[str] = []
    responses = predictions(TEMPLATE_FILE, on_notice=notices.append)
    assert len(notices) == 1
    assert "trailing commas" in notices[0]
    assert len(responses) == 9
    right = [r.id for r in responses if (r.reply or "").removeprefix("Answer: ")[:1] == r.answer]
    assert len(right) == 7
    assert responses[0].options[0] == "Apples."
