"""Graded runs sorted by what they show, and the temporal diagnostics of each model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from capeval.errors import InputError, UsageError
from capeval.mcq.breakdown import ORDERS
from capeval.mcq.frame_roles import Shown, run_shows
from capeval.mcq.graded_run import GradedAnswer, GradedRun
from capeval.mcq.questions import texts_of
from capeval.mcq.temporal import (
    MEASURES,
    ROLES,
    SHOWN,
    Diagnostic,
    Role,
    diagnose,
    mean_change,
)
from capeval.mcq.temporal_result import (
    AverageMeasure,
    MeasureResult,
    ModelTemporal,
    RoleAccuracy,
    RoleRun,
    TemporalAverage,
    TemporalBucket,
    TemporalResult,
)
from capeval.stats.values import Floats, Mask, Missing
from capeval.text import counted, listed, nearest

MAIN_WAYS: Mapping[str, str] = {
    "tuna": "task",
    "tomato": "reasoning_type",
    "video-mme": "task_type",
}
"""The tag that says what each benchmark's question asks for."""

_Runs = dict[Role, tuple[GradedRun, Shown]]
_Key = tuple[str, str]


def temporal_result(
    runs: Sequence[GradedRun],
    named: Mapping[Role, GradedRun],
    *,
    way: str | None = None,
    draws: int = 10_000,
    seed: int = 0,
) -> TemporalResult:
    """Return the diagnostics of every model whose runs are given.

    Parameters
    ----------
    runs : their roles are read from the frames of their responses
    named : runs whose roles the user has chosen
    way : the tag to group questions by; by default that of the benchmark

    Raises
    ------
    InputError, UsageError
        A role cannot be read or is taken twice, there is nothing to compare, or runs differ in
        their questions or in how they were graded.
    """
    given = [*named.values(), *runs]
    benchmarks = dict.fromkeys(run.benchmark for run in given)
    if len(benchmarks) > 1:
        raise InputError(f"the runs are of several benchmarks: {listed(benchmarks)}")
    (benchmark,) = benchmarks or ("",)
    models = _by_model(runs, named)
    _refuse_different_models(models)
    used = way or MAIN_WAYS.get(benchmark)
    notes: list[str] = []
    found = tuple(
        _of_model(model, roles, used, way is not None, draws, seed, notes)
        for model, roles in models.items()
    )
    return TemporalResult(
        benchmark=benchmark,
        way=used if any(one.by for one in found) else None,
        models=found,
        average=_average(found) if len(found) > 1 else None,
        resamples=draws,
        seed=seed,
        notes=tuple(dict.fromkeys(notes)),
    )


def _by_model(runs: Sequence[GradedRun], named: Mapping[Role, GradedRun]) -> dict[str, _Runs]:
    models: dict[str | None, _Runs] = {}
    for role, run in named.items():
        shows = run_shows(run)
        label = shows.label if shows else SHOWN[role]
        models.setdefault(run.model, {})[role] = (run, Shown(role, label))
    chosen = {run.path.resolve() for run in named.values()}
    for run in runs:
        if run.path.resolve() in chosen:
            continue
        shows = run_shows(run)
        if shows is None:
            raise UsageError(
                f"{run.path}: its responses do not say which frames were shown; name it with "
                "--multi, --single, --picked, --shuffled or --blind"
            )
        roles = models.setdefault(run.model, {})
        if shows.role in roles:
            other, known = roles[shows.role]
            raise UsageError(
                f"{other.path} ({known.label}) and {run.path} ({shows.label}) both show "
                f"{SHOWN[shows.role]}; give one of them, or name it with --{shows.role} alone"
            )
        roles[shows.role] = (run, shows)
    if len(models) > 1 and None in models:
        unnamed = listed(run.path for run, _ in models[None].values())
        raise InputError(
            f"these grades name no model, and others do: {unnamed}; grade them with --model"
        )
    return {
        model or next(iter(roles.values()))[0].name: {
            role: roles[role] for role in ROLES if role in roles
        }
        for model, roles in models.items()
    }


def _refuse_different_models(models: Mapping[str, _Runs]) -> None:
    if len(models) > 1 and not any(_can_compare(roles) for roles in models.values()):
        shown = listed(
            f"{run.path} ({model})" for model, roles in models.items() for run, _ in roles.values()
        )
        raise UsageError(f"the runs are of different models, and a measure is of one: {shown}")


def _can_compare(roles: _Runs) -> bool:
    return any(one.upper in roles and one.lower in roles for one in MEASURES)


def _of_model(
    model: str,
    roles: _Runs,
    way: str | None,
    asked: bool,
    draws: int,
    seed: int,
    notes: list[str],
) -> ModelTemporal:
    if not _can_compare(roles):
        shown = listed(f"{run.path} ({shows.label})" for run, shows in roles.values())
        raise UsageError(
            f"{model}: nothing can be compared with {shown}; it takes a run of many frames and one "
            "of a single frame or of shuffled frames, or runs of a hand-picked and a random frame"
        )
    answers = {role: _by_key(run) for role, (run, _) in roles.items()}
    questions = _questions(roles, answers)
    notes += _notes(model, roles, answers)
    correct = {role: _correct(of, questions) for role, of in answers.items()}
    # Sorted, so that the resamples do not depend on the order of the responses.
    videos = {name: at for at, name in enumerate(sorted({q.video for q in questions.values()}))}
    video = np.array([videos[one.video] for one in questions.values()], dtype=np.int64)
    groups = _groups([*questions.values()], way) if way else {}
    if asked and not groups:
        tags = sorted({name for one in questions.values() for name in one.tags})
        raise UsageError(
            f"--by {way}: no question has this tag; there are {listed(tags) or 'none'}"
            f"{nearest(str(way), tags)}"
        )
    masks = [np.ones(len(video), dtype=np.bool_), *groups.values()]
    found = diagnose(correct, video, masks, draws=draws, seed=seed)
    buckets = [
        TemporalBucket(
            accuracies={role: _accuracy(values[mask]) for role, values in correct.items()},
            measures={name: _measure(of) for name, of in one.items()},
        )
        for mask, one in zip(masks, found, strict=True)
    ]
    asked_everywhere = set.intersection(*({*of} for of in answers.values()))
    return ModelTemporal(
        model=model,
        runs={
            role: RoleRun(
                name=run.name, path=str(run.path), label=shows.label, signature=run.signature
            )
            for role, (run, shows) in roles.items()
        },
        overall=buckets[0],
        by=dict(zip(groups, buckets[1:], strict=True)),
        unpaired=len(questions) - len(asked_everywhere),
    )


