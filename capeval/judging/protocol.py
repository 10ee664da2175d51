"""The protocol and the registry of judges, and the checks on what a user's judge returns.

Chat models are not registered: any name that is not in the registry is a model's name.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from capeval.config import Registry, blaming
from capeval.errors import BudgetReached, EndpointDown, EndpointRefused, JudgeError, UsageError
from capeval.llm.asker import Asked
from capeval.llm.client import EndpointOptions, ServeOptions
from capeval.llm.tracing import public_url
from capeval.options import (
    INPUTS,
    JUDGE,
    Effort,
    FilePath,
    ModelOptions,
    Rule,
    columns_option,
    declares,
    option,
    prompts_option,
    python_only,
    repeats_option,
    required,
)
from capeval.runs.concurrency import in_thread
from capeval.schema import Annotation, Provenance, Scored, Usage, Verdict, flaw_of
from capeval.text import complaint, described, shown

if TYPE_CHECKING:
    from capeval.runs.engine import Progress
    from capeval.schema import Caption


DEFAULT_PROMPTS = "tuna-cap-v1"
MODELS_OWN = "default"
"""The reasoning effort that sends nothing."""


@declares
class JudgingOptions(EndpointOptions):
    """The judge and its limits.

    Parameters
    ----------
    judge : A chat model, such as gpt-6-luna (docs/judging.md lists some); lexical, which only
        compares words; or a judge of an installed package. By default gpt-6-luna, or the server's
        only model; for the sample without a key, lexical.
    explain : Ask for reasons, which `capeval inspect` shows. This counts as another judge.
    reasoning : none, minimal, low, medium, high, xhigh, max, or default (the model's own). Each
        counts as another judge. By default the least, if known.
    progress : Receives the status after every video.
    """

    _: KW_ONLY
    judge: str | CaptionJudge | None = option(
        None,
        note="Or an object of your own.",
        method="judge",
        panel=JUDGE,
        metavar="NAME",
    )
    prompts: str | Path = prompts_option(DEFAULT_PROMPTS)
    explain: bool = option(False, panel=JUDGE)
    reasoning: Effort | None = option(None, panel=JUDGE, metavar="EFFORT")
    repeats: int | None = repeats_option()
    progress: Progress | None = python_only(None, method="update", shown=False)


@declares
class RunOptions(JudgingOptions, ServeOptions, ModelOptions):
    """The options of the runs or captions to judge.

    Parameters
    ----------
    annotations : Annotations: a file, 'tuna' or 'sample'. By default the run's own; a captions file
        needs it.
    run : The run that a captions file becomes. By default the file's name, without its ending.
    columns : Columns that are not called index, caption and model: index=clip,caption=text.
    replace_captions : Replace the run's captions with the file's; the old ones are kept.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        *ServeOptions.rules,
        Rule("serve", "judge", "name the judge whose server is to be started", needs=True),
    )
    annotations: str | Path | Sequence[Annotation | Mapping[str, Any]] | None = option(
        None, note="Or `Annotation`s, or dicts.", panel=INPUTS, metavar="FILE"
    )
    _: KW_ONLY
    run: str | None = option(
        None,
        note="Captions in memory are stored only if it is given.",
        panel=INPUTS,
        metavar="NAME",
    )
    columns: Mapping[str, str] | None = columns_option(panel=INPUTS)
    replace_captions: bool = option(False, panel=INPUTS)
    ignore_unknown: bool = option(False, "Skip captions without an annotation.", panel=INPUTS)


@declares
class _Captions:
    captions: str | Path | Mapping[str, str] | Sequence[Caption] = required(typed=False)


@declares
class JudgeOptions(RunOptions, _Captions):
    """The captions, the judge and its limits: see `help(capeval.judge)`.

    Parameters
    ----------
    captions : A captions file, a run's name or folder, `{index: caption}`, or `Caption`s.
    """


@declares
class JudgeCommandOptions(RunOptions):
    """The options of `capeval judge`."""

    targets: Sequence[FilePath] = option(
        (),
        "Runs, or captions files. By default all your own runs, or the sample.",
        positional=True,
        metavar="RUN",
    )


@dataclass
class Tally(Asked):
    """The usage of judging one caption, even if it fails; `stage` is the last stage begun."""

    stage: str = ""

    def resume(self, usage: Mapping[str, Usage], made: Provenance) -> None:
        self.usage = dict(usage)
        self.models, self.fingerprints = set(made.models), set(made.fingerprints)
        self.left_off = set(made.left_off)

    def provenance(self, judge: PreparedJudge) -> Provenance:
        return Provenance(
            judge=judge.name,
            prompts=judge.prompts,
            base_url=judge.base_url,
            models=tuple(sorted(self.models)),
            fingerprints=tuple(sorted(self.fingerprints)),
            left_off=tuple(sorted(self.left_off)),
            baseline=judge.is_baseline,
            endpoint=judge.endpoint,
            reasoning=judge.reasoning,
        )


Found = Verdict | Mapping[str, Any]


