"""Captions from a model in this process, in batches that adapt to the free memory."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from capeval.captioners.catalogue import ModelEntry, OpenCaptioner
from capeval.captioners.options import CaptionerOptions
from capeval.captioners.pipeline import CUT_OFF
from capeval.captioners.protocol import Captioned, CaptionRequest, LoadedModel, Outcome, Uncaptioned
from capeval.local_models import free_memory, is_out_of_memory, release, require_packages
from capeval.runs.concurrency import in_thread
from capeval.schema import Usage
from capeval.text import one_line

if TYPE_CHECKING:
    import torch

Score = tuple[float, int]
"""A summed negative log-likelihood in nats, and the number of tokens."""

_NEEDED = ("torch", "torchvision", "transformers", "accelerate", "PIL")
# A batch that runs out of memory is repeated: a larger one would lose more work.
_MOST = 64
# Batches without a failure after which a larger one is tried again: it costs a batch if it fails.
_PATIENCE = 16


class BatchSize:
    """A batch size that halves when memory runs out and, when automatic, doubles until it does.

    An automatic one begins with a single video; where running out of memory would end the process
    (without `grows`) it stays there. After a failure it doubles only with every sixteenth success.

    >>> size = BatchSize("auto")
    >>> size.done(1); size.done(2); size.value
    4
    >>> size.failed(4); size.done(2); size.value
    2
    """

    def __init__(self, wanted: int | Literal["auto"], *, grows: bool = True) -> None:
        self._most = wanted if wanted != "auto" else _MOST if grows else 1
        self._successes, self._has_failed = 0, False
        self.value = 1 if wanted == "auto" else wanted

    def done(self, videos: int) -> None:
        self._successes += 1
        if videos >= self.value and not (self._has_failed and self._successes % _PATIENCE):
            self.value = min(2 * self.value, self._most)

    def failed(self, videos: int) -> None:
        self._successes, self._has_failed = 0, True
        self.value = max(1, videos // 2)


class TransformersCaptioner:
    """A video-language model of transformers; it samples above temperature 0.

    In bfloat16 a caption can depend on its batch, so each records it. When memory runs out the
    batch is halved, down to one video, which is then left uncaptioned.
    """

    # The frames of one batch are prepared while the model works on another.
    concurrency = 2
    takes_system_prompts = True
    scores_continuations = True

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        name: str,
        batch_size: int | Literal["auto"] = "auto",
        seed: int = 0,
    ) -> None:
        self._loaded, self.name, self._seed = loaded, name, seed
        self._size = BatchSize(batch_size, grows=loaded.device.type == "cuda")
        self._scorer: ContinuationScorer | None = None
        # Neither a processor nor a model is safe to use from two threads.
        self._preparing, self._generating = threading.Lock(), threading.Lock()

    @property
    def settings(self) -> Mapping[str, Any]:
        """All settings that affect a caption, except frames and prompt; not the batch size."""
        return {
            "backend": "transformers",
            "revision": self._loaded.revision,
            **self._loaded.settings,
            **({"seed": self._seed} if self._loaded.generation.do_sample else {}),
        }

    @property
    def batch_size(self) -> int:
        return self._size.value

    @property
    def mixes_frame_counts(self) -> bool:
        return self._loaded.mixes_frame_counts

    async def caption(self, requests: Sequence[CaptionRequest]) -> list[Outcome]:
        """Return one outcome per request, in order; stops after a token when it is cancelled."""
        stop = threading.Event()
        try:
            return await asyncio.to_thread(self._caption, requests, stop)
        except asyncio.CancelledError:
            stop.set()
            raise

    async def aclose(self) -> None:
        device = self._loaded.device
        del self._loaded
        release(device)

    def _caption(self, requests: Sequence[CaptionRequest], stop: threading.Event) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        # Longest first: if any run out of memory, these do.
        order = sorted(range(len(requests)), key=lambda at: -len(requests[at].frames))
        most = len(order)
        while order and not stop.is_set():
            now = order[: min(most, self._size.value)]
            batch = [requests[at] for at in now]
            done: list[Outcome] | None = None
            refused = ""
            try:
                done = self._generate(batch, stop)
            except _Refused as error:
                # One bad video must not fail the others.
                refused, most = str(error), 1
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                self._size.failed(len(now))
            if done is None:
                # Outside the handler, the exception no longer keeps the failed batch's tensors.
                release(self._loaded.device)
                if len(now) > 1:
                    continue
                reason = refused or _too_large(batch[0], self._loaded)
                done = [Uncaptioned(batch[0].index, reason)]
            outcomes.update(zip(now, done, strict=True))
            order = order[len(now) :]
        return [outcomes[at] for at in sorted(outcomes)]

    def _generate(self, requests: Sequence[CaptionRequest], stop: threading.Event) -> list[Outcome]:
        import torch

        loaded = self._loaded
        with self._preparing:
            _check(stop)
            began = time.perf_counter()
            try:
                batch = loaded.inputs(requests)
            except ValueError as error:
                raise _Refused(
                    f"the model's processor refuses it: {one_line(str(error), 200)}"
                ) from error
            prepared = time.perf_counter() - began
        tokens = int(batch["input_ids"].shape[1])
        if loaded.context is not None and tokens > loaded.context:
            # Beyond its context a model still writes text, but not about the video.
            frames = max(len(request.frames) for request in requests)
            raise _Refused(
                f"its {frames} frames and the prompt make {tokens} tokens, but "
                f"the model reads {loaded.context}: take fewer frames"
            )

        def stopped(input_ids: Any, *_: Any, **_more: Any) -> Any:
            return torch.full((len(input_ids),), stop.is_set(), device=input_ids.device)

        with self._generating, torch.inference_mode():
            _check(stop)
            began = time.perf_counter()
            if loaded.generation.do_sample:
                # Seeded by the first video: a resumed run samples batches of one alike.
                drawn = f"{self._seed} {requests[0].index}".encode()
                torch.manual_seed(int.from_bytes(hashlib.sha256(drawn).digest()[:7]))
            moved = _moved(batch, loaded)
            written = loaded.model.generate(
                **moved,
                generation_config=loaded.generation,
                stopping_criteria=[stopped],
                logits_processor=_penalty(loaded, tokens),
            )
            rows = written.tolist()
            scores = self._scores(requests, moved)
            self._size.done(len(requests))
            seconds = (prepared + time.perf_counter() - began) / len(requests)
        return [
            self._outcome(request, row, mask, seconds, len(requests), likelihoods)
            for request, row, mask, likelihoods in zip(
                requests, rows, moved["attention_mask"], scores, strict=True
            )
        ]

    def _scores(
        self, requests: Sequence[CaptionRequest], moved: Mapping[str, Any]
    ) -> list[tuple[Score, ...] | None]:
        if not any(request.continuations for request in requests):
            return [None] * len(requests)
        self._scorer = self._scorer or ContinuationScorer(self._loaded, self._preparing)
        found: list[tuple[Score, ...] | None] = []
        for request in requests:
            alone = moved
            if len(requests) > 1:
                with self._preparing:
                    alone = _moved(self._loaded.inputs([request]), self._loaded)
            found.append(self._scorer.score(alone, request.continuations))
        return found

    def _outcome(
        self,
        request: CaptionRequest,
        row: list[int],
        mask: Any,
        seconds: float,
        batch: int,
        likelihoods: tuple[Score, ...] | None,
    ) -> Captioned:
        import torch
        import transformers

        loaded = self._loaded
        asked, written = row[: len(mask)], row[len(mask) :]
        limit = int(loaded.generation.max_new_tokens)
        ends = frozenset(loaded.generation.eos_token_id)
        stopped = next((at for at, token in enumerate(written) if token in ends), None)
        # The end token was written too; what follows it is padding.
        tokens = written if stopped is None else written[: stopped + 1]
        text = written_text(loaded.tokenizer, asked, tokens)
        warnings = []
        if stopped is None and len(written) >= limit:
            warnings.append(CUT_OFF.format(limit))
        if not text:
            warnings.append("the model wrote nothing")
        return Captioned(
            index=request.index,
            text=text,
            usage=Usage(calls=1, input_tokens=int(mask.sum()), output_tokens=len(tokens)),
            seconds=seconds,
            model=self.name,
            revision=loaded.revision,
            warnings=tuple(warnings),
            details={
                "batch": batch,
                "device": loaded.placed,
                "transformers": transformers.__version__,
                "torch": str(torch.__version__),
            },
            likelihoods=likelihoods,
        )


def _load(entry: ModelEntry, options: CaptionerOptions) -> LoadedModel:
    require_packages(_NEEDED, "generate")
    from capeval.captioners.loading import load_model

    return load_model(entry, options)


@asynccontextmanager
async def open_transformers(
    entry: ModelEntry, options: CaptionerOptions
) -> AsyncIterator[OpenCaptioner]:
    """Load a catalogue entry's model for the block; code in its repository never runs."""
    # It may take minutes: Ctrl-C works meanwhile.
    loaded = await in_thread(partial(_load, entry, options))
    captioner = TransformersCaptioner(
        loaded, name=entry.name, batch_size=options.batch_size, seed=options.seed
    )
    try:
        yield OpenCaptioner(captioner, entry)
    finally:
        await captioner.aclose()


