"""`capeval.probe`: broken judges fail the probes that are about what they break, and no others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import InputError, RunLocked, UsageError
from capeval.judging.lexical import LexicalJudge
from capeval.llm.fake import ScriptedClient
from capeval.runs.folder import RunFolder
from capeval.runs.sources import annotations_of
from capeval.schema import Annotation, Verdict
from capeval.trust.probe import Kind
from capeval.trust.probe_card import Card
from tests.judge_responder import answer
from tests.server import LoopbackServer
from tests.six_videos import right
from tests.trust.probed_judges import BROKEN, Moody, NeverContradicts, Oracle, Random

SAMPLE = annotations_of("sample")

pytestmark = pytest.mark.usefixtures("alone")


def probed(judge: Any = "lexical", annotations: Any = "sample", **given: Any) -> Card:
    (card,) = capeval.probe(annotations, judge=judge, **given).cards.values()
    return card


def failed(card: Card) -> set[str]:
    """The lines of the card that are not all right."""
    found: set[str] = set()
    for kind, result in card.kinds.items():
        for name, rates in ((kind, result.tested), (f"{kind}: rest", result.others)):
            if "all" in rates and rates["all"].correct < rates["all"].n:
                found.add(name)
    return found


@pytest.mark.parametrize("judge", BROKEN, ids=lambda judge: judge.name)
def test_a_broken_judge_fails_what_is_about_it_and_nothing_else(judge: type[Oracle]) -> None:
    card = probed(judge(SAMPLE))
    assert failed(card) == BROKEN[judge]
    worst = card.headline.worst
    assert worst in BROKEN[judge] if BROKEN[judge] else card.headline.worst_value == 1


def test_the_recalls_and_the_headline() -> None:
    card = probed(NeverContradicts(SAMPLE))
    recalls = {name: rate.value for name, rate in card.headline.recalls.items()}
    assert recalls == {"entailment": 1, "lack": 1, "contradiction": 0}
    assert card.headline.value == pytest.approx(2 / 3)
    low, high = card.headline.low, card.headline.high
    assert low is not None
    assert high is not None
    assert low < 2 / 3 < high
    edits = card.kinds["contradicted"].tested["all"].n
    assert card.confusion["contradiction"] == {"entailment": 0, "lack": edits, "contradiction": 0}


def test_an_event_that_must_have_no_match_is_graded() -> None:
    class Matches(Oracle):
        name = "matches"

        def judge(self, annotation: Annotation, caption: str, repeat: int = 0) -> Verdict:
            verdict = super().judge(annotation, caption, repeat)
            numbers = range(1, len(annotation.events) + 1)
            events = [f"event {n}" for n in numbers]
            return verdict.model_copy(
                update={"candidate_events": tuple(events), "matches": tuple(numbers)}
            )

    for judge, is_right in ((Oracle, True), (Matches, False)):
        card = probed(judge(SAMPLE))
        for kind, captions in (("dropped", 10), ("reordered", 5)):
            unmatched = card.kinds[kind].unmatched  # type: ignore[index]
            assert (unmatched.correct, unmatched.n) == (captions * is_right, captions)
        assert failed(card) == set()


def test_agreement_is_reported_apart_from_what_is_right() -> None:
    assert probed(Oracle(SAMPLE)).repeat.value == 1
    moody = probed(Moody(SAMPLE))
    assert (moody.headline.value, failed(moody)) == (1, set())
    assert moody.repeat.value is not None
    assert moody.repeat.value < 0.3


def test_a_repeat_is_another_request() -> None:
    judge = Oracle(SAMPLE)
    probed(judge, repeats=2)
    asked: dict[tuple[str, str], list[int]] = {}
    for index, caption, repeat in judge.asked:
        asked.setdefault((index, caption), []).append(repeat)
    assert min(map(tuple, map(sorted, asked.values()))) == (0, 1)
    assert sum(sorted(found) == [0, 1, 2, 3] for found in asked.values()) == len(SAMPLE)


def test_intervals_at_100_percent_are_not_empty() -> None:
    card = probed(Oracle(SAMPLE))
    for result in card.kinds.values():
        every = result.tested["all"]
        assert every.value == every.high == 1
        assert every.low is not None
        assert every.low < 1
        assert every.videos_for["3"] is not None


def test_unscored_captions_are_counted_and_are_neither_right_nor_wrong() -> None:
    class Fails(Oracle):
        name = "fails"

        def judge(self, annotation: Annotation, caption: str, repeat: int = 0) -> Verdict:
            if "contradiction" in str(super().judge(annotation, caption, repeat).relations):
                raise RuntimeError("no")
            return super().judge(annotation, caption, repeat)

    whole, part = probed(Oracle(SAMPLE)), probed(Fails(SAMPLE))
    assert failed(part) == set()
    lost = part.kinds["contradicted"]
    assert (lost.unscored, lost.tested) == (lost.captions, {})
    # What is repeated are these captions.
    assert (part.repeat_unscored, part.repeat.value) == (len(SAMPLE), None)
    assert part.unscored == lost.unscored + part.repeat_unscored
    assert part.headline.value is None
    for kind in ("verbatim", "dropped", "injected"):
        assert part.kinds[kind] == whole.kinds[kind]


def test_what_must_not_change_is_graded_only_where_it_was_right() -> None:
    class WrongOnce(Oracle):
        """Takes one thing for lacking, wherever it is told."""

        name = "wrong-once"

        def labels(self, probe: Any, right: Any, repeat: int) -> Any:
            found = [list(event) for event in right]
            if probe.video == "sample_01" and found[0][0] == "entailment":
                found[0][0] = "lack"
            return found

    card = probed(WrongOnce(SAMPLE))
    assert failed(card) == {"verbatim"}
    why = "the verdict on the base caption is wrong"
    assert card.kinds["contradicted"].ungraded == {why: 1}
    assert card.confusion["entailment"]["lack"] > 1
    assert sum(rate.n for rate in card.headline.recalls.values()) == sum(
        sum(given.values()) for given in card.confusion.values()
    )


# ---- what is stored --------------------------------------------------------------------------


class Counting(LexicalJudge):
    """Counts its verdicts."""

    calls = 0

    def judge(self, annotation: Annotation, caption: str) -> Verdict:
        type(self).calls += 1
        return super().judge(annotation, caption)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> type[Counting]:
    monkeypatch.setattr(Counting, "calls", 0)
    return Counting


def test_the_files(counting: type[Counting]) -> None:
    card = probed(counting())
    folder = Path("probes/lexical-1")
    assert {path.name for path in folder.iterdir()} == {
        *("probes.jsonl", "judgments.jsonl", "probe.json")
    }
    assert json.loads((folder / "probe.json").read_bytes()) == card.model_dump(mode="json")
    probes = [json.loads(line) for line in (folder / "probes.jsonl").read_text().splitlines()]
    verdicts = [json.loads(line) for line in (folder / "judgments.jsonl").read_text().splitlines()]
    assert [one["id"] for one in probes] == [one["index"] for one in verdicts]
    assert set(probes[0]) == {
        *("id", "video", "kind", "caption", "edits", "expected", "unmatched", "base")
    }
    assert card.judge.identity["judge"] == "lexical-1"
    assert card.judge.identity["repeats"] == 1
    assert card.seed == 0
    assert card.rules["rules"]
    assert len(card.data) == 64


def test_nothing_is_judged_twice_and_the_same_inputs_give_the_same_bytes(
    counting: type[Counting],
) -> None:
    probed(counting(), videos=4)
    files = {path: path.read_bytes() for path in Path("probes").rglob("*") if path.is_file()}
    first = counting.calls
    probed(counting(), videos=4)
    assert counting.calls == first
    assert {path: path.read_bytes() for path in files} == files
    more = probed(counting(), videos=6)
    assert counting.calls == more.captions > first


def test_a_torn_last_line_costs_one_verdict(counting: type[Counting]) -> None:
    card = probed(counting(), videos=3)
    stored = Path("probes/lexical-1/judgments.jsonl")
    stored.write_bytes(stored.read_bytes()[:-20])
    before = counting.calls
    assert probed(counting(), videos=3) == card
    assert counting.calls == before + 1


def test_verdicts_that_name_another_judge_are_given_again(counting: type[Counting]) -> None:
    card = probed(counting(), videos=3)
    stored = Path("probes/lexical-1/judgments.jsonl")
    stored.write_text(stored.read_text().replace('"judge": "lexical-1"', '"judge": "gpt-4o"'))
    before = counting.calls
    assert probed(counting(), videos=3) == card
    assert counting.calls == before + card.captions


def test_regrading_needs_no_verdict(counting: type[Counting]) -> None:
    card = probed(counting(), videos=3)
    Path("probes/lexical-1/probe.json").write_text("{}")
    before = counting.calls
    assert probed(counting(), videos=3) == card
    assert counting.calls == before


def test_verdicts_of_another_judge_or_annotation_are_not_mixed(counting: type[Counting]) -> None:
    probed(counting(), videos=3)
    before = counting.calls

    class Newer(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.identity = ("other rules",)  # type: ignore[misc]

    first = probed(Newer(), videos=3)
    assert Newer.calls - before == first.captions
    hashes = {json.loads(line)["inputs"]["judge"] for line in _newer("judgments.jsonl")}
    assert hashes == set(first.judge.hashes)
    changed = SAMPLE[0].model_copy(update={"events": SAMPLE[0].events[:2]})
    before = Newer.calls
    card = probed(Newer(), [changed], videos=3)
    assert Newer.calls - before == card.captions
    assert card.data != first.data
    assert (card.videos, card.captions) == (1, len(set(_ids())))


def _ids() -> list[str]:
    return [json.loads(line)["id"] for line in _newer("probes.jsonl")]


def _newer(name: str) -> list[str]:
    """The lines of a file in the folder of the judge that came second."""
    (file,) = Path("probes").glob(f"lexical-1-*/{name}")
    return file.read_text().splitlines()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]\n{}\n", "judgments.jsonl: "),
        ('{"index": "sample_01#verbatim"}\n{"index": "x"}\n', "has no judgments"),
        ('{"status": "scored", "index": 3}\n{"a": 1}\n', "judgments.jsonl: index 3: "),
        ("\xff\n{}\n", "judgments.jsonl: line 1"),
    ],
)
def test_a_damaged_file_of_verdicts_is_named(text: str, message: str) -> None:
    folder = Path("probes/lexical-1")
    folder.mkdir(parents=True)
    (folder / "judgments.jsonl").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as caught:
        probed(videos=1)
    assert message in str(caught.value)


def test_two_processes_do_not_probe_one_judge() -> None:
    refused = pytest.raises(RunLocked, match="is probing this judge; wait for it")
    with RunFolder(Path("probes/lexical-1")).locked(), refused:
        probed(videos=1)
    assert not Path("probes").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"judge": "lexical", "prompts": "mine"}, "`prompts` is for chat models"),
        ({"judge": ["lexical", "lexical"]}, "`judge` names one judge twice"),
        ({"judge": "lexical", "videos": 0}, "videos must be at least 1"),
        ({"judge": "lexical", "fail_under": 101}, "fail_under must be from 1 to 100"),
        ({"judge": 3}, "judge must be a list"),
        ({"judge": "lexical", "out": "judgments.jsonl"}, "has a name that capeval uses itself"),
        (
            {"judge": "lexical", "out": "probes/lexical-1/probe.json"},
            "has a name that capeval uses itself",
        ),
        ({"judge": "lexical", "annotations": []}, "annotations are needed"),
        ({"judge": "lexical", "annotations": [SAMPLE[0]] * 2}, "the same index twice"),
        ({"judge": "gpt-4o"}, "OPENAI_API_KEY"),
    ],
)
def test_usage(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        capeval.probe(**given)
    assert message in str(caught.value)


# ---- several judges --------------------------------------------------------------------------


def test_several_judges_are_tested_in_pairs() -> None:
    judges: Sequence[Any] = [Oracle(SAMPLE), NeverContradicts(SAMPLE), Random(SAMPLE)]
    found = capeval.probe("sample", judge=judges)
    assert list(found.cards) == [judge.name for judge in judges]
    tests = {(one.first, one.second, one.kind): one for one in found.tests}
    kind: Kind = "contradicted"
    one = tests["oracle-1", "never-contradicts", kind]
    assert (one.first_only, one.second_only) == (one.n, 0)
    assert one.n == found.cards["oracle-1"].kinds[kind].tested["all"].n
    # Ten videos, and all of them on one side.
    assert one.p == pytest.approx(2 / 2**10)
    assert one.p is not None
    assert one.p_holm is not None
    assert one.p_holm == pytest.approx(one.p * len(found.tests), rel=0.5)
    assert tests["oracle-1", "never-contradicts", "verbatim"].p == 1
    random = tests["oracle-1", "random", "verbatim"].p
    assert random is not None
    assert random < 0.01


def test_a_gate() -> None:
    judges: Sequence[Any] = [Oracle(SAMPLE), NeverContradicts(SAMPLE)]
    assert capeval.probe("sample", judge=judges, fail_under=90).failed == ("never-contradicts",)
    assert capeval.probe("sample", judge=judges, fail_under=66.6).failed == ()
    assert capeval.probe("sample", judge=judges).failed == ()


def test_without_contradictions_there_is_no_headline_and_no_gate_passes() -> None:
    elements = SAMPLE[0].events[0].visual_elements[:2]
    event = SAMPLE[0].events[0].model_copy(update={"visual_elements": elements})
    plain = SAMPLE[0].model_copy(update={"events": (event,)})
    found = capeval.probe([plain], judge="lexical", fail_under=1)
    (card,) = found.cards.values()
    assert card.headline.value is None
    assert found.failed == ("lexical-1",)


# ---- a chat model ----------------------------------------------------------------------------


async def test_a_chat_model_is_probed_and_its_replies_are_cached() -> None:
    async with LoopbackServer(answer) as server:
        found = await capeval.probe_async(
            "sample", judge="judge-model", base_url=server.url, videos=2, max_concurrency=4
        )
        calls = len(server.requests)
        (card,) = found.cards.values()
        assert card.judge.identity["prompts"].startswith("tuna-cap-v1@")
        assert card.judge.identity["endpoint"] == "other"
        assert card.usage.calls > 0
        assert card.cost is None
        assert card.headline.value is not None
        # Even without the verdicts: the replies are paid for.
        shutil.rmtree("probes")
        again = await capeval.probe_async(
            "sample", judge="judge-model", base_url=server.url, videos=2
        )
        assert len(server.requests) <= calls + 1  # the preflight
    assert again.cards == found.cards


def test_the_repeat_is_asked_with_another_seed() -> None:
    client = ScriptedClient(right)
    card = probed("gpt-4o", client=client, videos=1)
    assert {request.repeat for request in client.requests} == {0, 1}
    assert card.cost is not None
    assert card.cost > 0


def test_python_is_notified_of_verdicts_that_are_removed() -> None:
    notices: list[str] = []
    capeval.probe("sample", judge="lexical", videos=3, on_notice=notices.append)
    assert not [line for line in notices if "remov" in line]
    capeval.probe("sample", judge="lexical", videos=2, on_notice=notices.append)
    assert [line for line in notices if "remov" in line], notices
