"""The registry of metrics: `--metric NAME`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from capeval.errors import UsageError
from capeval.files.jsonl import as_stored
from capeval.metrics.protocol import Context, Metric, Outcome, Output, Scored, Unscored
from capeval.plugins import Registry, blaming
from capeval.schema import Usage
from capeval.text import cut, describe, raised_at, shown

CONTROLS = ("unigram-f1", "length")
"""The metrics that are computed where none is named: they need nothing and cost nothing."""

METRICS: Registry[type[Metric]] = Registry(
    group="capeval.metrics",
    noun="metric",
    packaged={
        "unigram-f1": "capeval.metrics.controls:UnigramF1",
        "length": "capeval.metrics.controls:CaptionLength",
        "meteor": "capeval.metrics.meteor:Meteor",
        "bertscore": "capeval.metrics.bertscore:BERTScore",
        "clair": "capeval.metrics.clair:Clair",
        "autodq": "capeval.metrics.autodq:AutoDQ",
        "vdcscore": "capeval.metrics.vdcscore:VDCscore",
    },
    check=lambda found: (
        None
        if isinstance(found, type) and issubclass(found, Metric)
        else "its entry point must be a class derived from capeval.metrics.protocol.Metric"
    ),
)


def make_metric(name: str, context: Context) -> Metric:
    """Return the metric of a name; raises `UsageError` if it is unknown or cannot run."""
    kind = METRICS.load(name)

    def refused(error: BaseException) -> UsageError:
        return UsageError(f"the metric {shown(name)} cannot be used: {described(error)}")

    with blaming(refused):
        metric = kind(context)
        fault = _fault(metric, name)
    if fault:
        raise UsageError(f"the metric {shown(name)} cannot be used: {fault}")
    return metric


def _fault(metric: Metric, name: str) -> str | None:
    """Return what is wrong with the declarations of a metric that is registered under a name."""
    if metric.name != name:
        # The name is that of its file of details, which another metric may have.
        return f"its class has the name {_said(metric.name)}"
    declared: Any = metric.outputs
    if not declared or not all(isinstance(output, Output) for output in declared):
        return "its outputs must be Output objects, at least one"
    names = [output.name for output in metric.outputs]
    texts: list[Any] = [*names, *metric.settings, *metric.settings.values()]
    if len({*names}) < len(names) or not all(isinstance(one, str) for one in texts):
        return "its outputs need different names, and its settings must be strings"
    return None if all(name.isprintable() for name in names) else "a name is not printable"


def checked(metric: Metric, outcome: Any) -> Outcome:
    """Return an outcome, or why it cannot be used: a value is a finite number for each output."""
    fault = fault_of(metric, outcome) or _details_fault(outcome)
    return Unscored(f"the metric returned {fault}") if fault else outcome


def _details_fault(outcome: Any) -> str | None:
    try:
        as_stored(dict(outcome.details))
    except (TypeError, ValueError) as error:
        return f"details that cannot be stored as JSON ({cut(describe(error))})"
    return None


def fault_of(metric: Metric, outcome: Any) -> str | None:
    """Return what a metric cannot have returned in an outcome, details aside."""
    if not isinstance(outcome, Scored | Unscored):
        return f"{type(outcome).__name__}, not Scored or Unscored"
    if not isinstance(outcome.usage, Usage):
        return f"{_said(outcome.usage)} as usage"
    if isinstance(outcome, Unscored):
        reason: Any = outcome.reason
        return None if isinstance(reason, str) else f"{_said(reason)} as the reason"
    given: Any = (outcome.values, outcome.undefined)
    if not all(isinstance(one, Mapping) for one in given):
        return "values that are no mapping"
    values, undefined = given
    names = {output.name for output in metric.outputs}
    found = values.keys() | undefined.keys()
    if found != names or values.keys() & undefined.keys():
        odd = sorted(map(str, names ^ found)) or sorted(found)
        return f"no single value for {cut(', '.join(odd))}"
    for name, value in values.items():
        if not is_finite(value):
            return f"{_said(value)} for {name}, not a number"
    for name, reason in undefined.items():
        if not isinstance(reason, str):
            return f"{_said(reason)} as the reason for {name}"
    return None


def is_finite(value: Any) -> bool:
    """Return whether a value is a number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _said(value: Any) -> str:
    try:
        return cut(repr(value))
    except Exception:  # another package's object, or an endless number
        return f"a {type(value).__name__}"


def described(error: BaseException) -> str:
    """Return an exception of a plugin in words, with the place that raised it."""
    return describe(error) + raised_at(error)
