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
    from capeval.api.comparing import compare, compare_async
    from capeval.api.correlating import correlate, correlate_async
    from capeval.api.generating import generate, generate_async
    from capeval.api.inspecting import inspect, inspect_async
    from capeval.api.judging import judge, judge_async
    from capeval.api.leaderboards import leaderboard, leaderboard_async
    from capeval.api.plotting import plot, plot_async
    from capeval.api.rating_files import rate_merge, rate_merge_async, rate_sheet, rate_sheet_async
    from capeval.api.reports import report, report_async
    from capeval.api.resources import cache_info, clear_cache, models, sample_frames
    from capeval.api.scoring import check_scores, check_scores_async, score, score_async
    from capeval.captioners.plan import Generation
    from capeval.correlation.result import Correlations
    from capeval.schema import Annotation, Caption, Judgment
    from capeval.scoring import Scores

__all__ = [
    "Annotation",
    "Caption",
    "Correlations",
    "Generation",
    "Judgment",
    "Scores",
    "__version__",
    "cache_info",
    "check_scores",
    "check_scores_async",
    "clear_cache",
    "compare",
    "compare_async",
    "correlate",
    "correlate_async",
    "generate",
    "generate_async",
    "inspect",
    "inspect_async",
    "judge",
    "judge_async",
    "leaderboard",
    "leaderboard_async",
    "models",
    "plot",
    "plot_async",
    "rate_merge",
    "rate_merge_async",
    "rate_sheet",
    "rate_sheet_async",
    "report",
    "report_async",
    "sample_frames",
    "score",
    "score_async",
]

_HOMES = {
    "capeval.api.comparing": ("compare", "compare_async"),
    "capeval.api.correlating": ("correlate", "correlate_async"),
    "capeval.api.generating": ("generate", "generate_async"),
    "capeval.api.inspecting": ("inspect", "inspect_async"),
    "capeval.api.judging": ("judge", "judge_async"),
    "capeval.api.leaderboards": ("leaderboard", "leaderboard_async"),
    "capeval.api.plotting": ("plot", "plot_async"),
    "capeval.api.rating_files": (
        "rate_merge",
        "rate_merge_async",
        "rate_sheet",
        "rate_sheet_async",
    ),
    "capeval.api.reports": ("report", "report_async"),
    "capeval.api.resources": ("cache_info", "clear_cache", "models", "sample_frames"),
    "capeval.api.scoring": ("check_scores", "check_scores_async", "score", "score_async"),
    "capeval.captioners.plan": ("Generation",),
    "capeval.correlation.result": ("Correlations",),
    "capeval.schema": ("Annotation", "Caption", "Judgment"),
    "capeval.scoring": ("Scores",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Names load when they are first used, so that `capeval --help` need not wait for numpy.
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'capeval' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
