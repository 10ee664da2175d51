"""The registry of metrics: `--metric NAME`."""

from __future__ import annotations

import math
from typing import Any

from capeval.errors import UsageError
from capeval.metrics.protocol import Context, Metric, Outcome, Output, Scored, Unscored
from capeval.plugins import Registry, blaming
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
        fault = _fault(metric)
    if fault:
        raise UsageError(f"the metric {shown(name)} cannot be used: {fault}")
    return metric


def _fault(metric: Metric) -> str | None:
    """Return what is wrong with the declarations of a metric."""
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
    if isinstance(outcome, Unscored):
        return outcome
    if not isinstance(outcome, Scored):
        return Unscored(f"the metric returned {type(outcome).__name__}, not Scored or Unscored")
    names = {output.name for output in metric.outputs}
    found = outcome.values.keys() | outcome.undefined.keys()
    if found != names or outcome.values.keys() & outcome.undefined.keys():
        odd = sorted(names ^ found) or sorted(found)
        return Unscored(f"the metric returned no single value for {cut(', '.join(odd))}")
    values: dict[str, Any] = dict(outcome.values)
    for name, value in values.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            return Unscored(f"the metric returned {cut(repr(value))} for {name}, not a number")
    return outcome


def described(error: BaseException) -> str:
    """Return an exception of a plugin in words, with the place that raised it."""
    return describe(error) + raised_at(error)