def _check(stop: threading.Event) -> None:
    if stop.is_set():
        raise _Stopped


class _Stopped(Exception):
    """The call was cancelled while it waited for the model."""


class _Refused(Exception):
    """The processor or the model cannot take a video or a prompt."""


# Where a tokenizer calls these special, decoding would drop them and keep what they enclose.
_MARKS = frozenset({"<think>", "</think>", "<|channel>", "<channel|>"})
_OPENED = "<think>"
# The opening mark and a newline, each perhaps of several tokens, end such a prompt.
_PROMPT_END = 8


def written_text(tokenizer: Any, prompt: Sequence[int], written: Sequence[int]) -> str:
    """Return the text of the tokens `written` after the tokens `prompt`, without special tokens.

    Marks of reasoning stay. Where the chat template opens the reasoning, its mark is put in front,
    so that unfinished reasoning is not taken for a caption.
    """
    special = {n: one.content for n, one in tokenizer.added_tokens_decoder.items() if one.special}
    kept = [token for token in written if special.get(token, _OPENED) in _MARKS]
    text: str = tokenizer.decode(kept, skip_special_tokens=False).strip()
    end: str = tokenizer.decode(list(prompt[-_PROMPT_END:]), skip_special_tokens=False)
    return f"{_OPENED}{text}" if end.rstrip().endswith(_OPENED) else text


