"""The captioner protocol: frames and a prompt in, text and token counts out; captioners by name.

The same models answer questions: such a request has the kind "answer", can lack frames, and can ask
for likelihoods of texts. `endpoint` and `transformers` are packaged. Other packages add captioners
by the entry-point group `capeval.captioners`: see docs/extending.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, BeforeValidator, FiniteFloat, PositiveInt
from pydantic.dataclasses import dataclass as validated_dataclass

from capeval.config import Registry, blaming
from capeval.errors import UsageError
from capeval.files.jsonl import as_stored
from capeval.runs.concurrency import in_thread
from capeval.schema import Usage
from capeval.text import describe, shown, storable

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


@dataclass(frozen=True)
class CaptionRequest:
    """One video to caption, or one question to answer.

    `frames` is (n, height, width, 3) uint8 RGB, as decoded; `times` are seconds from the start;
    `fps` and `total_frames` are the video's own, `duration` its length in seconds.

    A reply of the kind "answer" is kept unchanged: with its reasoning, or empty. Such a request
    can lack frames. Its `system` prompt replaces the model's own, and the outcome has the
    likelihood of each text in `continuations`. Cached replies serve requests of the same `run`.
    """

    index: str
    prompt: str
    frames: NDArray[np.uint8]
    indices: tuple[int, ...]
    times: tuple[float, ...]
    fps: float
    total_frames: int
    duration: float
    kind: Literal["caption", "answer"] = "caption"
    system: str | None = None
    continuations: tuple[str, ...] = ()
    run: str = ""

    def timing(self) -> dict[str, Any]:
        """Return the frames' times in the form that transformers and vLLM use.

        Both take `frames_indices[n] / fps` as the time of frame n. Where the rate varies, or a
        short clip's frames are repeated, the indices are therefore milliseconds.
        """
        fps, total, indices = self.fps, self.total_frames, [int(index) for index in self.indices]
        off = max((abs(i / fps - t) for i, t in zip(indices, self.times, strict=True)), default=0.0)
        if off > 0.5 / fps or len(indices) > total:
            fps, total = 1000.0, round(1000 * self.duration)
            indices = [round(1000 * time) for time in self.times]
        return {
            "fps": fps,
            "duration": self.duration,
            "total_num_frames": max(total, len(indices)),
            "frames_indices": indices,
        }


_Text = Annotated[str, BeforeValidator(lambda v: storable(v) if isinstance(v, str) else v)]
"""Text without unpaired surrogates, which could be neither printed nor read again."""


@validated_dataclass(frozen=True)
class Captioned:
    """A caption or an answer, its token counts and its warnings.

    `likelihoods` has the summed negative log-likelihood (in nats) and the number of tokens of each
    of the request's continuations. `details` are further fields of the caption line, such as the
    image encoding. Raises pydantic's `ValidationError`, a `ValueError`, for values that cannot be
    stored.
    """

    index: str
    text: _Text
    usage: Usage
    seconds: FiniteFloat
    model: _Text
    revision: _Text | None = None
    warnings: tuple[_Text, ...] = ()
    details: Annotated[Mapping[str, Any], AfterValidator(as_stored)] = field(default_factory=dict)
    likelihoods: tuple[tuple[FiniteFloat, PositiveInt], ...] | None = None


@dataclass(frozen=True)
class Uncaptioned:
    """The reason why a video has no caption; never an empty caption."""

    index: str
    reason: str


Outcome = Captioned | Uncaptioned
Outcomes = Sequence[Outcome | str]
"""One for each request, in order; a string is a caption without token counts."""


class SimpleCaptioner(Protocol):
    """A minimal captioner: a method `caption` and, for the Python functions, a `name`.

    `settings`, `batch_size` and `concurrency` are used where they exist, as `Captioner` explains.
    So are `aclose` or `close`, which ends the captioner; `takes_system_prompts`, which is true
    where a request's own system prompt is used (else it is put in front of the prompt); and
    `scores_continuations`, where likelihoods are returned.
    """

    def caption(self, requests: Sequence[CaptionRequest], /) -> Outcomes | Awaitable[Outcomes]:
        """Return one caption per request, in order; a method that is not async runs in a thread."""


TRAITS = ("mixes_frame_counts", "takes_system_prompts", "scores_continuations")
"""The attributes by which a captioner says what else it does; false where it has none."""


class Captioner(Protocol):
    """Captions batches of videos.

    `name` names the model in the run and the caption lines. `settings` are all settings that affect
    a caption, except frames and prompt; they never change in a run. `caption` should get
    `batch_size` requests, with equal numbers of frames unless the object has a true
    `mixes_frame_counts`, and `concurrency` calls of it may run at a time.
    """

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def concurrency(self) -> int: ...

    async def caption(self, requests: Sequence[CaptionRequest], /) -> Outcomes:
        """Return one outcome per request, in order.

        `EndpointRefused`, `EndpointDown` and `BudgetReached` end the run.
        """


BatchMaker = Callable[[Sequence[CaptionRequest]], Mapping[str, Any]]
"""Makes one left-padded batch on the CPU; raises `ValueError` to refuse a video."""


@dataclass(frozen=True)
class LoadedModel:
    """A model of transformers in memory, with its inputs, decoding and settings.

    `context` is the number of tokens that it can read; `penalty` is a repetition penalty over the
    written tokens alone (one in `generation` also counts the prompt's). With `mixes_frame_counts`,
    a batch of `inputs` may have videos with different numbers of frames. `placed` names the devices
    that have a part of the model.
    """

    model: Any
    tokenizer: Any
    inputs: BatchMaker
    generation: Any
    device: torch.device
    dtype: torch.dtype
    revision: str | None
    settings: Mapping[str, Any]
    context: int | None = None
    penalty: float | None = None
    mixes_frame_counts: bool = False
    placed: str = "cpu"


# ---- The captioners by name ----------------------------------------------------------------------

BACKENDS: Registry[Callable[..., Any]] = Registry(
    group="capeval.captioners",
    noun="captioner",
    packaged={
        "endpoint": "capeval.captioners.endpoint:open_endpoint",
        "transformers": "capeval.captioners.transformers_backend:open_transformers",
    },
    check=lambda found: None if callable(found) else "it is neither a class nor a function",
)


def is_plugin(name: str) -> bool:
    """Return whether another package provides a captioner of this name; nothing is imported."""
    return name not in BACKENDS.packaged and name in BACKENDS


async def load_plugin(backend: str, name: str, arguments: Mapping[str, Any]) -> AdaptedCaptioner:
    """Return the captioner of another package, made with `arguments`; `name` is the model's."""
    where = f"the captioner {shown(backend)}"
    given = {key: value for key, value in arguments.items() if key not in IN_PROCESS}
    with blaming(lambda error: UsageError(f"{where} cannot be started: {describe(error)}")):
        # It may import and load a model for minutes: Ctrl-C works meanwhile.
        factory = await in_thread(partial(BACKENDS.load, backend))
        made = await _call(factory, **arguments)
        return as_captioner(made, name=name, settings={"backend": backend, **given})


IN_PROCESS = ("device", "batch_size")
"""Options of models in this process, which do not affect what a model writes."""


def as_captioner(
    own: Captioner | SimpleCaptioner,
    *,
    name: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> AdaptedCaptioner:
    """Return a complete `Captioner` from an object with a method `caption`; raises `UsageError`.

    `name` is the model's, by default the object's own; `settings` are recorded before its own.
    """
    if isinstance(own, AdaptedCaptioner):
        return own
    what = f"a {type(own).__name__} is not a captioner"
    called = getattr(own, "name", None) if name is None else name
    if not callable(getattr(own, "caption", None)):
        raise UsageError(f"{what}: it has no method caption")
    if not isinstance(called, str) or not called.strip() or not called.isprintable():
        raise UsageError(f"{what}: give it a name of printable characters")
    try:
        # Copied: they must not change during a run.
        recorded = as_stored({**(settings or {}), **getattr(own, "settings", {})})
    except (TypeError, ValueError) as error:
        raise UsageError(f"{called}: its settings are not JSON values: {error}") from None
    return AdaptedCaptioner(own, called, recorded)


class AdaptedCaptioner:
    """Fills in what an object lacks, and runs a method that is not async in a thread."""

    def __init__(self, own: Any, name: str, settings: Mapping[str, Any]) -> None:
        self._own, self.name, self.settings = own, name, settings
        self.concurrency = int(getattr(own, "concurrency", 1))
        for what in TRAITS:
            setattr(self, what, bool(getattr(own, what, False)))

    @property
    def batch_size(self) -> int:
        return int(getattr(self._own, "batch_size", 1))  # it may change as memory runs out

    async def caption(self, requests: Sequence[CaptionRequest]) -> Outcomes:
        outcomes: Outcomes = await _call(self._own.caption, requests)
        return outcomes

    async def aclose(self) -> None:
        close = getattr(self._own, "aclose", None) or getattr(self._own, "close", None)
        if close is not None:
            await _call(close)


async def _call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    try:
        if inspect.iscoroutinefunction(function):
            return await function(*arguments, **named)
        returned = await in_thread(partial(function, *arguments, **named))
        return await returned if inspect.isawaitable(returned) else returned
    except SystemExit as end:  # for example, a module written as a script
        raise RuntimeError(f"it called sys.exit({end.code})") from end
