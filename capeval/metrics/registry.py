"""The registry of metrics, `--metric NAME`, and the controls, which need no model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from capeval.config import Registry, blaming, config_file, read_config
from capeval.errors import InputError, UsageError
from capeval.language import word_count, words
from capeval.metrics.protocol import CaptionMetric, Context, Item, Metric, MetricOutput, Values
from capeval.text import described, nearest, shown

CONTROLS = ("unigram-f1", "length")
"""The default metrics: other metrics must exceed them to be worth their cost."""

METRICS: Registry[type[Metric]] = Registry(
    group="capeval.metrics",
    noun="metric",
    packaged={
        "unigram-f1": "capeval.metrics.registry:UnigramF1",
        "length": "capeval.metrics.registry:CaptionLength",
        "meteor": "capeval.metrics.meteor:Meteor",
        "bertscore": "capeval.metrics.bertscore:BERTScore",
        "clair": "capeval.metrics.clair:Clair",
        "autodq": "capeval.metrics.autodq:AutoDQ",
    },
    check=lambda found: (
        None
        if isinstance(found, type) and issubclass(found, Metric)
        else "its entry point must be a class derived from capeval.metrics.protocol.Metric"
    ),
)


def metric_kind(given: object) -> tuple[str, type[Metric]]:
    """Return the name and the class of a metric; raises `UsageError` if it is neither."""
    if isinstance(given, str):
        return given, METRICS.load(given)
    if not (isinstance(given, type) and issubclass(given, Metric)):
        raise UsageError(f"metric must be names or classes derived from Metric, not {shown(given)}")
    return given.name, given


def make_metric(name: str, kind: type[Metric], context: Context) -> Metric:
    """Return a metric made by its class; raises `UsageError` if it cannot be used."""

    def refused(error: BaseException) -> UsageError:
        return UsageError(f"the metric {shown(name)} cannot be used: {described(error)}")

    with blaming(refused):
        metric = kind(context)
    if metric.name != name:
        # Otherwise two metrics could share a file of details.
        raise UsageError(
            f"the metric {shown(name)} cannot be used: its class has the name {shown(metric.name)}"
        )
    return metric


def check_configuration() -> None:
    """Raise `InputError` if `[metrics]` of `capeval.toml` names no known metric."""
    for name in read_config(config_file(), "metrics"):
        if name not in METRICS:
            known = METRICS.names()
            what = f"is not a metric{nearest(name, known)}"
            raise InputError(what, file=config_file(), field=f"metrics.{name}")


def unigram_f1(candidate: Sequence[str], reference: Sequence[str]) -> float:
    """Return the F1 of the words of two texts, repeats included; 0 to 1.

    >>> unigram_f1(["a", "dog", "runs"], ["a", "dog"])
    0.8
    """
    shared = (Counter(candidate) & Counter(reference)).total()
    total = len(candidate) + len(reference)
    return 2 * shared / total if total else 0.0


class UnigramF1(CaptionMetric):
    """F1 of shared words; with several references the highest of them. An empty caption gets 0."""

    name = "unigram-f1"
    outputs = (MetricOutput("unigram-f1", control=True),)
    settings: Mapping[str, str] = {"version": "2", "words": "nfkc-casefold", "references": "max"}

    async def score_caption(self, item: Item) -> Values:
        candidate = words(item.caption)
        best = max(unigram_f1(candidate, words(text)) for text in item.references)
        return Values({self.name: best})


class CaptionLength(CaptionMetric):
    """The number of words of the caption."""

    name = "length"
    outputs = (MetricOutput("length", unit="words", control=True),)
    uses_references = False
    settings: Mapping[str, str] = {"version": "2", "words": "nfkc-casefold"}

    async def score_caption(self, item: Item) -> Values:
        return Values({self.name: float(word_count(item.caption))})
