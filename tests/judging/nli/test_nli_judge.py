"""Verdicts of tiny models whose logits the tests control, and of random ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capeval.errors import JudgeError, ModelDown
from capeval.judging.lexical import LexicalJudge
from capeval.judging.nli import NLIJudge, open_nli
from capeval.judging.nli.cross_encoder import CrossEncoder
from capeval.judging.nli.judge import combined, encode
from capeval.judging.protocol import Tally
from capeval.schema import Annotation, Verdict
from tests.judging.nli.conftest import Checkpoint, Judges, annotation
from tests.judging.nli.tiny_nli import WORDS, ruled, tokenizer

TOKENIZER: Any = tokenizer()
STREET = annotation(
    ("A man walks along the street.", ["the man walks yes", "the street no", "a man"]),
    ("The dog jumps over the river.", ["a dog jumps yes", "a river no"]),
)
MAN = annotation(("A man walks along the street.", ["a man"]))


def verdict(judge: NLIJudge, reference: Annotation, caption: str) -> Verdict:
    tally = Tally()
    found = asyncio.run(judge.judge(reference, caption, repeat=0, tally=tally))
    assert len(tally.models) == 1
    return found


@pytest.mark.parametrize("kind", ["ruled", "ruled-other-order"])
def test_the_logits_decide_in_either_order_of_labels(judge: Judges, kind: str) -> None:
    found = verdict(judge(kind), STREET, "A man walks along the street. Then the dog jumps.")
    assert found.matches == (1, 2)
    assert found.relations == (
        ("entailment", "contradiction", "lack"),
        ("entailment", "contradiction"),
    )
    assert found.notes == ()


def test_elements_of_an_event_without_a_match_are_lacking(judge: Judges) -> None:
    found = verdict(judge("ruled"), STREET, "The dog jumps over the river.")
    assert found.matches == (2,)
    assert found.relations == (("lack",) * 3, ("entailment", "contradiction"))
    nothing = verdict(judge("ruled"), STREET, "Zeppelins hum.")
    assert nothing.matches == (None,)
    assert set(sum(nothing.relations, ())) == {"lack"}


def test_the_premise_is_the_caption_and_the_hypothesis_the_element(
    judge: Judges, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = judge("ruled")._encoder
    genuine = encoder.logits
    texts: list[str] = []

    def record(inputs: Sequence[Any]) -> Any:
        texts.extend(encoder.tokenizer.decode(one["input_ids"]) for one in inputs)
        return genuine(inputs)

    monkeypatch.setattr(encoder, "logits", record)
    caption = "A man walks along the street. Then the man runs along the street. A dog jumps."
    assert verdict(judge("ruled"), MAN, caption).matches == (1, 1, None)
    # The text of both pieces, in order; what is matched to no event is not compared.
    premise = "a man walks along the street . then the man runs along the street ."
    assert texts == [f"[CLS] {premise} [SEP] a man [SEP]"]


@pytest.mark.parametrize(
    "caption",
    [
        "A man in a red jacket walks along the street. Then the dog jumps over the river!",
        "1. A bear stands up. 2. A bear stands up. 3. A bear stands up. 4. yes",
        "\ud800 broken \x00 text, a man walks along the street",
        "犬が走る。男が歩く。",
        "a " * 5000,
    ],
    ids=range(5),
)
def test_splitting_and_matching_are_those_of_the_lexical_judge(judge: Judges, caption: str) -> None:
    found = verdict(judge("deberta"), STREET, caption)
    lexical = LexicalJudge().judge(STREET, caption)
    assert found.candidate_events == lexical.candidate_events
    assert found.matches == lexical.matches
    assert [note for note in found.notes if not note.startswith("classify")] == list(lexical.notes)
    assert verdict(judge("deberta"), STREET, caption) == found


def test_special_tokens_in_a_text_are_text(judge: Judges) -> None:
    own = judge("ruled")._encoder.tokenizer
    texts = ("a man [SEP] yes [PAD] [CLS]", "the dog [SEP] no")
    (window,) = encode(own, *texts, limit=64, element="1.1")
    special = {own.sep_token_id: 2, own.cls_token_id: 1, own.pad_token_id: 0}
    assert {token: list(window["input_ids"]).count(token) for token in special} == special


@pytest.mark.parametrize(
    ("bias", "relation"),
    [
        ((2.0, 2.0, 2.0), "lack"),
        ((2.0, 2.0, 1.0), "lack"),
        ((1.0, 2.0, 2.0), "lack"),
        ((2.0, 1.0, 2.0), "contradiction"),
    ],
    ids=str,
)
def test_of_equal_logits_the_more_careful_one_counts(
    tmp_path: Path, bias: tuple[float, float, float], relation: str
) -> None:
    equal = open_nli(str(ruled(tmp_path / "m", {}, bias=bias)), device="cpu", dtype="float32")
    assert verdict(equal, MAN, "A man walks.").relations == ((relation,),)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_are_no_verdict(tmp_path: Path, value: float) -> None:
    rules = {"yes": (9.0, 0.0, 0.0), "no": (0.0, 0.0, value)}
    broken = open_nli(str(ruled(tmp_path / "m", rules)), device="cpu", dtype="float32")
    with pytest.raises(JudgeError, match=r"logits of element 1\.\d are not finite"):
        verdict(broken, annotation(("A man walks.", ["a man no"])), "A man walks.")


# --- windows -----------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=400),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=8),
    st.integers(24, 64),
)
def test_every_passage_of_half_a_window_is_whole_in_one(
    premise: list[str], hypothesis: list[str], limit: int
) -> None:
    windows = encode(TOKENIZER, " ".join(premise), " ".join(hypothesis), limit=limit, element="1.1")
    every, asked = (TOKENIZER.convert_tokens_to_ids(words) for words in (premise, hypothesis))
    # [CLS] premise [SEP] hypothesis [SEP]
    room = limit - 3 - len(asked)
    read = []
    for window in windows:
        ids = list(window["input_ids"])
        assert len(ids) <= limit
        assert ids[-len(asked) - 1 : -1] == asked
        read.append(ids[1 : -len(asked) - 2])
    assert (len(read) == 1) == (len(every) <= room)
    half = room // 2
    for start in range(max(1, len(every) - half + 1)):
        passage = every[start : start + half]
        assert any(own[at : at + len(passage)] == passage for own in read for at in range(len(own)))


def test_what_a_long_caption_says_at_its_end_counts_and_windows_are_noted(judge: Judges) -> None:
    long = "A man walks along the street " + "and the man walks along the street " * 30
    assert verdict(judge("ruled"), MAN, long).relations == (("lack",),)
    found = verdict(judge("ruled"), MAN, f"{long} yes")
    assert found.relations == (("entailment",),)
    assert found.notes[0].startswith("classify: 1 elements were compared with up to 7 windows")
    assert verdict(judge("ruled"), MAN, f"{long} no").relations == (("contradiction",),)
    # A window that entails it decides, wherever it is.
    both = verdict(judge("ruled"), MAN, f"A man walks along the street no. {long} yes")
    assert both.relations == (("entailment",),)
    assert combined(["lack", "contradiction", "lack"]) == "contradiction"


def test_an_element_that_is_too_long_leaves_the_caption_unscored(judge: Judges) -> None:
    one = annotation(("A man walks along the street.", ["dog " * 30, "dog " * 31]))
    with pytest.raises(JudgeError, match=r"element 1\.2 has 31 tokens, more than half of the 61"):
        verdict(judge("ruled"), one, "A man walks along the street.")


# --- batches -----------------------------------------------------------------------------------

TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=20).map(" ".join)


@pytest.mark.parametrize("kind", ["deberta", "modernbert", "roberta"])
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=2, max_size=9))
def test_batched_logits_are_those_of_single_pairs(
    judge: Judges, kind: str, pairs: list[tuple[str, str]]
) -> None:
    encoder = judge(kind)._encoder
    inputs = [dict(encoder.tokenizer(*pair)) for pair in pairs]
    alone = np.concatenate([encoder.logits([one]) for one in inputs])
    assert np.abs(encoder.logits(inputs) - alone).max() < 1e-4


@pytest.mark.parametrize("kind", ["deberta", "modernbert", "roberta"])
def test_other_pairs_have_other_logits(judge: Judges, kind: str) -> None:
    encoder = judge(kind)._encoder
    texts = [("a man walks", "a dog"), ("a dog", "a man walks"), ("the river", "a red hat")]
    rows = encoder.logits([dict(encoder.tokenizer(*pair)) for pair in texts])
    assert np.abs(rows[0] - rows[1]).max() > 1e-3
    assert np.abs(rows[0] - rows[2]).max() > 1e-3
    # RoBERTa's positions begin after the number of its padding token.
    assert encoder.limit == {"roberta": 65}.get(kind, 64)


def _full(checkpoint: Path, most: int) -> tuple[CrossEncoder, list[str], list[tuple[int, int]]]:
    """Return a model that runs out of memory above some tokens, its notices and its batches."""
    notices: list[str] = []
    sizes: list[tuple[int, int]] = []
    encoder = CrossEncoder(str(checkpoint), device="cpu", dtype="float32", on_notice=notices.append)
    encoder._load()
    genuine = encoder._model

    def call(**given: Any) -> Any:
        sizes.append(tuple(given["input_ids"].shape))
        if given["input_ids"].numel() > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return genuine(**given)

    encoder._model = call
    return encoder, notices, sizes


def test_batches_shrink_when_memory_runs_out(judge: Judges, checkpoint: Checkpoint) -> None:
    encoder, notices, sizes = _full(checkpoint("deberta"), 100)
    inputs = [dict(TOKENIZER("a man walks " * n, "a dog")) for n in range(1, 9)]
    expected = judge("deberta")._encoder.logits(inputs)
    assert np.abs(encoder.logits(inputs) - expected).max() < 1e-4
    assert len(notices) >= 2
    assert all("Memory ran out: deb" in notice for notice in notices)
    # Later batches begin with the size that fits.
    sizes.clear()
    encoder.logits(inputs)
    assert all(rows * length <= 100 for rows, length in sizes)


def test_one_pair_that_does_not_fit_leaves_the_caption_unscored(checkpoint: Checkpoint) -> None:
    encoder, _, _ = _full(checkpoint("deberta"), 4)
    with pytest.raises(JudgeError, match=r"memory runs out on cpu with \d+ tokens alone"):
        verdict(NLIJudge(encoder), MAN, "A man walks along the street.")


def test_a_model_that_fails_again_and_again_stops_the_run(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = CrossEncoder(str(checkpoint("deberta")), device="cpu", dtype="float32")

    def fails(_: Any) -> Any:
        raise RuntimeError("CUDA error at 0x7f\nlong story")

    monkeypatch.setattr(encoder, "logits", fails)
    judge = NLIJudge(encoder)
    for _ in range(7):
        with pytest.raises(JudgeError, match="the model failed: RuntimeError"):
            verdict(judge, MAN, "A man walks along the street.")
    with pytest.raises(ModelDown, match="CUDA error at 0x7f long story, as on 7 captions before"):
        verdict(judge, MAN, "A man walks along the street.")


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["deberta", "modernbert"])
def test_a_gpu_gives_the_logits_of_the_processor(judge: Judges, kind: str) -> None:
    inputs = [dict(TOKENIZER("a man walks " * n, "a dog runs")) for n in range(1, 9)]
    rows = [judge(kind, device=name)._encoder.logits(inputs) for name in ("cpu", "cuda")]
    assert np.abs(rows[0] - rows[1]).max() < 1e-2
    assert judge(kind, device="cuda", dtype="auto")._encoder.precision == "bfloat16"