def _penalty(loaded: LoadedModel, prompt: int) -> list[Any]:
    if loaded.penalty is None or loaded.penalty == 1:
        return []
    from transformers import RepetitionPenaltyLogitsProcessor

    return [RepetitionPenaltyLogitsProcessor(loaded.penalty, prompt_ignore_length=prompt)]


def _moved(batch: Mapping[str, Any], loaded: LoadedModel) -> dict[str, Any]:
    """Return a batch on the model's device; times, such as Qwen2.5-VL's, keep their precision."""
    return {
        name: value.to(
            loaded.device, dtype=loaded.dtype if name.startswith("pixel_values") else None
        )
        if hasattr(value, "to")
        else value
        for name, value in batch.items()
    }


def _too_large(request: CaptionRequest, loaded: LoadedModel) -> str:
    free = free_memory(loaded.device)
    room = "" if free is None else f", {free / 2**30:.1f} GiB were free"
    return f"out of memory with this video alone ({len(request.frames)} frames{room})"


# ---- Likelihoods of given replies ----------------------------------------------------------------

# Of one token: in half precision alone, neighbouring logits of 20 are 0.06 to 0.13 apart.
_EXACT, _ROUGH = 1e-3, 0.3


class ContinuationScorer:
    """Scores texts as replies to one request at a time.

    The prompt with its frames is read once, and all replies share its cache. The first request
    shows whether that works for a model: where it gives other numbers than reading the prompt
    again, the prompt is read again for each reply, which is slower.
    """

    def __init__(self, loaded: LoadedModel, tokenizing: threading.Lock | None = None) -> None:
        # `tokenizing` is held while the tokenizer is in use: it is not thread-safe.
        self._loaded, self._tokenizing = loaded, tokenizing or threading.Lock()
        self._shares_cache: bool | None = None

    def score(self, inputs: Mapping[str, Any], texts: Sequence[str]) -> tuple[Score, ...]:
        """Return the score of each text as the reply to a prompt.

        `inputs` is a batch of one request, on the model's device. A text's tokens are those of the
        text alone, without special tokens; its end is not scored.
        """
        tokenizer = self._loaded.tokenizer
        with self._tokenizing:
            rows = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        if not all(rows):  # without tokens, it would be the likeliest of all
            raise _Refused("the tokenizer has no tokens for an option")
        read = self._write(inputs, rows[0][:1])
        if self._shares_cache is None:
            self._shares_cache = self._can_share(inputs, read, max(rows, key=len))
        if self._shares_cache:
            return tuple(self._after(inputs, read, row) for row in rows)
        return tuple(_score(self._write(inputs, row).logits, row) for row in rows)

    def _can_share(self, inputs: Mapping[str, Any], read: Any, row: list[int]) -> bool:
        try:
            shared, _ = self._after(inputs, read, row)
        except (TypeError, ValueError, AttributeError, NotImplementedError, IndexError):
            # transformers' classes differ in their caches and in how they prepare a step; only
            # trying shows it.
            return False
        import torch

        alone, _ = _score(self._write(inputs, row).logits, row)
        tolerance = _EXACT if self._loaded.dtype == torch.float32 else _ROUGH
        return abs(shared - alone) <= tolerance * len(row)

    def _after(self, inputs: Mapping[str, Any], read: Any, row: list[int]) -> Score:
        import torch

        if len(row) == 1:
            return _score(read.logits, row)
        ids = torch.cat([inputs["input_ids"], inputs["input_ids"].new_tensor([row[:1]])], dim=1)
        later = self._write(
            {
                "input_ids": ids,
                "attention_mask": torch.ones_like(ids),
                "cache": copy.deepcopy(read.cache),
            },
            row[1:],
        )
        return _score([*read.logits, *later.logits], row)

    def _write(self, inputs: Mapping[str, Any], row: Sequence[int]) -> Any:
        import torch

        config = copy.deepcopy(self._loaded.generation)
        config.update(
            max_new_tokens=len(row),
            do_sample=False,
            repetition_penalty=None,
            return_dict_in_generate=True,
            output_logits=True,
        )
        start = int(inputs["input_ids"].shape[1])

        def forced(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            only = torch.full_like(scores, -float("inf"))
            only[:, row[input_ids.shape[1] - start]] = 0
            return only

        return self._loaded.model.generate(
            **inputs, generation_config=config, logits_processor=[forced]
        )


def _score(logits: Sequence[torch.Tensor], row: Sequence[int]) -> Score:
    logs = [one[0].float().log_softmax(-1) for one in logits]
    return float(-sum(log[token] for log, token in zip(logs, row, strict=True))), len(row)
