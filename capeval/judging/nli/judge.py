"""The judge `nli`: splits and matches as the lexical judge, and classifies with an NLI model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from capeval.errors import CapevalError, JudgeError, ModelDown
from capeval.judging.lexical.matching import RULES, split_and_match, stemmer
from capeval.judging.lexical.reference import prepare
from capeval.judging.nli.windows import RULE, Pair, combined, encode
from capeval.judging.protocol import PreparedJudge, Tally
from capeval.runs.concurrency import Threads
from capeval.schema import Annotation, Relation, Verdict, lacking
from capeval.text import describe, one_line, storable

if TYPE_CHECKING:
    from capeval.judging.nli.cross_encoder import CrossEncoder

VERSION: Final = "nli-1"
"""Of everything here that decides a verdict, besides the model and the lexical rules."""

# Annotations in memory: several data sets of a thousand videos.
_CACHED = 4096
# A GPU whose context is lost fails every caption from then on; a bad caption fails alone.
_FAILURES_BEFORE_STOPPING = 8
# Equal logits leave it open: then nothing is claimed of the caption.
_TIES: Final[Sequence[Relation]] = ("lack", "contradiction", "entailment")


class NLIJudge(PreparedJudge):
    """Entailment, neutral and contradiction become entailment, lack and contradiction.

    The premise is the text of all candidate events that are matched to a reference event, in order;
    the hypothesis is one element. The elements of an event without a match are lacking.
    """

    def __init__(self, encoder: CrossEncoder) -> None:
        checkpoint = encoder.checkpoint
        self._encoder, self._labels = encoder, checkpoint.labels
        self.name = f"nli:{checkpoint.called}"
        dtype, limit = checkpoint.precision, checkpoint.limit
        self.identity = (
            self.name,
            *(VERSION, f"weights {checkpoint.weights}", dtype),
            *(f"windows of {limit} tokens, {RULE}", RULES, stemmer()),
        )
        self._snapshot = f"{self.name}@{checkpoint.weights[:8]},{VERSION},{dtype},{limit} tokens"
        self.description = f"an NLI model, {dtype} on {checkpoint.device}"
        self._prepare = lru_cache(_CACHED)(prepare)
        # A caption after the other: neither a model nor its tokenizer is safe in two threads.
        self._threads = Threads(1)
        self._failure, self._failures = "", 0

    async def judge(
        self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
    ) -> Verdict:
        """Return the verdict on a caption that is not empty; see `PreparedJudge.judge`."""
        del repeat  # nothing is random
        tally.models.add(self._snapshot)
        try:
            verdict = await self._threads.run(partial(self._judge, annotation, caption, tally))
        except CapevalError:
            raise
        except Exception as error:
            raise self._failed(error) from error
        self._failures = 0
        return verdict

    def close(self) -> None:
        """Release the model, without waiting for a caption in progress."""
        self._threads.close()
        self._encoder.close()

    def _judge(self, annotation: Annotation, caption: str, tally: Tally) -> Verdict:
        tally.stage = "split"
        pieces, _, matches, notes = split_and_match(caption, self._prepare(annotation))
        tally.stage = "classify"
        pairs: list[list[Pair]] = []
        for place, event in enumerate(annotation.events):
            own = [one for one, match in zip(pieces, matches, strict=True) if match == place]
            elements = [
                (f"{place + 1}.{number}", storable(element.content))
                for number, element in enumerate(event.visual_elements, start=1)
            ]
            pairs.append(self._encode(" ".join(own), elements) if own else [])
        several = sum(len(pair.windows) > 1 for event in pairs for pair in event)
        if several:
            most = max(len(pair.windows) for event in pairs for pair in event)
            notes.append(
                f"classify: {several} elements were compared with up to {most} windows of a long "
                "text"
            )
        return Verdict(
            candidate_events=tuple(pieces),
            matches=tuple(None if match is None else match + 1 for match in matches),
            relations=tuple(
                found or lacking(event)
                for found, event in zip(self._classify(pairs), annotation.events, strict=True)
            ),
            notes=tuple(notes),
        )

    def _encode(self, premise: str, elements: Sequence[tuple[str, str]]) -> list[Pair]:
        checkpoint = self._encoder.checkpoint
        return encode(checkpoint.tokenizer, premise, elements, checkpoint.limit)

    def _classify(self, events: Sequence[Sequence[Pair]]) -> list[tuple[Relation, ...]]:
        windows = [window for event in events for pair in event for window in pair.windows]
        rows = iter(self._encoder.logits(windows) if windows else ())
        return [
            tuple(
                combined([self._relation(next(rows), pair.place) for _ in pair.windows])
                for pair in event
            )
            for event in events
        ]

    def _relation(self, row: NDArray[np.float32], place: str) -> Relation:
        if not np.isfinite(row).all():
            raise JudgeError(
                f"the model's logits of element {place} are not finite numbers; --dtype float32 "
                "may help"
            )
        by_relation = dict(zip(self._labels, row.tolist(), strict=True))
        return max(_TIES, key=by_relation.__getitem__)

    def _failed(self, error: Exception) -> CapevalError:
        said = one_line(describe(error), 200)
        alike = re.sub(r"(0x)?[0-9a-f]*\d[0-9a-f]*", "N", said)
        self._failures = self._failures + 1 if alike == self._failure else 1
        self._failure = alike
        if self._failures < _FAILURES_BEFORE_STOPPING:
            return JudgeError(f"the model failed: {said}")
        return ModelDown(
            f"the model failed on {self._failures} captions in a row in the same way: {said}"
        )
