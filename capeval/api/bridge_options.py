"""The options of `capeval bridge`, declared once for Python and for the command line."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from capeval.api import FilePath, Notices
from capeval.api.run_options import annotations_option, on_notice_option, runs_option, seed_option
from capeval.options import (
    INPUTS,
    JUDGE,
    LIMITS,
    OUTPUT,
    declares,
    option,
    python_only,
    required,
)

if TYPE_CHECKING:
    from capeval.judging.protocol import Judge
    from capeval.llm.types import ChatClient
    from capeval.runs.engine import Progress

old_argument = partial(
    required,
    "The judge whose scores are wanted: its folder's name, or the beginning of it.",
    positional=True,
    metavar="OLD",
)
new_argument = partial(
    required, "The judge whose scores there are.", positional=True, metavar="NEW"
)


@declares
class BridgeOptions:
    """The arguments of `capeval.bridge`.

    Parameters
    ----------
    judged_runs : Runs to bridge: names or folders. By default every run that NEW has judged and OLD
        has not judged in full.
    anchor : Use only these runs as anchors. By default every run that both have judged.
    use : A bridge.json made elsewhere, instead of the anchors here.
    max_error : The largest half-width of a bridged score that is accepted, in points.
    """

    old: str = old_argument()
    new: str = new_argument()
    judged_runs: Sequence[FilePath] = option((), positional=True, metavar="RUN")
    _: KW_ONLY
    anchor: Sequence[FilePath] = option((), metavar="RUN", commas=True)
    use: FilePath | None = option(None, metavar="FILE")
    max_error: float = option(8.0, metavar="POINTS", min=0, max=100)
    annotations: FilePath | None = annotations_option()
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


@declares
class BridgePlanOptions:
    """The arguments of `capeval.bridge_plan`.

    Parameters
    ----------
    half_width : The half-width of overall F1 that is wanted, in points.
    videos : How many videos a run has. By default as many as the runs here, or 1,000.
    sd : Assume this standard deviation of OLD's F1 of a video given NEW's, in points, instead of
        looking at the runs.
    """

    old: str = old_argument()
    new: str = new_argument()
    _: KW_ONLY
    half_width: float = option(2.0, metavar="POINTS", min=0.1, max=50)
    videos: int | None = option(None, metavar="N", min=10, max=1_000_000_000)
    sd: float | None = option(None, metavar="POINTS", min=0.1, max=100)
    annotations: FilePath | None = annotations_option()
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


@declares
class BridgeShowOptions:
    """The arguments of `capeval.bridge_show`.

    Parameters
    ----------
    judged_runs : Only these runs. By default every run that both judges have judged.
    """

    old: str = old_argument()
    new: str = new_argument()
    judged_runs: Sequence[FilePath] = option((), positional=True, metavar="RUN")
    _: KW_ONLY
    annotations: FilePath | None = annotations_option()
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


@declares
class BridgeCollectOptions:
    """The arguments of `capeval.bridge_collect`.

    Parameters
    ----------
    old, new : Two judges.
    judged_runs : Runs, or captions files.
    videos : How many videos to draw for each run.
    seed : The seed of the draw. Runs of the same data share their videos.
    old_base_url : The OpenAI-compatible endpoint of OLD. By default OPENAI_BASE_URL.
    new_base_url : The endpoint of NEW. By default OPENAI_BASE_URL.
    old_prompts : The prompts of OLD, if they are a folder. By default those after @ in its name.
    new_prompts : The prompts of NEW, if they are a folder.
    old_reasoning : The reasoning effort of OLD, as in `judge`. By default that of its verdicts
        here, if there are any.
    new_reasoning : The reasoning effort of NEW.
    repeats : How often each caption is judged, by both.
    max_cost : Stop calling after this many US dollars; the command then asks no question.
    max_concurrency : Calls at a time.
    timeout : Seconds for one call.
    api_key : Of the endpoints. By default OPENAI_API_KEY.
    cache : SQLite file of replies. By default in the user's cache folder.
    client : Replaces the network, for tests and recordings.
    progress : Receives the status after every video.
    """

    old: "str | Judge" = required(
        "The judge whose verdicts are collected: JUDGE or JUDGE@PROMPTS, or the beginning of the "
        "name of its folder.",
        note="Or a `Judge` of your own.",
        method="judge",
        positional=True,
        metavar="OLD",
    )
    new: "str | Judge" = required(
        "The judge to bridge from; it judges the drawn videos that it has not judged yet.",
        note="Or a `Judge` of your own.",
        method="judge",
        positional=True,
        metavar="NEW",
    )
    judged_runs: Sequence[FilePath] = required(positional=True, metavar="RUN")
    _: KW_ONLY
    videos: int = option(100, metavar="N", min=1, panel=INPUTS)
    seed: int = seed_option(panel=INPUTS)
    annotations: FilePath | None = annotations_option(panel=INPUTS)
    runs: FilePath = runs_option(panel=INPUTS)
    old_base_url: str | None = option(None, metavar="URL", panel=JUDGE)
    new_base_url: str | None = option(None, metavar="URL", panel=JUDGE)
    old_prompts: str | Path | None = option(None, metavar="NAME", panel=JUDGE)
    new_prompts: str | Path | None = option(None, metavar="NAME", panel=JUDGE)
    old_reasoning: (
        Literal["default", "none", "minimal", "low", "medium", "high", "xhigh", "max"] | None
    ) = option(None, metavar="EFFORT", panel=JUDGE)
    new_reasoning: (
        Literal["default", "none", "minimal", "low", "medium", "high", "xhigh", "max"] | None
    ) = option(None, metavar="EFFORT", panel=JUDGE)
    repeats: int = option(1, metavar="N", min=1, max=100, panel=JUDGE)
    max_cost: float | None = option(None, metavar="DOLLARS", min=0, panel=LIMITS)
    max_concurrency: int = option(64, metavar="N", min=1, max=4096, panel=LIMITS)
    timeout: float = option(120.0, metavar="SECONDS", min=0.1, max=86_400, panel=LIMITS)
    api_key: str | None = python_only(None, shown=False)
    cache: str | Path | None = python_only(None)
    client: "ChatClient | None" = python_only(None, method="complete", shown=False)
    progress: "Progress | None" = python_only(None, method="update", shown=False)
    on_notice: Notices = on_notice_option(panel=OUTPUT)
