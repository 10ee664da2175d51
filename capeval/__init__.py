"""capeval measures how well video-language models describe dense, dynamic video.

>>> import capeval
>>> scores = capeval.judge({"sample_01": ""}, "sample", judge="lexical")
>>> scores.overall.all.f1.value
0.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capeval.version import __version__ as __version__

if TYPE_CHECKING:
    # The aliases mark the names as exported; type checkers cannot read `__all__` below.
    from capeval.captioners.catalogue import models as models
    from capeval.captioners.generate import GenerateOptions as GenerateOptions
    from capeval.captioners.generate import Generation as Generation
    from capeval.captioners.generate import generate as generate
    from capeval.captioners.generate import generate_async as generate_async
    from capeval.captioners.sample_frames import sample_frames as sample_frames
    from capeval.comparing.compare import compare as compare
    from capeval.comparing.leaderboard import leaderboard as leaderboard
    from capeval.construct.annotator_exports import annotate_agree as annotate_agree
    from capeval.construct.annotator_exports import annotate_merge as annotate_merge
    from capeval.construct.drafts import annotate_draft as annotate_draft
    from capeval.construct.drafts import annotate_draft_async as annotate_draft_async
    from capeval.construct.question_checks import construct_check as construct_check
    from capeval.construct.question_checks import construct_check_async as construct_check_async
    from capeval.construct.question_drafting import construct_draft as construct_draft
    from capeval.construct.question_drafting import construct_draft_async as construct_draft_async
    from capeval.construct.question_filter import construct_filter as construct_filter
    from capeval.construct.question_filter import construct_filter_async as construct_filter_async
    from capeval.construct.review import annotate_review as annotate_review
    from capeval.construct.review import construct_review as construct_review
    from capeval.construct.video_filter import annotate_filter as annotate_filter
    from capeval.correlation.correlate import correlate as correlate
    from capeval.correlation.correlations import Correlations as Correlations
    from capeval.evaluating.check import check as check
    from capeval.evaluating.eval import evaluate as evaluate
    from capeval.evaluating.eval import evaluate_async as evaluate_async
    from capeval.evaluating.stored import cache_info as cache_info
    from capeval.evaluating.stored import list_runs as list_runs
    from capeval.judging.judge import judge as judge
    from capeval.judging.judge import judge_async as judge_async
    from capeval.judging.protocol import JudgeOptions as JudgeOptions
    from capeval.judging.rewards import Judge as Judge
    from capeval.mcq.answer import mcq_answer as mcq_answer
    from capeval.mcq.answer import mcq_answer_async as mcq_answer_async
    from capeval.mcq.grade import mcq_grade as mcq_grade
    from capeval.mcq.grade import mcq_grade_async as mcq_grade_async
    from capeval.mcq.temporal import mcq_temporal as mcq_temporal
    from capeval.metrics.measure import measure as measure
    from capeval.metrics.measure import measure_async as measure_async
    from capeval.rating.rate_merge import rate_merge as rate_merge
    from capeval.rating.rate_sheet import rate_sheet as rate_sheet
    from capeval.reporting.inspect import inspect as inspect
    from capeval.reporting.plot import plot as plot
    from capeval.reporting.report import report as report
    from capeval.schema import Annotation as Annotation
    from capeval.schema import Caption as Caption
    from capeval.schema import Judgment as Judgment
    from capeval.scoring.score import score as score
    from capeval.scoring.scores import Scores as Scores
    from capeval.trust.calibrate import calibrate as calibrate
    from capeval.trust.probe import Probing as Probing
    from capeval.trust.probe import probe as probe
    from capeval.trust.probe import probe_async as probe_async

_HOMES = {
    "capeval.captioners.catalogue": "models",
    "capeval.captioners.generate": "GenerateOptions Generation generate generate_async",
    "capeval.captioners.sample_frames": "sample_frames",
    "capeval.comparing.compare": "compare",
    "capeval.comparing.leaderboard": "leaderboard",
    "capeval.construct.annotator_exports": "annotate_agree annotate_merge",
    "capeval.construct.drafts": "annotate_draft annotate_draft_async",
    "capeval.construct.question_checks": "construct_check construct_check_async",
    "capeval.construct.question_drafting": "construct_draft construct_draft_async",
    "capeval.construct.question_filter": "construct_filter construct_filter_async",
    "capeval.construct.review": "annotate_review construct_review",
    "capeval.construct.video_filter": "annotate_filter",
    "capeval.correlation.correlate": "correlate",
    "capeval.correlation.correlations": "Correlations",
    "capeval.evaluating.check": "check",
    "capeval.evaluating.eval": "evaluate evaluate_async",
    "capeval.evaluating.stored": "cache_info list_runs",
    "capeval.judging.judge": "judge judge_async",
    "capeval.judging.protocol": "JudgeOptions",
    "capeval.judging.rewards": "Judge",
    "capeval.mcq.answer": "mcq_answer mcq_answer_async",
    "capeval.mcq.grade": "mcq_grade mcq_grade_async",
    "capeval.mcq.temporal": "mcq_temporal",
    "capeval.metrics.measure": "measure measure_async",
    "capeval.rating.rate_merge": "rate_merge",
    "capeval.rating.rate_sheet": "rate_sheet",
    "capeval.reporting.inspect": "inspect",
    "capeval.reporting.plot": "plot",
    "capeval.reporting.report": "report",
    "capeval.schema": "Annotation Caption Judgment",
    "capeval.scoring.scores": "Scores",
    "capeval.scoring.score": "score",
    "capeval.trust.calibrate": "calibrate",
    "capeval.trust.probe": "Probing probe probe_async",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = list(_MODULE_OF)
__all__ += ["__version__"]


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