def _by_key(run: GradedRun) -> dict[_Key, GradedAnswer]:
    return {(one.benchmark, one.id): one for one in run.answers}


def _questions(
    roles: _Runs, answers: Mapping[Role, Mapping[_Key, GradedAnswer]]
) -> dict[_Key, GradedAnswer]:
    """Return every question once; those of one id must be the same in all runs."""
    found: dict[_Key, GradedAnswer] = {}
    for role, of in answers.items():
        for key, one in of.items():
            known = found.setdefault(key, one)
            if (known.video, known.answer) != (one.video, one.answer):
                raise InputError(
                    f"question {one.id} has another video or answer than in the other runs",
                    file=roles[role][0].path,
                )
    return found


def _notes(
    model: str, roles: _Runs, answers: Mapping[Role, Mapping[_Key, GradedAnswer]]
) -> list[str]:
    notes = []
    strategies = dict.fromkeys(read_by(run) for run, _ in roles.values())
    if len(strategies) > 1:
        notes.append(
            f"{model}: the replies were read by different strategies ({listed(strategies)}); grade "
            "all runs with one --select"
        )
    if "multi" in answers and "shuffled" in answers:
        differ = sum(
            _frame_set(one) != _frame_set(answers["shuffled"][key])
            for key, one in answers["multi"].items()
            if key in answers["shuffled"]
        )
        if differ:
            notes.append(
                f"{model}: {counted(differ, 'question')} had other frames in the shuffled run than "
                "in the ordered one, so that more than the order differs"
            )
    if "single" in roles and not roles["single"][1].label.startswith("random"):
        notes.append(
            f"{model}: the single frame is the {roles['single'][1].label}; the TOMATO paper's "
            "measures are of a random one"
        )
    return notes


def read_by(run: GradedRun) -> str:
    """Return how the replies became answers: the strategy, and the benchmark's convention."""
    strategy, convention = run.settings.get("strategy"), run.settings.get("as")
    if strategy is None:
        return run.signature
    return f"{strategy}, as {convention}" if convention else str(strategy)


def _frame_set(one: GradedAnswer) -> object:
    indices = one.frames.get("indices")
    return sorted(map(str, indices)) if isinstance(indices, list) else None


def _correct(of: Mapping[_Key, GradedAnswer], questions: Iterable[_Key]) -> Floats:
    values = ((of[key].correct if key in of else None) for key in questions)
    return np.array([np.nan if v is None else float(v) for v in values], dtype=np.float64)


def _groups(questions: Sequence[GradedAnswer], way: str) -> dict[str, Mask]:
    places: dict[str, Mask] = {}
    for at, one in enumerate(questions):
        if way in one.tags:
            for name in texts_of(one.tags[way]):
                mask = places.setdefault(name, np.zeros(len(questions), dtype=np.bool_))
                mask[at] = True
    order = {name: at for at, name in enumerate(ORDERS.get(way, ()))}
    return {name: places[name] for name in sorted(places, key=lambda n: (order.get(n, 99), n))}


def _accuracy(correct: Floats) -> RoleAccuracy:
    scored = correct[~np.isnan(correct)]
    return RoleAccuracy(
        accuracy=float(scored.mean()) if len(scored) else None, questions=len(scored)
    )


def _measure(of: Diagnostic) -> MeasureResult:
    value, interval = of.value, of.interval
    return MeasureResult(
        value=None if isinstance(value, Missing) else value,
        reason=value.reason if isinstance(value, Missing) else None,
        low=None if isinstance(interval, Missing) else interval.low,
        high=None if isinstance(interval, Missing) else interval.high,
        interval_reason=interval.reason if isinstance(interval, Missing) else None,
        upper=of.upper,
        lower=of.lower,
        questions=of.questions,
        videos=of.videos,
    )


def _average(models: Sequence[ModelTemporal]) -> TemporalAverage:
    names = dict.fromkeys(name for one in models for name in one.by)
    return TemporalAverage(
        overall=_means([one.overall for one in models]),
        by={name: _means([one.by[name] for one in models if name in one.by]) for name in names},
    )


def _means(buckets: Sequence[TemporalBucket]) -> dict[str, AverageMeasure]:
    found = {}
    for measure in MEASURES:
        sides = [b.measures[measure.name] for b in buckets if measure.name in b.measures]
        if len(sides) < len(buckets):
            continue
        mean = mean_change([Missing(s.reason or "") if s.value is None else s.value for s in sides])
        found[measure.name] = AverageMeasure(
            value=None if isinstance(mean, Missing) else mean,
            reason=mean.reason if isinstance(mean, Missing) else None,
        )
    return found
