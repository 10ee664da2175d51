"""The options of `capeval mcq answer`, `grade` and `temporal`."""

from collections.abc import Collection
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Literal

from capeval.captioners.options import FramesOptions
from capeval.options import (
    FRAMES,
    INPUTS,
    JUDGE,
    LIMITS,
    MODEL,
    OUTPUT,
    FilePath,
    Notices,
    declares,
    on_notice_option,
    option,
    out_option,
    python_only,
    required,
    runs_option,
)

if TYPE_CHECKING:
    from capeval.llm.types import ChatClient
    from capeval.runs.engine import Progress


@declares
class AnswerOptions(FramesOptions):
    """Which questions a model answers, and with which frames: see `capeval.mcq_answer`.

    Parameters
    ----------
    model : As for `capeval generate`.
    base_url : An OpenAI-compatible server.
    questions : TUNA-MCQ, TOMATO or Video-MME as published, or your own as JSON lines.
    where : Only those with a tag: task=count.
    only : Only these questions.
    limit : Only the first N questions.
    videos : Their folder. By default videos/ in or next to the questions, else their folder.
    subtitles : SRT or VTT files, named as the videos.
    run : The run's name. By default MODEL@SETTINGS.
    frames : As for generate. By default the benchmark's: 16 for TOMATO, else the catalogue's.
    shuffle : Show the frames in random order (see --seed).
    single : Show one frame: first, middle, random (see --seed), an index from 0, or column:NAME,
        the questions' own.
    blind : Ask without the video.
    likelihood : Store each option's likelihood (local models).
    batch_size : Questions at a time on a GPU.
    seed : Of random frames and samples.
    shard : Do part I of N; the last to end merges.
    """

    questions: FilePath | None = option(None, panel=INPUTS, metavar="PATH")
    _: KW_ONLY
    where: Collection[str] = option((), panel=INPUTS, metavar="TAG=VALUE")
    only: Collection[str] = option((), panel=INPUTS, metavar="ID", commas=True)
    videos: FilePath | None = option(None, panel=INPUTS, metavar="DIR")
    subtitles: FilePath | None = option(None, panel=INPUTS, metavar="PATH")
    run: str | None = option(None, panel=INPUTS, metavar="NAME")
    shuffle: bool = option(False, panel=FRAMES)
    single: str | None = option(None, panel=FRAMES, metavar="WHICH")
    blind: bool = option(False, panel=FRAMES)
    likelihood: bool = option(False, panel=MODEL)
    shard: str | None = option(None, panel=INPUTS, metavar="I/N")


@declares
class GradeOptions:
    """The arguments of `capeval.mcq_grade`.

    Parameters
    ----------
    responses : A run of `capeval mcq answer`, a responses.jsonl, a filled template of Video-MME,
        results of TOMATO's code, VLMEvalKit's predictions or lmms-eval's log.
    questions : What was asked, to count missing responses; needed for lmms-eval's log.
    where : Only questions with this tag, such as task=count. Then grades.json is not written into
        the run's folder.
    model : The model's name. By default as in the responses.
    cap_run : A judged run of its captions, for F1 beside TUNA-MCQ.
    select : How replies become answers: exact, exact+random, exact+llm, likelihood-symbol, tomato
        and others, or all of them. By default exact.
    convention : Grade as a benchmark's own code does.
    by : Tags to group by. By default the benchmark's.
    llm : A chat model that reads replies, for exact+llm and tomato.
    base_url : Its OpenAI-compatible server. By default OPENAI_BASE_URL.
    max_concurrency : Calls at a time.
    timeout : Seconds for one call.
    max_cost : Spend at most this, without asking.
    api_key : Of the endpoint. By default OPENAI_API_KEY.
    cache : SQLite file of replies. By default in the user's cache folder.
    client : Replaces the network, for tests and recordings.
    progress : Receives the status after every reply that the chat model reads.
    resamples : Bootstrap resamples of videos.
    layout : Write --out as a benchmark does: video-mme (its template) or tomato (its folder).
    """

    responses: FilePath = required(positional=True, metavar="RUN")
    _: KW_ONLY
    questions: FilePath | None = option(None, metavar="PATH")
    where: Collection[str] = option((), metavar="TAG=VALUE")
    model: str | None = option(None, metavar="NAME")
    cap_run: FilePath | None = option(None, metavar="RUN")
    select: str | None = option(None, metavar="NAME")
    convention: Literal["tuna", "tomato", "video-mme"] | None = python_only(None)
    by: Collection[str] = option((), metavar="TAG", commas=True)
    llm: str | None = option(None, panel=JUDGE, metavar="NAME")
    base_url: str | None = option(None, panel=JUDGE, metavar="URL")
    max_concurrency: int = python_only(64, min=1, max=4096)
    timeout: float = python_only(120.0, min=0.1, max=86_400)
    max_cost: float | None = option(None, panel=LIMITS, metavar="USD", min=0)
    api_key: str | None = python_only(None, shown=False)
    cache: FilePath | None = python_only(None)
    client: "ChatClient | None" = python_only(None, method="complete")
    progress: "Progress | None" = python_only(None, method="update", shown=False)
    resamples: int = python_only(10_000, min=99)
    layout: Literal["video-mme", "tomato"] | None = option(None, panel=OUTPUT, metavar="NAME")
    seed: int = python_only(0, "The seed of random choices and resamples.", min=0)
    runs: FilePath = runs_option()
    out: FilePath | None = out_option()
    on_notice: Notices = on_notice_option()
