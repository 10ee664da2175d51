"""Judges of other packages and objects of the user: found, run, and checked."""

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import JudgeError, UsageError
from capeval.judging.protocol import Tally, prepare_judge
from capeval.schema import Annotation, Usage, Verdict
from tests.six_videos import COUNT, captions, videos
from tests.world import Said, install, installed, typed

pytestmark = pytest.mark.usefixtures("alone")

REPOSITORY = Path(__file__).resolve().parents[2]
ONE = videos()[0]
ANNOTATION = ONE.model_copy(update={"events": ONE.events * 2})


def all_lacking(annotation: Annotation, caption: str) -> dict[str, Any]:
    relations = [["lack" for _ in event.visual_elements] for event in annotation.events]
    return {"candidate_events": [caption], "matches": [None], "relations": relations}


class Judge:
    """As small as a judge can be; tests change one thing each."""

    name = "mine-1"
    is_baseline = False

    def __init__(self, answer: Callable[..., Any] = all_lacking, **attributes: Any) -> None:
        self.answer = answer
        vars(self).update(attributes)

    def judge(self, annotation: Annotation, caption: str) -> Any:
        return self.answer(annotation, caption)


async def judged(judge: Any, caption: str = "A man walks.") -> Verdict:
    prepared = prepare_judge(judge)
    return await prepared.judge(ANNOTATION, caption, repeat=0, tally=Tally())


def score(judge: Any, **more: Any) -> capeval.Scores:
    return capeval.judge(captions(), videos(), judge=judge, **more)


def test_a_run_keeps_what_the_judge_declares() -> None:
    judge = Judge(prompts="mine@1f3a9c", base_url="https://me:secret@host/v1", identity=["v2"])
    score(judge, run="kept")
    folder = Path("runs/kept/mine-1@mine")
    text = (folder / "judgments.jsonl").read_text("utf-8")
    line = json.loads(text.splitlines()[0])
    assert line["provenance"]["prompts"] == "mine@1f3a9c"
    assert line["provenance"]["base_url"] == "https://host/v1"
    assert line["provenance"]["baseline"] is False
    assert "secret" not in text

    def fails(*_: Any) -> None:
        raise AssertionError("judged again")

    for again in (judge, Judge(fails, prompts="mine@1f3a9c", identity=("v2",))):
        assert score(again, run="kept").counts.scored == COUNT
    assert score(Judge(fails, prompts="mine@1f3a9c"), run="kept").counts.scored == 0
    # Another identity is another judge, with another folder.
    (other,) = (one for one in Path("runs/kept").glob("mine-1@mine-*"))
    assert "judged again" in (other / "judgments.jsonl").read_text("utf-8")
    assert (folder / "judgments.jsonl").read_text("utf-8") == text


def test_a_sync_judge_runs_outside_the_loop_once_at_a_time_unless_it_allows_more() -> None:
    threads: set[int] = set()

    def together(most: int) -> Callable[..., dict[str, Any]]:
        meeting = threading.Barrier(most)
        running = threading.Semaphore(most)

        def judge(annotation: Annotation, caption: str) -> dict[str, Any]:
            threads.add(threading.get_ident())
            assert running.acquire(blocking=False), "more than are allowed"
            meeting.wait(timeout=60)
            running.release()
            return all_lacking(annotation, caption)

        return judge

    scores = score(Judge(together(1)))
    assert (scores.counts.scored, scores.overall.all.f1.value) == (COUNT, 0.0)
    assert "|judge:mine-1|prompts:none|" in scores.signature
    assert threading.get_ident() not in threads
    assert score(Judge(together(3), concurrency=3)).counts.scored == COUNT
    assert score(Judge(together(2), concurrency=3), max_concurrency=2).counts.scored == COUNT


