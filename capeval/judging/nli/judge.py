"""The judge `nli`: splits and matches as the lexical judge, and classifies with an NLI model.

No text is cut off. A premise that does not fit beside its hypothesis is read in windows, of which
each begins in the middle of the one before: whatever is shorter than half a window is whole in at
least one. `combined` says what the windows mean together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from capeval.errors import CapevalError, JudgeError, ModelDown
from capeval.judging.lexical import RULES, match_events, stemmer
from capeval.judging.protocol import PreparedJudge, Tally
from capeval.runs.concurrency import in_thread
from capeval.schema import Annotation, Relation, Verdict
from capeval.text import describe, storable

if TYPE_CHECKING:
    from capeval.judging.nli.cross_encoder import CrossEncoder, Encoded

VERSION: Final = "nli-1"
"""Of everything here that decides a verdict, besides the model and the lexical rules."""

_WINDOWS = "half overlap, any entailment"
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
        self._encoder = encoder
        self.name = f"nli:{encoder.called}"
        dtype, limit = encoder.precision, encoder.limit
        self.identity = (
            self.name,
            *(VERSION, f"weights {encoder.weights}", dtype),
            *(f"windows of {limit} tokens, {_WINDOWS}", RULES, stemmer()),
        )
        self._snapshot = f"{self.name}@{encoder.weights[:8]},{VERSION},{dtype},{limit} tokens"
        self.description = f"an NLI model, {dtype} on {encoder.device}"
        self._failures = 0

    async def judge(
        self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
    ) -> Verdict:
        """Return the verdict on a caption that is not empty; see `PreparedJudge.judge`."""
        del repeat  # nothing is random
        tally.models.add(self._snapshot)
        try:
            verdict = await in_thread(partial(self._judge, annotation, caption, tally))
        except CapevalError:
            raise
        except Exception as error:
            self._failures += 1
            message = f"the model failed: {describe(error)}"
            if self._failures < _FAILURES_BEFORE_STOPPING:
                raise JudgeError(message) from error
            raise ModelDown(f"{message}, as on {self._failures - 1} captions before") from error
        self._failures = 0
        return verdict

    def close(self) -> None:
        """Release the model, without waiting for a caption in progress."""
        self._encoder.close()

    def _judge(self, annotation: Annotation, caption: str, tally: Tally) -> Verdict:
        tally.stage = "split"
        pieces, matches = match_events(annotation, caption)
        notes: list[str] = []
        tally.stage = "classify"
        pairs: dict[str, list[Encoded]] = {}
        for place, event in enumerate(annotation.events):
            own = [one for one, match in zip(pieces, matches, strict=True) if match == place]
            for number, element in enumerate(event.visual_elements if own else ()):
                name = f"{place + 1}.{number + 1}"
                pairs[name] = encode(
                    self._encoder.tokenizer,
                    " ".join(own),
                    storable(element.content),
                    limit=self._encoder.limit,
                    element=name,
                )
        if several := [len(windows) for windows in pairs.values() if len(windows) > 1]:
            notes.append(
                f"classify: {len(several)} elements were compared with up to {max(several)} "
                "windows of a long text"
            )
        found = self._classify(pairs)
        return Verdict(
            candidate_events=tuple(pieces),
            matches=tuple(None if match is None else match + 1 for match in matches),
            relations=tuple(
                tuple(
                    found[f"{place + 1}.{number + 1}"] if place in matches else "lack"
                    for number in range(len(event.visual_elements))
                )
                for place, event in enumerate(annotation.events)
            ),
            notes=tuple(notes),
        )

    def _classify(self, pairs: dict[str, list[Encoded]]) -> dict[str, Relation]:
        windows = [window for pair in pairs.values() for window in pair]
        rows = iter(self._encoder.logits(windows) if windows else ())
        return {
            element: combined([self._relation(next(rows), element) for _ in pair])
            for element, pair in pairs.items()
        }

    def _relation(self, row: NDArray[np.float32], element: str) -> Relation:
        if not np.isfinite(row).all():
            raise JudgeError(
                f"the model's logits of element {element} are not finite numbers; dtype float32 "
                "may help"
            )
        by_relation = dict(zip(self._encoder.labels, row.tolist(), strict=True))
        return max(_TIES, key=by_relation.__getitem__)


def encode(
    tokenizer: Any, premise: str, hypothesis: str, *, limit: int, element: str
) -> list[Encoded]:
    """Return the windows in which a model that reads `limit` tokens reads a pair of texts.

    Raises `JudgeError` where the hypothesis, an `element`, takes more than half of them.
    """
    room = limit - tokenizer.num_special_tokens_to_add(pair=True)
    own = len(tokenizer(hypothesis, add_special_tokens=False, verbose=False)["input_ids"])
    if own > room // 2:
        raise JudgeError(
            f"element {element} has {own} tokens, more than half of the {room} that the model "
            "reads at a time"
        )
    read = tokenizer(
        premise,
        hypothesis,
        truncation="only_first",
        max_length=limit,
        stride=(room - own) // 2,
        return_overflowing_tokens=True,
        verbose=False,
    )
    names = [name for name in read if name != "overflow_to_sample_mapping"]
    return [{name: read[name][at] for name in names} for at in range(len(read["input_ids"]))]


def combined(windows: Sequence[Relation]) -> Relation:
    """Return the relation of an element to a premise from its relations to the windows.

    What one window states, the caption states: one entailment is enough. A contradiction counts
    only if no window entails the element: a part of a text can seem to contradict what another part
    states ("he sits down … he stands up"). Windows that say nothing about it do not count.

    >>> combined(["lack", "contradiction", "entailment"]), combined(["lack", "contradiction"])
    ('entailment', 'contradiction')
    """
    if "entailment" in windows:
        return "entailment"
    return "contradiction" if "contradiction" in windows else "lack"
