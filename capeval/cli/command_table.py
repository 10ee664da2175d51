"""The table of commands: their headings, their lines in the help, and where each is."""

from __future__ import annotations

from importlib import import_module

from capeval.options import Command

HEADINGS = {
    "Evaluate": {
        "eval": "Generate, judge, score and report, in one command.",
        "generate": "Caption videos with a video-language model.",
        "judge": "Judge captions event by event and score them: precision, recall and F1.",
        "report": "Write one HTML file that shows what a model gets wrong, and why.",
        "compare": "Compare judged runs over the videos scored in all of them: is B better than A?",
        "leaderboard": "Rank judged runs by overall F1, or graded runs by accuracy.",
    },
    "Trust": {
        "check": "Check a set of annotations: every problem, what may be a mistake, and "
        "statistics.",
        "probe": "Check how far a judge can be trusted, without human labels.",
        "calibrate": "Correct a judge's scores with labels of some captions: what would the raters "
        "give?",
        "correlate": "Correlate metrics with human ratings: does the judge rank captions as humans "
        "do?",
        "rate": "Have humans rate captions without knowing who wrote them.",
    },
    "Questions": {
        "mcq": "Answer and grade multiple-choice questions: TUNA-MCQ, TOMATO, Video-MME, your own.",
    },
    "Make a benchmark": {
        "annotate": "Annotate videos: filter, draft, review, agree, merge.",
        "mcq construct": "Construct questions from annotations: draft, check, filter, review.",
    },
    "Look closer": {
        "score": "Score stored verdicts again, without any model.",
        "inspect": "Show why one video has its score: its caption, events, verdicts and repairs.",
        "plot": "Draw figures for a paper: SVG, PDF or PNG; separate the names of figures by "
        "commas.",
        "metrics": "Compute caption metrics, and write each caption's values to metrics.jsonl.",
        "models": "List the models that `capeval generate` knows.",
        "frames": "Show which frames of a video a model would see.",
        "runs": "List all runs with their judges, scores and sizes.",
        "cache": "Show where the cache of models' replies is and what it contains.",
    },
}
"""By heading, each command with its line in `capeval --help`."""

GROUPS = {"mcq construct": "Make questions: draft, check, filter, review."}
"""The groups that the list of all commands does not have under their own names."""

PLACES = {
    "eval": "capeval.evaluating.eval:eval_command",
    "generate": "capeval.captioners.generate:open_generating",
    "judge": "capeval.judging.judge:judge_command",
    "report": "capeval.reporting.report:report_command",
    "compare": "capeval.comparing.compare:compare",
    "leaderboard": "capeval.comparing.leaderboard:leaderboard_command",
    "check": "capeval.evaluating.check:check_command",
    "probe": "capeval.trust.probe:probe_command",
    "calibrate": "capeval.trust.calibrate:calibrate",
    "correlate": "capeval.correlation.correlate:correlate",
    "rate sheet": "capeval.rating.rate_sheet:rate_sheet",
    "rate merge": "capeval.rating.rate_merge:rate_merge",
    "mcq answer": "capeval.mcq.answer:open_answering",
    "mcq grade": "capeval.mcq.grade:open_grading",
    "mcq temporal": "capeval.mcq.temporal:mcq_temporal",
    "mcq construct draft": "capeval.construct.question_drafting:open_question_draft",
    "mcq construct check": "capeval.construct.question_checks:open_check",
    "mcq construct filter": "capeval.construct.question_filter:open_filtering",
    "mcq construct review": "capeval.construct.review:construct_review",
    "annotate filter": "capeval.construct.video_filter:annotate_filter",
    "annotate draft": "capeval.construct.drafts:open_draft",
    "annotate review": "capeval.construct.review:annotate_review",
    "annotate agree": "capeval.construct.annotator_exports:annotate_agree",
    "annotate merge": "capeval.construct.annotator_exports:annotate_merge",
    "score": "capeval.scoring.score:score_command",
    "inspect": "capeval.reporting.inspect:inspect",
    "plot": "capeval.reporting.plot:plot_command",
    "metrics": "capeval.metrics.measure:open_measuring",
    "models": "capeval.captioners.catalogue:models_command",
    "frames": "capeval.captioners.sample_frames:frames_command",
    "runs": "capeval.evaluating.stored:runs_command",
    "cache": "capeval.evaluating.stored:cache_command",
}
"""Where each command is."""


def declared(name: str) -> Command:
    """Return the command of a name, imported."""
    module, _, attribute = PLACES[name].partition(":")
    found: Command = getattr(import_module(module), attribute).command
    return found
