"""Captioner backends by name, and an adapter for objects that lack parts of `Captioner`.

`endpoint` and `transformers` are packaged. Other packages add theirs by the entry-point group
`capeval.captioners`, as docs/extending.md explains.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from capeval.captioners.protocol import Captioner, CaptionRequest, Outcomes, SimpleCaptioner
from capeval.errors import UsageError
from capeval.files.jsonl import as_stored
from capeval.plugins import Registry, blaming
from capeval.runs.concurrency import in_thread
from capeval.text import describe, shown

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


async def load_plugin(backend: str, name: str, arguments: Mapping[str, Any]) -> Captioner:
    """Return the captioner of another package, made with `arguments`; `name` is the model's."""
    where = f"the captioner {shown(backend)}"
    given = {key: value for key, value in arguments.items() if key not in _UNRECORDED}
    with blaming(lambda error: UsageError(f"{where} cannot be started: {describe(error)}")):
        # It may import and load a model for minutes: Ctrl-C works meanwhile.
        factory = await in_thread(partial(BACKENDS.load, backend))
        try:
            inspect.signature(factory).bind(**arguments)
        except TypeError as error:
            raise UsageError(f"{where} does not take these options: {error}") from None
        except ValueError:
            pass  # an extension module: it has no signature to check
        made = await _call(factory, **arguments)
    return as_captioner(made, name=name, settings={"backend": backend, **given})


# The device and the speed of a model do not affect what it writes.
_UNRECORDED = ("device", "batch_size")


def as_captioner(
    own: Captioner | SimpleCaptioner,
    *,
    name: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Captioner:
    """Return a whole `Captioner` from an object with a method `caption`; raises `UsageError`.

    `name` is the model's, by default the object's own; `settings` are recorded before its own.
    """
    what = f"a {type(own).__name__} is not a captioner"
    with blaming(lambda error: UsageError(f"{what}: {describe(error)}")):
        if isinstance(own, _Adapted):
            return own
        called = getattr(own, "name", None) if name is None else name
        if not callable(getattr(own, "caption", None)):
            raise UsageError(f"{what}: it has no method caption")
        if not isinstance(called, str) or not called.strip() or not called.isprintable():
            raise UsageError(f"{what}: give it a name of printable characters")
        every = {**(settings or {}), **getattr(own, "settings", {})}
        try:
            # Copied: they must not change during a run.
            recorded = as_stored(every)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{called}: its settings are not JSON values: {error}") from None
        adapted = _Adapted(own, str.__str__(called), recorded)
        _ = adapted.batch_size, adapted.concurrency  # refused here if they are no numbers
        return adapted


class _Adapted:
    """Fills in what an object lacks, and runs a method that is not async in a thread."""

    def __init__(self, own: Any, name: str, settings: Mapping[str, Any]) -> None:
        self._own, self.name, self.settings = own, name, settings

    @property
    def batch_size(self) -> int:
        return self._number("batch_size")

    @property
    def concurrency(self) -> int:
        return self._number("concurrency")

    @property
    def mixes_frame_counts(self) -> bool:
        return bool(getattr(self._own, "mixes_frame_counts", False))

    @property
    def takes_system_prompts(self) -> bool:
        return bool(getattr(self._own, "takes_system_prompts", False))

    @property
    def scores_continuations(self) -> bool:
        return bool(getattr(self._own, "scores_continuations", False))

    def _number(self, member: str) -> int:
        what = f"{self.name}: its {member} is not a whole number"
        with blaming(lambda error: UsageError(f"{what}: {describe(error)}")):
            return max(1, int(getattr(self._own, member, 1)))

    async def caption(self, requests: Sequence[CaptionRequest]) -> Outcomes:
        outcomes: Outcomes
        outcomes = await _call(self._own.caption, requests)
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
    except SystemExit as end:
        raise RuntimeError(f"it called sys.exit({end.code})") from end
