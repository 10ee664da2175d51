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
    """Return a complete `Captioner` from an object with a method `caption`; raises `UsageError`.

    `name` is the model's, by default the object's own; `settings` are recorded before its own.
    """
    if isinstance(own, _Adapted):
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
    return _Adapted(own, called, recorded)


class _Adapted:
    """Fills in what an object lacks, and runs a method that is not async in a thread."""

    def __init__(self, own: Any, name: str, settings: Mapping[str, Any]) -> None:
        self._own, self.name, self.settings = own, name, settings
        self.concurrency = int(getattr(own, "concurrency", 1))
        for what in ("mixes_frame_counts", "takes_system_prompts", "scores_continuations"):
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
    except SystemExit as end:  # as of a module that was made to be a program
        raise RuntimeError(f"it called sys.exit({end.code})") from end
