"""Judges in this process: the registry of `--judge NAME`, and the checks on what they return.

Chat models are not registered: any name that is not in the registry is a model's name. The judge
`nli` takes the name of its model after a colon.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from capeval.errors import BudgetReached, EndpointDown, EndpointRefused, JudgeError, UsageError
from capeval.judging.protocol import Judge, PreparedJudge, Tally
from capeval.llm.redact import public_url
from capeval.plugins import Registry, blaming
from capeval.runs.threads import Threads
from capeval.schema import Annotation, Scored, Usage, Verdict, flaw_of
from capeval.text import complaint, describe, one_line, raised_at, shown, storable

LEXICAL, NLI = "lexical", "nli"


JUDGES: Registry[Callable[..., Judge | PreparedJudge]] = Registry(
    group="capeval.judges",
    noun="judge",
    packaged={
        LEXICAL: "capeval.judging.lexical:LexicalJudge",
        NLI: "capeval.judging.nli:open_nli",
    },
    check=lambda found: (
        None
        if callable(found)
        else "its entry point must be a class or a function that returns a judge without "
        f"arguments, not {type(found).__name__}"
    ),
)


def is_registered(judge: object) -> bool:
    """Return whether this names a registered judge, such as nli:MODEL."""
    return isinstance(judge, str) and (judge in JUDGES or runs_model(judge))


def runs_model(judge: object) -> bool:
    """Return whether this names the judge that runs a model in this process."""
    return isinstance(judge, str) and judge.partition(":")[0] == NLI


def load_judge(name: str, **options: Any) -> PreparedJudge:
    """Return the registered judge of this name; raises `UsageError`.

    `options` are those of `capeval.judging.nli.open_nli`; no other judge has any.
    """
    if runs_model(name):
        _, colon, model = name.partition(":")
        if colon and not model:
            raise UsageError(f"--judge {shown(name)}: name a model after the colon, or write {NLI}")
        return prepare_judge(JUDGES.load(NLI)(model or None, **options), shown(name))
    make = JUDGES.load(name)

    def refused(error: BaseException) -> UsageError:
        return UsageError(f"the judge {shown(name)} cannot be loaded: {_described(error)}")

    with blaming(refused, passing=()):
        judge = make()
    return prepare_judge(judge, shown(name), trusted=name in JUDGES.packaged)


def prepare_judge(judge: object, label: str = "", *, trusted: bool = False) -> PreparedJudge:
    """Return an object with the attributes of `Judge` as the pipeline runs it; raises `UsageError`.

    `label` names it in messages. A trusted judge is quick, deterministic and tested with this
    package: it runs in the event loop, and its verdicts are not checked again.
    """
    what = f"the judge {label or type(judge).__name__}"
    with blaming(lambda error: UsageError(f"{what} cannot be used: {_described(error)}")):
        if isinstance(judge, PreparedJudge):
            return judge
        if isinstance(judge, type):
            raise UsageError(
                f"{what} cannot be used: it is a class; pass an object, {judge.__name__}()"
            )
        if not callable(getattr(judge, "judge", None)):
            raise UsageError(f"{what} cannot be used: it has no method judge(annotation, caption)")
        names = [name for name in _Declared.model_fields if hasattr(judge, name)]
        try:
            declared = _Declared.model_validate({name: getattr(judge, name) for name in names})
            declared.base_url = declared.base_url and public_url(declared.base_url)
        except ValidationError as faults:
            field, message = complaint(faults)
            raise UsageError(f"{what} cannot be used: {field}: {message}") from None
        return _LocalJudge(judge, declared, trusted=trusted)  # type: ignore[arg-type]


def _whole(text: str) -> str:
    if storable(text) != text:
        raise ValueError("must have no unpaired surrogate")
    return text


_Text = Annotated[str, AfterValidator(_whole)]


class _Declared(BaseModel):
    model_config = ConfigDict(strict=True)

    name: _Text = Field(min_length=1)
    is_baseline: bool
    prompts: _Text | None = None
    base_url: _Text | None = None
    identity: tuple[_Text, ...] = Field(default=(), strict=False)
    concurrency: int = Field(default=1, ge=1)
    description: _Text = ""


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
        # As many as captions are judged at the same time.
        self._threads = Threads(self.concurrency)

    async def judge(
        self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
    ) -> Verdict:
        """Return the verdict; a failure affects only this caption."""
        if self._trusted:
            verdict: Verdict = self._judge(annotation, caption)
            return verdict
        own = Tally()
        given = {"repeat": repeat, "tally": own}
        call = partial(
            self._judge, annotation, caption, **{name: given[name] for name in self._keywords}
        )

        def failed(error: BaseException) -> JudgeError:
            return JudgeError(f"the judge {shown(self.name)} failed: {_described(error)}")

        try:
            with blaming(failed, passing=(EndpointRefused, EndpointDown, BudgetReached)):
                if inspect.iscoroutinefunction(self._judge):
                    found = await call()
                else:
                    found = await self._threads.run(call)
                    # A decorator may hide that the method is a coroutine function.
                    found = await found if inspect.isawaitable(found) else found
        finally:
            why = _count(own, tally)
        return self._checked(found, annotation, why)

    def _checked(self, found: object, annotation: Annotation, why: str | None) -> Verdict:
        what = f"the judge {shown(self.name)} returned an unusable verdict"
        with blaming(lambda error: JudgeError(f"{what}: {describe(error)}"), passing=()):
            try:
                if not isinstance(found, Verdict | Mapping):
                    raise TypeError(f"it is of type {type(found).__name__}, not Verdict")
                verdict = Verdict.model_validate(dict(found))
                whole = Scored(index=annotation.index, **dict(verdict))
                why = why or flaw_of(annotation, whole) or _other_flaw(verdict)
            except ValidationError as faults:
                why = ": ".join(complaint(faults))
            except (TypeError, ValueError) as error:
                why = str(error)
        if why:
            raise JudgeError(f"{what}: {why}")
        return verdict

    def close(self) -> None:
        """Let the threads end."""
        self._threads.close()


class _Counted(BaseModel):
    """What a judge may have counted on its tally."""

    stage: _Text
    usage: dict[_Text, Usage]
    models: frozenset[_Text]
    fingerprints: frozenset[_Text]
    left_off: frozenset[_Text]


def _count(own: Tally, tally: Tally) -> str | None:
    """Add what a judge counted in one call to a tally; return what is wrong with it."""
    try:
        with blaming(lambda error: TypeError(describe(error)), passing=()):
            usage = {stage: dict(counts) for stage, counts in own.usage.items()}
            counted = _Counted.model_validate({**vars(own), "usage": usage})
    except TypeError as error:
        return f"tally: {error}"
    except ValidationError as faults:
        return "tally: " + ": ".join(complaint(faults))
    tally.stage = one_line(counted.stage) or tally.stage
    for stage, counts in counted.usage.items():
        tally.add(stage, counts)
    tally.models |= counted.models
    tally.fingerprints |= counted.fingerprints
    tally.left_off |= counted.left_off
    return None


def _other_flaw(verdict: Verdict) -> str | None:
    numbers = [number for number in verdict.matches if number is not None]
    for earlier, later in pairwise(numbers):
        if later < earlier:
            return f"it matches reference event {later} after {earlier}; matches never decrease"
    if any(storable(text) != text for text in (*verdict.candidate_events, *verdict.notes)):
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


def _described(error: BaseException) -> str:
    return describe(error) + raised_at(error)
