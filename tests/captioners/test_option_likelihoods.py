"""Likelihoods of given replies, for every tiny model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from capeval.captioners import Captioned, CaptionRequest
from capeval.captioners.protocol import LoadedModel
from capeval.captioners.transformers_backend import ContinuationScorer
from tests.captioners import tiny
from tests.captioners.tiny import Load, Make, captioned

# One token and several, and one that begins as another does.
TEXTS = ("A", "1", "1 2", "red jacket", "camera pans to the left", "red jacket walks along")


def asked(index: str = "V1", *, frames: int = 4, seed: int = 0, **more: Any) -> CaptionRequest:
    made = tiny.request(index, seed=seed, frames=frames or 4, prompt="Describe the man. Answer A.")
    if not frames:
        made = replace(made, frames=made.frames[:0], indices=(), times=())
    return replace(made, kind="answer", continuations=TEXTS, **more)


def by_hand(model: LoadedModel, request: CaptionRequest) -> list[tuple[float, int]]:
    """One forward pass over prompt and reply; the logits before each token of it."""
    inputs = dict(model.inputs([request]))
    prompt = inputs["input_ids"].shape[1]
    found = []
    for text in request.continuations:
        reply = model.tokenizer(text, add_special_tokens=False)["input_ids"]
        whole = {**inputs, "input_ids": torch.tensor([[*inputs["input_ids"][0].tolist(), *reply]])}
        whole["attention_mask"] = torch.ones_like(whole["input_ids"])
        for name in ("token_type_ids", "mm_token_type_ids", "moe_mm_token_type_ids"):
            if name in inputs:
                zeros = torch.zeros((1, len(reply)), dtype=inputs[name].dtype)
                whole[name] = torch.cat([inputs[name], zeros], dim=1)
        with torch.inference_mode():
            logits = model.model(**whole).logits[0]
        logs = logits.float().log_softmax(-1)
        total = sum(-float(logs[prompt + n - 1, token]) for n, token in enumerate(reply))
        found.append((total, len(reply)))
    return found


@pytest.mark.parametrize("family", tiny.FAMILIES)
async def test_likelihoods_are_those_of_one_pass_over_the_whole_sequence(
    family: str, captioner: Make, load: Load
) -> None:
    for frames in (4, 0):
        request = asked(frames=frames)
        (outcome,) = await captioner(family).caption([request])
        assert isinstance(outcome, Captioned), outcome
        expected = by_hand(load(family), request)
        assert outcome.likelihoods is not None
        assert [n for _, n in outcome.likelihoods] == [n for _, n in expected]
        for (found, _), (total, tokens) in zip(outcome.likelihoods, expected, strict=True):
            assert found == pytest.approx(total, abs=2e-3 * tokens)
        assert {1} < {n for _, n in expected}


def test_a_cache_that_cannot_be_continued_costs_time_and_no_value(load: Load) -> None:
    model, request = load("qwen2-vl"), asked()

    class NoCache:
        """Stands before a model that continues no cache."""

        def generate(self, **arguments: Any) -> Any:
            if "cache" in arguments:
                raise ValueError("it has no such cache")
            return model.model.generate(**arguments)

    with torch.inference_mode():
        inputs = model.inputs([request])
        shared, alone = (
            ContinuationScorer(one).score(inputs, request.continuations)
            for one in (model, replace(model, model=NoCache()))
        )
    assert [n for _, n in shared] == [n for _, n in alone]
    assert [x for x, _ in shared] == pytest.approx([x for x, _ in alone], abs=5e-3)


async def test_likelihoods_are_the_same_in_a_batch(captioner: Make) -> None:
    requests = [asked(f"V{n}", seed=n, frames=2 + 2 * n) for n in range(3)]
    together = captioned(await captioner("qwen2-vl", batch_size=3).caption(requests))
    for request, outcome in zip(requests, together, strict=True):
        (alone,) = captioned(await captioner("qwen2-vl").caption([request]))
        assert outcome.details["batch"] == 3
        expected = [total for total, _ in alone.likelihoods or ()]
        assert [x for x, _ in outcome.likelihoods or ()] == pytest.approx(expected, abs=1e-3)
        assert expected


async def test_a_question_s_own_system_prompt_reaches_the_model(captioner: Make) -> None:
    for family in ("qwen2-vl", "llava-video"):
        found = []
        for system in (None, "You are a helpful assistant in a red jacket."):
            request = replace(asked(frames=2, system=system), continuations=TEXTS[:1])
            (outcome,) = await captioner(family).caption([request])
            assert isinstance(outcome, Captioned)
            found.append(outcome.likelihoods)
        assert found[0] != found[1], family