class CaptionJudge(Protocol):
    """The interface of a judge; `docs/extending.md` has an example.

    `name` is name and version, such as `my-judge-1`; it names the judge's folder in a run. Scores
    of a judge that `is_baseline` are not to be reported. `judge(annotation, caption)` returns a
    `Verdict` on a caption that is not empty. It may be a coroutine function; if it is not, it runs
    in a thread. It also receives the keywords `repeat` (from 0) and `tally` if it has parameters of
    these names.

    A judge may also have these attributes:

    - `prompts`: name and hash of its prompts, such as `my-prompts@1f3a9c`; by default None
    - `base_url`: the endpoint that it calls, as verdicts record it; by default None
    - `identity`: strings that two verdicts must share to count as one result, such as versions
      and settings; name and prompts are always part of it
    - `concurrency`: how many captions it judges at the same time; by default 1
    - `description`: words shown after its name as a run begins
    """

    @property
    def name(self) -> str: ...
    @property
    def is_baseline(self) -> bool: ...
    @property
    def judge(self) -> Callable[..., Found | Awaitable[Found]]: ...


class PreparedJudge(ABC):
    """A judge as the pipeline runs it, with all attributes; `CaptionJudge` explains them.

    `endpoint` is the name that is configured for its address, and `reasoning` the effort that a
    chat model is asked for; both are None without one.
    """

    name: str
    is_baseline: bool = False
    prompts: str | None = None
    base_url: str | None = None
    endpoint: str | None = None
    reasoning: str | None = None
    identity: tuple[str, ...]
    concurrency: int = 1
    description: str = ""

    @abstractmethod
    async def judge(
        self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
    ) -> Verdict:
        """Return the verdict on a caption that is not empty.

        `JudgeError`, `ReplyError`, `RequestRefused` and `RetriesExhausted` leave this caption
        unscored; `EndpointRefused`, `EndpointDown` and `BudgetReached` end the run.
        """

    def close(self) -> None:
        """Release the judge's resources, without waiting for a call in progress."""
        return

    @property
    def title(self) -> str:
        where = f" at {self.base_url}" if self.base_url else ""
        what = f" ({self.description})" if self.description else ""
        with_prompts = f", prompts {self.prompts}" if self.prompts else ""
        effort = f", reasoning {self.reasoning}" if self.reasoning else ""
        return f"{self.name}{where}{what}{with_prompts}{effort}"


LEXICAL = "lexical"

JUDGES: Registry[Callable[..., CaptionJudge | PreparedJudge]] = Registry(
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
    make = JUDGES.load(name)
    what = f"the judge {shown(name)} cannot be loaded"
    with blaming(lambda error: UsageError(f"{what}: {described(error)}"), passing=()):
        judge = make()
    return prepare_judge(judge, shown(name))


def prepare_judge(judge: object, label: str = "") -> PreparedJudge:
    """Return a `CaptionJudge` as the pipeline runs it; raises `UsageError`.

    `label` names it in messages.
    """
    if isinstance(judge, PreparedJudge):
        return judge
    what = f"the judge {label or type(judge).__name__} cannot be used"
    if isinstance(judge, type):
        raise UsageError(f"{what}: it is a class; pass an object, {judge.__name__}()")
    with blaming(lambda error: UsageError(f"{what}: {described(error)}")):
        method = getattr(judge, "judge", None)
        if not callable(method):
            raise UsageError(f"{what}: it has no method judge(annotation, caption)")
        names = [name for name in _Declared.model_fields if hasattr(judge, name)]
        try:
            declared = _Declared.model_validate({name: getattr(judge, name) for name in names})
        except ValidationError as faults:
            raise UsageError(f"{what}: {': '.join(complaint(faults))}") from None
        declared.base_url = declared.base_url and public_url(declared.base_url)
        return _LocalJudge(method, declared)


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
    def __init__(self, method: Callable[..., Any], declared: _Declared) -> None:
        self._judge = method
        vars(self).update(declared)
        own = (declared.name, *([declared.prompts] if declared.prompts else []))
        self.identity = (*own, *declared.identity)
        self.description = declared.description or ("baseline" if self.is_baseline else "")
        parameters = inspect.signature(method).parameters
        self._keywords = [name for name in ("repeat", "tally") if name in parameters]

    async def judge(
        self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
    ) -> Verdict:
        given = {"repeat": repeat, "tally": tally}
        keywords = {name: given[name] for name in self._keywords}
        call = partial(self._judge, annotation, caption, **keywords)
        what = f"the judge {shown(self.name)}"
        with blaming(
            lambda error: JudgeError(f"{what} failed: {described(error)}"),
            passing=(EndpointRefused, EndpointDown, BudgetReached),
        ):
            if inspect.iscoroutinefunction(self._judge):
                found = await call()
            else:
                found = await in_thread(call)
                # A decorator may hide that the method is a coroutine function.
                found = await found if inspect.isawaitable(found) else found
        try:
            return _checked(found, annotation)
        except Exception as error:
            why = ": ".join(complaint(error)) if isinstance(error, ValidationError) else error
            raise JudgeError(f"{what} returned an unusable verdict: {why}") from error


def _checked(found: object, annotation: Annotation) -> Verdict:
    if not isinstance(found, Verdict | Mapping):
        raise TypeError(f"it is of type {type(found).__name__}, not Verdict")
    verdict = Verdict.model_validate(dict(found))
    flaw = flaw_of(annotation, Scored(index=annotation.index, **dict(verdict)))
    if flaw:
        raise ValueError(flaw)
    for earlier, later in pairwise(number for number in verdict.matches if number is not None):
        if later < earlier:
            raise ValueError(
                f"it matches reference event {later} after {earlier}; matches never decrease"
            )
    return verdict