def test_a_coroutine_function_judges_with_repeats_and_a_tally() -> None:
    seen: list[int] = []

    class Async(Judge):
        async def judge(  # type: ignore[override]
            self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
        ) -> Verdict:
            seen.append(repeat)
            tally.add("ask", Usage(calls=1, input_tokens=7))
            tally.models.add("snapshot-3")
            return Verdict.model_validate(all_lacking(annotation, caption))

    scores = score(Async(), repeats=2)
    assert sorted(seen) == [0] * COUNT + [1] * COUNT
    assert scores.usage["ask"].input_tokens == 2 * COUNT * 7
    assert "|judge:snapshot-3|" in scores.signature


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (Judge, "it is a class; pass an object, Judge()"),
        (object(), "an object with a method judge"),
        (Judge(name=""), "name: "),
        (Judge(identity="v2"), "identity: "),
        (Judge(base_url="elsewhere"), "the base URL must look like"),
    ],
)
def test_an_object_that_cannot_judge_is_refused(judge: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        score(judge)
    assert "\n" not in str(caught.value)


def returning(**change: Any) -> Judge:
    return Judge(lambda *given: all_lacking(*given) | change)


EVENTS = len(ANNOTATION.events)
LACKING = [["lack" for _ in event.visual_elements] for event in ANNOTATION.events]


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (Judge(lambda *_: None), "it is of type NoneType, not Verdict"),
        (returning(relations=LACKING[:-1]), "do not fit the events and elements"),
        (returning(relations=[["maybe"], *LACKING[1:]]), "relations.1.1"),
        (returning(relations=[["entailment"] * len(LACKING[0]), *LACKING[1:]]), "nothing matches"),
        (returning(matches=[EVENTS + 1]), f"reference event {EVENTS + 1} of {EVENTS}"),
        (returning(matches=[]), "one match per candidate event"),
        *((returning(matches=[one]), "matches.1: must be") for one in (0, "1", True)),
        (returning(surprise=1), "surprise"),
        (
            returning(candidate_events=["b", "a"], matches=[2, 1]),
            "matches reference event 1 after 2",
        ),
    ],
)
async def test_a_verdict_that_cannot_be_right_is_refused(judge: Judge, said: str) -> None:
    with pytest.raises(JudgeError, match=said) as caught:
        await judged(judge)
    assert str(caught.value).startswith('the judge "mine-1" returned an unusable verdict: ')


def test_what_fails_is_one_video_with_a_reason() -> None:
    def fails(annotation: Annotation, caption: str) -> dict[str, Any]:
        if annotation.index == "V2":
            raise StopIteration
        if annotation.index == "V4":
            raise KeyError("weights\nof V4")
        return all_lacking(annotation, caption)

    score(Judge(fails), run="partly")
    lines = Path("runs/partly/mine-1/judgments.jsonl").read_text("utf-8").splitlines()
    reasons = {one["index"]: one["reason"] for one in map(json.loads, lines) if one["reason"]}
    assert set(reasons) == {"V2", "V4"}
    assert reasons["V2"].startswith('the judge "mine-1" failed: RuntimeError: StopIteration')
    assert "KeyError: 'weights\\nof V4' (test_registry.py, line " in reasons["V4"]
    assert score(Judge(), run="partly").counts.scored == COUNT


SOURCE = '''
from pathlib import Path

from capeval.schema import Verdict

Path("imported").touch()


class Everything:
    """Says of everything that it is in the caption."""

    name = "everything-1"
    is_baseline = True

    def judge(self, annotation, caption):
        return Verdict(
            candidate_events=[caption] * len(annotation.events),
            matches=range(1, len(annotation.events) + 1),
            relations=[["entailment"] * len(e.visual_elements) for e in annotation.events],
        )


def no_key():
    raise RuntimeError("set MY_KEY")


NOT_CALLABLE = 3
'''
ENTRY_POINTS = """[capeval.judges]
everything = tiny_judge:Everything
no-key = tiny_judge:no_key
number = tiny_judge:NOT_CALLABLE
incomplete = tiny_judge:dict
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = f"{SOURCE}\ndict = dict\n"
    return install(tmp_path_factory.mktemp("package"), "tiny_judge", source, ENTRY_POINTS)


def command(site: Path, name: str) -> Said:
    with installed(site, "tiny_judge"):
        return typed(Path.cwd(), "judge", "sample", "--limit", "2", "--judge", name)


def test_an_installed_judge_is_named_on_the_command_line(site: Path) -> None:
    done = command(site, "everything")
    assert done.code == 0, done.err
    assert Path("imported").exists()
    Path("imported").unlink()
    assert command(site, "lexical").code == 0
    assert not Path("imported").exists(), "only a judge that is named is imported"
    assert done.err.splitlines()[0] == "Judge: everything-1 (baseline)"
    folders = list(Path("runs").glob("sample-*/everything-1"))
    assert folders
    stored = json.loads((folders[0] / "scores.json").read_text("utf-8"))
    assert (stored["overall"]["all"]["f1"]["value"], stored["settings"]["baseline"]) == (1.0, True)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no-key", 'the judge "no-key" cannot be loaded: RuntimeError: set MY_KEY (tiny_judge.py'),
        ("number", "its entry point must be a class or a function that returns a judge"),
        ("incomplete", "it has no method judge(annotation, caption)"),
    ],
)
def test_a_broken_package_is_one_line(site: Path, name: str, said: str) -> None:
    assert said in command(site, name).refusal
    assert not Path("runs").exists()


def test_the_example_in_the_docs_judges() -> None:
    page = (REPOSITORY / "docs" / "extending.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n# my_judge.py\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    scores = score(names["NothingJudge"]())
    assert (scores.counts.scored, scores.settings["baseline"]) == (COUNT, True)
