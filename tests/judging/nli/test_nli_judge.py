"""Verdicts of tiny models whose logits the tests control, and of random ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capeval.errors import JudgeError, ModelDown, UsageError
from capeval.judging.lexical import LexicalJudge
from capeval.judging.nli import NLIJudge, open_nli
from capeval.judging.nli.cross_encoder import CrossEncoder
from capeval.judging.nli.windows import encode
from capeval.judging.protocol import Tally
from capeval.schema import Annotation, Verdict
from tests.judging.nli.conftest import annotation
from tests.judging.nli.tiny_nli import _WORDS, edit_config, ruled

Judges = Callable[..., NLIJudge]
Checkpoint = Callable[[str], Path]
WORDS = [word for word in _WORDS if word.isalpha()]

STREET = annotation(
    ("A man walks along the street.", ["the man walks yes", "the street no", "a man"]),
    ("The dog jumps over the river.", ["a dog jumps yes", "a river no"]),
)


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
        texts.extend(encoder.checkpoint.tokenizer.decode(one["input_ids"]) for one in inputs)
        return genuine(inputs)

    monkeypatch.setattr(encoder, "logits", record)
    caption = "A man walks along the street, and then the man runs along the street. A dog jumps."
    found = verdict(
        judge("ruled"), annotation(("A man walks along the street.", ["a man"])), caption
    )
    assert found.matches == (1, 1, None)
    # The text of both pieces, in order; what is matched to no event is not compared.
    premise = "a man walks along the street , and then the man runs along the street ."
    assert texts == [f"[CLS] {premise} [SEP] a man [SEP]"]


SAMPLE_CAPTIONS = [
    "A man in a red jacket walks along the street. Then the dog jumps over the river!",
    "The camera pans left; a girl sits on a tree and then she looks away.",
    "1. A bear stands up. 2. A bear stands up. 3. A bear stands up. 4. yes",
    "\ud800 broken \x00 text, a man walks along the street",
    "犬が走る。男が歩く。",
    "a " * 5000,
]


def test_special_tokens_in_a_text_are_text(judge: Judges) -> None:
    checkpoint = judge("ruled")._encoder.checkpoint
    premise, element = "a man [SEP] yes [PAD] [CLS]", "the dog [SEP] no"
    (pair,) = encode(checkpoint.tokenizer, premise, [("1.1", element)], 64)
    (window,) = pair.windows
    ids = window["input_ids"]
    special = {checkpoint.tokenizer.sep_token_id: 2, checkpoint.tokenizer.cls_token_id: 1, 0: 0}
    assert {token: list(ids).count(token) for token in special} == special


@pytest.mark.parametrize("caption", SAMPLE_CAPTIONS, ids=range(len(SAMPLE_CAPTIONS)))
def test_splitting_and_matching_are_those_of_the_lexical_judge(judge: Judges, caption: str) -> None:
    found = verdict(judge("deberta"), STREET, caption)
    lexical = LexicalJudge().judge(STREET, caption)
    assert found.candidate_events == lexical.candidate_events
    assert found.matches == lexical.matches
    assert [note for note in found.notes if not note.startswith("classify")] == list(lexical.notes)


def test_what_a_long_caption_says_at_its_end_counts_and_windows_are_noted(judge: Judges) -> None:
    one = annotation(("A man walks along the street.", ["a man", "the street"]))
    long = "A man walks along the street " + "and the man walks along the street " * 30
    assert verdict(judge("ruled"), one, long).relations == (("lack", "lack"),)
    found = verdict(judge("ruled"), one, f"{long} yes")
    assert found.relations == (("entailment", "entailment"),)
    (note,) = found.notes
    assert note.startswith("classify: 2 elements were compared with up to 7 windows")
    assert verdict(judge("ruled"), one, f"{long} no").relations == (("contradiction",) * 2,)
    # A window that entails it decides, wherever it is.
    both = verdict(judge("ruled"), one, f"A man walks along the street no. {long} yes")
    assert both.relations == (("entailment", "entailment"),)


def test_an_element_that_is_too_long_leaves_the_caption_unscored(judge: Judges) -> None:
    one = annotation(("A man walks along the street.", ["a man", "dog " * 40]))
    with pytest.raises(JudgeError, match=r"element 1\.2 has 40 tokens, more than half of the 61"):
        verdict(judge("ruled"), one, "A man walks along the street.")


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
    one = annotation(("A man walks.", ["a man"]))
    assert verdict(equal, one, "A man walks.").relations == ((relation,),)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_are_no_verdict(tmp_path: Path, value: float) -> None:
    rules = {"yes": (9.0, 0.0, 0.0), "no": (0.0, 0.0, value)}
    broken = open_nli(str(ruled(tmp_path / "m", rules)), device="cpu", dtype="float32")
    one = annotation(("A man walks.", ["a man yes", "a man no"]))
    with pytest.raises(JudgeError, match=r"logits of element 1\.\d are not finite"):
        verdict(broken, one, "A man walks.")


# --- batches -----------------------------------------------------------------------------------

TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join)


@pytest.mark.parametrize("kind", ["deberta", "modernbert", "roberta"])
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS.map(lambda text: text[:60])), min_size=2, max_size=9))
def test_batched_logits_are_those_of_single_pairs(
    judge: Judges, kind: str, pairs: list[tuple[str, str]]
) -> None:
    encoder = judge(kind)._encoder
    checkpoint = encoder.checkpoint
    windows = [
        window
        for premise, hypothesis in pairs
        for pair in encode(checkpoint.tokenizer, premise, [("1.1", hypothesis)], checkpoint.limit)
        for window in pair.windows
    ]
    together = encoder.logits(windows)
    alone = np.concatenate([encoder.logits([window]) for window in windows])
    assert np.abs(together - alone).max() < 1e-4
    # Random weights give other logits to other pairs, or nothing would be shown.
    few = CrossEncoder(checkpoint, tokens=100)
    few._model, few._accepted = encoder._model, encoder._accepted
    assert np.abs(few.logits(windows) - alone).max() < 1e-4
    order = np.sort(alone, axis=1)
    clear = order[:, 2] - order[:, 1] > 1e-3
    assert (together.argmax(axis=1) == alone.argmax(axis=1))[clear].all()


def test_other_pairs_have_other_logits(judge: Judges) -> None:
    for kind in ("deberta", "modernbert", "roberta"):
        encoder = judge(kind)._encoder
        tokenizer = encoder.checkpoint.tokenizer
        texts = [("a man walks", "a dog"), ("a dog", "a man walks"), ("the river", "a red hat")]
        rows = encoder.logits([dict(tokenizer(*pair)) for pair in texts])
        assert np.abs(rows[0] - rows[1]).max() > 1e-3
        assert np.abs(rows[0] - rows[2]).max() > 1e-3


def test_bfloat16_is_near_float32_and_another_judge(judge: Judges) -> None:
    precise, fast = (judge("modernbert", dtype=name) for name in ("float32", "bfloat16"))
    windows = [dict(precise._encoder.checkpoint.tokenizer("a man walks along", "a man runs"))]
    rows = [each._encoder.logits(windows) for each in (precise, fast)]
    assert 0 < np.abs(rows[0] - rows[1]).max() < 0.5
    assert precise.identity != fast.identity
    assert precise.name == fast.name


class _Full:
    """A model that runs out of memory above some tokens."""

    def __init__(self, model: Any, most: int) -> None:
        self.model, self.most = model, most
        self.sizes: list[tuple[int, int]] = []

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        raise NotImplementedError

    def __call__(self, **given: Any) -> Any:
        self.sizes.append(tuple(given["input_ids"].shape))
        if given["input_ids"].numel() > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return self.model(**given)


def _full(judge: NLIJudge, most: int, notices: list[str]) -> tuple[CrossEncoder, _Full]:
    encoder = CrossEncoder(judge._encoder.checkpoint, on_notice=notices.append)
    model = _Full(encoder.checkpoint.load(), most)
    encoder._model, encoder._accepted = model, frozenset({"input_ids", "attention_mask"})
    return encoder, model


def test_batches_shrink_when_memory_runs_out_and_the_labels_stay(judge: Judges) -> None:
    notices: list[str] = []
    encoder, model = _full(judge("deberta"), 100, notices)
    tokenizer = encoder.checkpoint.tokenizer
    windows = [dict(tokenizer("a man walks " * n, "a dog")) for n in (1, 2, 3, 4, 5, 6, 7, 8)]
    rows = encoder.logits(windows)
    assert np.abs(rows - judge("deberta")._encoder.logits(windows)).max() < 1e-4
    assert len(notices) >= 2
    assert all("Memory ran out: deb" in notice for notice in notices)
    # Later batches begin with the size that fits.
    model.sizes.clear()
    encoder.logits(windows)
    assert all(rows * length <= 100 for rows, length in model.sizes)


def test_one_pair_that_does_not_fit_leaves_the_caption_unscored(judge: Judges) -> None:
    encoder, _ = _full(judge("deberta"), 4, [])
    other = NLIJudge(encoder)
    with pytest.raises(JudgeError, match=r"memory runs out on cpu with \d+ tokens alone"):
        verdict(other, STREET, "A man walks along the street.")


def test_a_model_that_fails_again_and_again_stops_the_run(
    judge: Judges, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = CrossEncoder(judge("deberta")._encoder.checkpoint)
    number = iter(range(100))

    def fails(_: Any) -> Any:
        raise RuntimeError(f"CUDA error at 0x7f{next(number):02x}\nlong story")

    monkeypatch.setattr(encoder, "logits", fails)
    other = NLIJudge(encoder)
    for _ in range(7):
        with pytest.raises(JudgeError, match="the model failed: RuntimeError"):
            verdict(other, STREET, "A man walks along the street.")
    with pytest.raises(ModelDown, match="failed on 8 captions in a row in the same way"):
        verdict(other, STREET, "A man walks along the street.")


# --- who judged --------------------------------------------------------------------------------


def test_the_identity_has_everything_that_decides_a_verdict(
    judge: Judges, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    first = judge("deberta")
    assert first.name == "nli:deberta"
    identity = "|".join(first.identity)
    for part in ("nli-1", "float32", "windows of 64 tokens", "lexical-1", "snowballstemmer 3"):
        assert part in identity
    # The same files elsewhere are the same weights; others under the same name are not.
    copy = tmp_path / "a" / "deberta"
    copy.parent.mkdir()
    for file in checkpoint("deberta").iterdir():
        copy.mkdir(exist_ok=True)
        (copy / file.name).write_bytes(file.read_bytes())
    assert open_nli(str(copy), device="cpu", dtype="float32").identity == first.identity
    edit_config(copy, id2label={"0": "entailment", "1": "neutral", "2": "contradiction"})
    assert open_nli(str(copy), device="cpu", dtype="float32").identity != first.identity


def test_weights_that_change_before_they_are_loaded_are_refused(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    copy = tmp_path / "m"
    copy.mkdir()
    for file in checkpoint("deberta").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    opened = open_nli(str(copy), device="cpu", dtype="float32")
    edit_config(copy, transformers_version="9")
    with pytest.raises(UsageError, match="was changed meanwhile"):
        verdict(opened, STREET, "A man walks along the street.")


def test_verdicts_are_the_same_again(judge: Judges, checkpoint: Checkpoint) -> None:
    caption = "A man walks along the street. " + "Then the dog jumps over the river again. " * 12
    first = verdict(judge("deberta"), STREET, caption)
    again = open_nli(str(checkpoint("deberta")), device="cpu", dtype="float32")
    assert verdict(again, STREET, caption) == first


def test_a_model_of_the_hub_is_known_by_its_commit(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--org--m"
    for at, commit in enumerate(("1" * 40, "2" * 40)):
        snapshot = repository / "snapshots" / commit
        snapshot.mkdir(parents=True)
        for file in checkpoint(("deberta", "modernbert")[at]).iterdir():
            (snapshot / file.name).write_bytes(file.read_bytes())
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("2" * 40)
    newest = open_nli("org/m", device="cpu", dtype="float32")
    older = open_nli("org/m", device="cpu", dtype="float32", revision="1" * 40)
    assert newest.name == older.name == "nli:org/m"
    assert f"weights {'2' * 40}" in newest.identity
    assert f"weights {'1' * 40}" in older.identity
    assert len(verdict(newest, STREET, "A man walks along the street.").relations) == 2
    assert older._encoder.checkpoint.load().config.model_type == "deberta-v2"


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["deberta", "modernbert"])
def test_a_gpu_gives_the_logits_of_the_processor(judge: Judges, kind: str) -> None:
    tokenizer = judge(kind)._encoder.checkpoint.tokenizer
    texts = [("a man walks " * n, "a dog runs") for n in range(1, 9)]
    windows = [dict(tokenizer(*pair)) for pair in texts]
    rows = [judge(kind, device=name)._encoder.logits(windows) for name in ("cpu", "cuda")]
    assert np.abs(rows[0] - rows[1]).max() < 1e-2
    assert judge(kind, device="cuda", dtype="auto")._encoder.checkpoint.precision == "bfloat16"
