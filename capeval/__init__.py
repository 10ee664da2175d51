"""capeval measures how well video-language models describe dense, dynamic video.

>>> import capeval
>>> scores = capeval.judge({"sample_01": ""}, "sample", judge="lexical")
>>> scores.overall.all.f1.value
0.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capeval.version import __version__

if TYPE_CHECKING:
    from capeval.api.correlating import correlate, correlate_async
    from capeval.api.generating import generate, generate_async
    from capeval.api.judging import judge, judge_async
    from capeval.api.options import GenerateOptions, JudgeOptions
    from capeval.api.scoring import score, score_async
    from capeval.captioners.plan import Generation
    from capeval.correlation.result import Correlations
    from capeval.schema import Annotation, Caption, Judgment
    from capeval.scoring import Scores

__all__ = [
    "Annotation",
    "Caption",
    "Correlations",
    "GenerateOptions",
    "Generation",
    "JudgeOptions",
    "Judgment",
    "Scores",
    "__version__",
    "correlate",
    "correlate_async",
    "generate",
    "generate_async",
    "judge",
    "judge_async",
    "score",
    "score_async",
]

_HOMES = {
    "correlate": "capeval.api.correlating",
    "correlate_async": "capeval.api.correlating",
    "Correlations": "capeval.correlation.result",
    "generate": "capeval.api.generating",
    "generate_async": "capeval.api.generating",
    "GenerateOptions": "capeval.api.options",
    "Generation": "capeval.captioners.plan",
    "JudgeOptions": "capeval.api.options",
    "judge": "capeval.api.judging",
    "judge_async": "capeval.api.judging",
    "score": "capeval.api.scoring",
    "score_async": "capeval.api.scoring",
    "Annotation": "capeval.schema",
    "Caption": "capeval.schema",
    "Judgment": "capeval.schema",
    "Scores": "capeval.scoring",
}


def __getattr__(name: str) -> Any:
    # Names load when they are first used, so that `capeval --help` need not wait for numpy.
    if name not in _HOMES:
        raise AttributeError(f"module 'capeval' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
