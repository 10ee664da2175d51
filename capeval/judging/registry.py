"""Judges in this process: the registry of `--judge NAME`, and the checks on what they return.

Chat models are not registered: any name that is not in the registry is a model's name.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from capeval.errors import BudgetReached, EndpointDown, EndpointRefused, JudgeError, UsageError
from capeval.judging.protocol import Judge, PreparedJudge, Tally
from capeval.judging.split_checks import clean
from capeval.llm import public_url
from capeval.plugins import Registry
from capeval.schema import Annotation, Scored, Verdict, flaw_of
from capeval.text import complaint, one_line, shown

LEXICAL = "lexical"


JUDGES: Registry[Callable[[], Judge]] = Registry(
    group="capeval.judges",
    noun="judge",
    packaged={LEXICAL: "capeval.judging.lexical:LexicalJudge"},
    check=lambda found: (
        None
        if callable(found)
        else "its entry point must be a class or a function that returns a judge without "
        f"arguments, not {type(found).__name__}"
    ),
)


def load_judge(name: str) -> PreparedJudge:
    """Return the registered judge of this name; raises `UsageError`."""
    make = JUDGES.load(name)
    try:
        judge = make()
    except Exception as error:
        # An exception of another package is reported as its fault, not as a bug in capeval.
        raise UsageError(
            f"the judge {shown(name)} cannot be loaded: {_described(error)}"
        ) from error
    return prepare_judge(judge, shown(name), trusted=name in JUDGES.packaged)


def prepare_judge(judge: object, label: str = "", *, trusted: bool = False) -> PreparedJudge:
    """Return an object with the attributes of `Judge` as the pipeline runs it; raises `UsageError`.

    `label` names it in messages. A trusted judge is quick, deterministic and tested with this
    package: it runs in the event loop, and its verdicts are not checked again.
    """
    if isinstance(judge, PreparedJudge):
        return judge
    what = f"the judge {label or type(judge).__name__}"
    if isinstance(judge, type):
        raise UsageError(
            f"{what} cannot be used: it is a class; pass an object, {judge.__name__}()"
        )
    if not callable(getattr(judge, "judge", None)):
        raise UsageError(f"{what} cannot be used: it has no method judge(annotation, caption)")
    try:
        declared = _Declared.model_validate(
            {name: getattr(judge, name) for name in _Declared.model_fields if hasattr(judge, name)}
        )
        declared.base_url = declared.base_url and public_url(declared.base_url)
    except ValidationError as faults:
        field, message = complaint(faults)
        raise UsageError(f"{what} cannot be used: {field}: {message}") from None
    return _LocalJudge(judge, declared, trusted=trusted)  # type: ignore[arg-type]


class _Declared(BaseModel):
    model_config = ConfigDict(strict=True)

    name: str = Field(min_length=1)
    is_baseline: bool
    prompts: str | None = None
    base_url: str | None = None
    identity: tuple[str, ...] = Field(default=(), strict=False)
    concurrency: int = Field(default=1, ge=1)
    description: str = ""


class _LocalJudge(PreparedJudge):
    def __init__(self, judge: Judge, declared: _Declared, *, trusted: bool) -> None:
        self._judge: Callable[..., Any] = judge.judge
        self._trusted = trusted
        self.name, self.is_baseline = declared.name, declared.is_baseline
        self.prompts, self.base_url = declared.prompts, declared.base_url
        own = (declared.name, *([declared.prompts] if declared.prompts else []))
        self.identity = (*own, *declared.identity)
        self.concurrency = declared.concurrency
        self.description = declared.description or ("baseline" if self.is_baseline else "")
        self._keywords = _keywords(self._judge)
        # Threads start when they are needed; as many as captions are judged at the same time.
        self._threads = ThreadPoolExecutor(self.concurrency, thread_name_prefix="capeval-judge")

    async def judge(
        self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
    ) -> Verdict:
        """Return the verdict; a failure affects only this caption."""
        given = {"repeat": repeat, "tally": tally}
        call = partial(
            self._judge, annotation, caption, **{name: given[name] for name in self._keywords}
        )
        if self._trusted:
            verdict: Verdict = call()
            return verdict
        try:
            if inspect.iscoroutinefunction(self._judge):
                found = await call()
            else:
                loop = asyncio.get_running_loop()
                found = await loop.run_in_executor(self._threads, _without_stop_iteration, call)
                # A decorator may hide that the method is a coroutine function.
                found = await found if inspect.isawaitable(found) else found
        except (EndpointRefused, EndpointDown, BudgetReached):
            raise
        except Exception as error:
            raise JudgeError(f"the judge {shown(self.name)} failed: {_described(error)}") from error
        return self._checked(found, annotation)

    def _checked(self, found: object, annotation: Annotation) -> Verdict:
        try:
            if not isinstance(found, Verdict | Mapping):
                raise TypeError(f"it is of type {type(found).__name__}, not Verdict")
            verdict = Verdict.model_validate(dict(found))
            whole = Scored(index=annotation.index, **dict(verdict))
            why = flaw_of(annotation, whole) or _other_flaw(verdict)
        except ValidationError as faults:
            why = ": ".join(complaint(faults))
        except (TypeError, ValueError) as error:
            why = str(error)
        if why:
            raise JudgeError(f"the judge {shown(self.name)} returned an unusable verdict: {why}")
        return verdict

    def close(self) -> None:
        """Release the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _other_flaw(verdict: Verdict) -> str | None:
    numbers = [number for number in verdict.matches if number is not None]
    for earlier, later in pairwise(numbers):
        if later < earlier:
            return f"it matches reference event {later} after {earlier}; matches never decrease"
    if any(clean(text) != text for text in (*verdict.candidate_events, *verdict.notes)):
        return "its text has an unpaired surrogate"
    return None


def _keywords(judge: Callable[..., Any]) -> tuple[str, ...]:
    """Return which of the optional keywords a judge's method takes."""
    try:
        parameters = inspect.signature(judge).parameters
    except (TypeError, ValueError):
        return ()
    every = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return tuple(name for name in ("repeat", "tally") if every or name in parameters)


def _without_stop_iteration(call: Callable[[], Any]) -> Any:
    # A future cannot carry a StopIteration: the caption would never be done.
    try:
        return call()
    except StopIteration as error:
        raise RuntimeError("StopIteration") from error


def _described(error: Exception) -> str:
    """Return an exception in one line, with the place in the code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return one_line(f"{type(error).__name__}: {error}", 200) + place
