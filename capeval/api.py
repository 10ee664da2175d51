"""The library: `generate`, `judge`, `score` and `correlate`, sync and async."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Literal, TypeVar

from capeval.captioners.frames import FrameReader, open_reader
from capeval.captioners.images import ImageKind
from capeval.captioners.prompting import load_caption_prompts
from capeval.captioners.protocol import Captioner
from capeval.correlation.joining import Missing
from capeval.correlation.protocols import protocol as protocol_of
from capeval.correlation.result import Correlations
from capeval.correlation.video_level import Settings
from capeval.errors import UsageError
from capeval.evaluation.captioners import CaptionerChoice, open_captioner
from capeval.evaluation.correlating import Question, correlate_files
from capeval.evaluation.generating_plan import Generation, Wanted, default_run, default_videos
from capeval.evaluation.generating_run import GeneratingProgress, generate_run
from capeval.evaluation.judges import JudgeChoice, open_judge
from capeval.evaluation.judging_run import Progress, execute, plan_run
from capeval.evaluation.rescoring import rescore
from capeval.evaluation.sources import (
    SAMPLE,
    Source,
    annotations_of,
    from_file,
    from_memory,
    from_run,
    run_name,
)
from capeval.files.parts import Shard
from capeval.files.run_folder import RunFolder
from capeval.judging.prompts import DEFAULT_PROMPTS
from capeval.llm import ChatClient
from capeval.schema import Annotation, Caption, RaterMode
from capeval.scoring import Scores
from capeval.stats.intervals import Kind

__all__ = [
    "Generation",
    "correlate",
    "correlate_async",
    "generate",
    "generate_async",
    "judge",
    "judge_async",
    "score",
    "score_async",
]

T = TypeVar("T")

Captions = str | Path | Mapping[str, str] | Sequence[Caption]
Annotations = str | Path | Sequence[Annotation]


async def judge_async(
    captions: Captions,
    annotations: Annotations | None = None,
    *,
    judge: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    prompts: str | Path = DEFAULT_PROMPTS,
    run: str | None = None,
    runs: str | Path = "runs",
    repeats: int = 1,
    max_concurrency: int = 64,
    timeout: float = 120.0,
    only: Collection[str] = (),
    limit: int | None = None,
    max_cost: float | None = None,
    ignore_unknown: bool = False,
    seed: int = 0,
    cache: str | Path | None = None,
    client: ChatClient | None = None,
    progress: Progress | None = None,
) -> Scores:
    """Judge captions and return their scores; see `judge`."""
    choice = JudgeChoice(
        model=judge,
        base_url=base_url,
        api_key=api_key,
        prompts=prompts,
        max_concurrency=max_concurrency,
        timeout=timeout,
        max_cost=max_cost,
        cache_path=None if cache is None else Path(cache),
        client=client,
    )
    source = _source(captions, annotations, run, Path(runs), ignore_unknown)
    async with open_judge(choice) as opened:
        with source.run.locked() if source.run else nullcontext():
            source.store()
            prompt_name = opened.prompts.name if opened.prompts else None
            folder = source.run.judge(opened.judge.name, prompt_name) if source.run else None
            plan = plan_run(
                source.name,
                folder,
                source.annotations,
                source.captions,
                opened,
                repeats=repeats,
                only=only,
                limit=limit,
            )
            outcome = await execute(plan, opened, seed=seed, progress=progress)
    if outcome.stopped:
        raise outcome.stopped
    return outcome.scores


def _source(
    captions: Captions,
    annotations: Annotations | None,
    run: str | None,
    runs: Path,
    ignore_unknown: bool,
) -> Source:
    if not isinstance(captions, str | Path):
        if annotations is None:
            raise UsageError("annotations are needed to judge captions")
        return from_memory(
            captions, annotations, name=run, runs=runs, ignore_unknown=ignore_unknown
        )
    if annotations is not None and not isinstance(annotations, str | Path):
        raise UsageError("with captions in a file, name the annotations' file")
    path = None if annotations is None else str(annotations)
    if Path(captions).is_file():
        return from_file(Path(captions), path, runs=runs, name=run, ignore_unknown=ignore_unknown)
    return from_run(RunFolder.find(runs, str(captions)), path, ignore_unknown=ignore_unknown)


def judge(
    captions: Captions,
    annotations: Annotations | None = None,
    *,
    judge: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    prompts: str | Path = DEFAULT_PROMPTS,
    run: str | None = None,
    runs: str | Path = "runs",
    repeats: int = 1,
    max_concurrency: int = 64,
    timeout: float = 120.0,
    only: Collection[str] = (),
    limit: int | None = None,
    max_cost: float | None = None,
    ignore_unknown: bool = False,
    seed: int = 0,
    cache: str | Path | None = None,
    client: ChatClient | None = None,
    progress: Progress | None = None,
) -> Scores:
    """Judge captions against annotations and return their scores.

    Parameters
    ----------
    captions : a captions file, a run's name or folder, `{index: caption}`, or `Caption`s
    annotations : their file, `"sample"`, or `Annotation`s; a run knows its own
    judge : a model's name or `"lexical"`; without it the default model or the endpoint's sole one
    base_url, api_key : of an OpenAI-compatible endpoint; else from OPENAI_BASE_URL, OPENAI_API_KEY
    prompts : a packaged prompt set's name, or a folder with one
    run : the run's name under `runs`; captions in memory are stored only when they have one
    repeats : how often each caption is judged; the majority label counts
    timeout : seconds for one call
    only, limit : judge these videos only, and at most so many
    max_cost : US dollars after which no further call is made
    seed : of the bootstrap
    cache : SQLite file of replies; by default in the user's cache folder
    client : stands in for the endpoint
    progress : is told of every judgment

    Raises
    ------
    InputError, UsageError
        The inputs or options are not right.
    EndpointRefused, EndpointDown, BudgetReached
        Judging had to stop; what was done is kept when the captions have a run.

    Example
    -------
    >>> scores = judge({"sample_01": "A dog runs."}, "sample", judge="lexical")
    >>> scores.counts.captioned, scores.counts.scored
    (1, 1)
    """
    return _blocking(
        judge_async(
            captions,
            annotations,
            judge=judge,
            base_url=base_url,
            api_key=api_key,
            prompts=prompts,
            run=run,
            runs=runs,
            repeats=repeats,
            max_concurrency=max_concurrency,
            timeout=timeout,
            only=only,
            limit=limit,
            max_cost=max_cost,
            ignore_unknown=ignore_unknown,
            seed=seed,
            cache=cache,
            client=client,
            progress=progress,
        )
    )


def score(
    path: str | Path,
    annotations: Annotations,
    *,
    seed: int = 0,
    ignore_unknown: bool = False,
) -> Scores:
    """Score stored verdicts again, without any model.

    Parameters
    ----------
    path : a judged run, a judge's folder in it, a `judgments.jsonl`, or a TUNA result file
    annotations : their file, `"sample"`, or `Annotation`s
    seed : of the bootstrap

    Raises
    ------
    InputError
        There is nothing to score, or it does not belong to the annotations.
    """
    if isinstance(annotations, str | Path):
        annotations = annotations_of(str(annotations))
    return rescore(Path(path), annotations, seed=seed, ignore_unknown=ignore_unknown).scores


async def score_async(
    path: str | Path,
    annotations: Annotations,
    *,
    seed: int = 0,
    ignore_unknown: bool = False,
) -> Scores:
    """Score stored verdicts in a thread; see `score`."""
    return await asyncio.to_thread(
        score, path, annotations, seed=seed, ignore_unknown=ignore_unknown
    )


def correlate(
    human: str | Path,
    metrics: Mapping[str, str | Path | Sequence[str | Path]] | None = None,
    *,
    metric_columns: Sequence[str] = (),
    annotations: Annotations | None = None,
    runs: str | Path = "runs",
    missing: Missing = "error",
    raters: RaterMode = "mean",
    ci: Kind | None = None,
    draws: int | None = None,
    seed: int = 0,
    protocol: str | None = None,
    statistics: Sequence[str] = (),
    groupings: Sequence[str] = (),
) -> Correlations:
    """Hold metrics against people.

    Parameters
    ----------
    human : CSV, TSV or JSON lines of ratings or of element labels
    metrics : by name: a judged run, a `judgments.jsonl`, a `metrics.jsonl`, a CSV, or several of
        them; without any and without `metric_columns`, every judged run, or the judged sample
    metric_columns : columns of the human file that hold metrics
    annotations : their file, `"sample"`, or `Annotation`s; runs know their own
    missing : "error", or "drop" to leave out captions that a metric has no score of
    raters : how several raters are made one; "each" keeps them apart
    ci : "bootstrap", "analytic" or "none"; else what fits each
    draws : of every bootstrap and permutation; else 10,000, 2,000 for p, 1,000 for comparisons
    protocol : "tuna" or "wmt23"; else everything
    statistics, groupings : only these

    Raises
    ------
    InputError, UsageError
        A file or a name is not right, or the two sides do not meet.

    Returns
    -------
    What `correlations.json` holds. A constant, missing or failed metric is None with its reason.
    """
    named = [
        (name, Path(path))
        for name, paths in (metrics or {}).items()
        for path in ([paths] if isinstance(paths, str | Path) else paths)
    ]
    if annotations is not None:
        annotations = (
            str(annotations) if isinstance(annotations, str | Path) else tuple(annotations)
        )
    question = Question(
        human=Path(human),
        auto=tuple(named),
        metric_columns=tuple(metric_columns),
        annotations=annotations,
        runs=Path(runs),
        missing=missing,
    )
    wanted = protocol_of(protocol, statistics, groupings)
    return correlate_files(
        question, Settings(protocol=wanted, ci=ci, draws=draws, seed=seed, raters=raters)
    )


async def correlate_async(
    human: str | Path,
    metrics: Mapping[str, str | Path | Sequence[str | Path]] | None = None,
    *,
    metric_columns: Sequence[str] = (),
    annotations: Annotations | None = None,
    runs: str | Path = "runs",
    missing: Missing = "error",
    raters: RaterMode = "mean",
    ci: Kind | None = None,
    draws: int | None = None,
    seed: int = 0,
    protocol: str | None = None,
    statistics: Sequence[str] = (),
    groupings: Sequence[str] = (),
) -> Correlations:
    """Hold metrics against people in a thread; see `correlate`."""
    return await asyncio.to_thread(
        correlate,
        human,
        metrics,
        metric_columns=metric_columns,
        annotations=annotations,
        runs=runs,
        missing=missing,
        raters=raters,
        ci=ci,
        draws=draws,
        seed=seed,
        protocol=protocol,
        statistics=statistics,
        groupings=groupings,
    )


async def generate_async(
    model: str | Captioner | None = None,
    annotations: str | Path = SAMPLE,
    *,
    videos: str | Path | None = None,
    frames: str | FrameReader | None = None,
    prompt: str | Path | None = None,
    run: str | None = None,
    runs: str | Path = "runs",
    base_url: str | None = None,
    api_key: str | None = None,
    max_new_tokens: int | None = None,
    batch_size: int | Literal["auto"] = "auto",
    device: str | None = None,
    decoder: str = "pyav",
    shuffle: int | None = None,
    images: ImageKind | None = None,
    jpeg_quality: int = 90,
    max_side: int | None = None,
    shard: str | None = None,
    only: Collection[str] = (),
    limit: int | None = None,
    max_concurrency: int = 32,
    timeout: float = 300.0,
    max_cost: float | None = None,
    cache: str | Path | None = None,
    client: ChatClient | None = None,
    progress: GeneratingProgress | None = None,
) -> Generation:
    """Caption videos and return what came of it; see `generate`."""
    named = None if model is None or isinstance(model, str) else model
    choice = CaptionerChoice(
        model=model if isinstance(model, str) else None,
        base_url=base_url,
        api_key=api_key,
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
        device=device,
        images=images,
        jpeg_quality=jpeg_quality,
        max_side=max_side,
        max_concurrency=max_concurrency,
        timeout=timeout,
        max_cost=max_cost,
        cache_path=None if cache is None else Path(cache),
        client=client,
        captioner=named,
    )
    path = str(annotations)
    async with open_captioner(choice) as opened:
        if frames is None or isinstance(frames, str):
            frames = open_reader(frames or opened.entry.frames, decoder, shuffle=shuffle)
        wanted = Wanted(
            annotations=annotations_of(path),
            annotations_path=path,
            videos=default_videos(path) if videos is None else Path(videos),
            prompts=load_caption_prompts(
                None if prompt is None else Path(prompt), opened.entry.prompt
            ),
            only=tuple(only),
            limit=limit,
            shard=None if shard is None else Shard.read(shard),
        )
        folder = RunFolder(Path(runs) / run_name(run or default_run(opened.captioner.name)))
        generation, _ = await generate_run(
            folder, wanted, opened.captioner, frames, progress=progress
        )
    if generation.stopped:
        raise generation.stopped
    return generation


def generate(
    model: str | Captioner | None = None,
    annotations: str | Path = SAMPLE,
    *,
    videos: str | Path | None = None,
    frames: str | FrameReader | None = None,
    prompt: str | Path | None = None,
    run: str | None = None,
    runs: str | Path = "runs",
    base_url: str | None = None,
    api_key: str | None = None,
    max_new_tokens: int | None = None,
    batch_size: int | Literal["auto"] = "auto",
    device: str | None = None,
    decoder: str = "pyav",
    shuffle: int | None = None,
    images: ImageKind | None = None,
    jpeg_quality: int = 90,
    max_side: int | None = None,
    shard: str | None = None,
    only: Collection[str] = (),
    limit: int | None = None,
    max_concurrency: int = 32,
    timeout: float = 300.0,
    max_cost: float | None = None,
    cache: str | Path | None = None,
    client: ChatClient | None = None,
    progress: GeneratingProgress | None = None,
) -> Generation:
    """Caption videos with a video-language model; the captions are a run, ready for `judge`.

    Parameters
    ----------
    model : a name of the catalogue, `hf:ORG/NAME`, a server's name for its model, or a `Captioner`
    annotations : their file, or `"sample"`; they list the videos
    videos : the folder of the videos; else `videos` beside the annotations, or their folder
    frames : a sampling policy such as `"32"`, `"2fps"` or `"auto"`; else the catalogue's
    prompt : a file; else the annotations' `question`, else the catalogue's
    run : the run's name under `runs`; else the model's
    base_url, api_key : of an OpenAI-compatible endpoint
    max_new_tokens : tokens that a caption may have; else the catalogue's
    batch_size, device : of a model in this process
    shuffle : a seed; the frames are shown in an order drawn by it
    images, jpeg_quality, max_side : how an endpoint gets frames
    shard : `"I/N"`; the last shard to end merges all
    only, limit : caption these videos only, and at most so many
    max_cost : US dollars after which no further call is made
    cache : SQLite file of replies; by default in the user's cache folder
    client : stands in for the endpoint
    progress : is told of every video

    Raises
    ------
    InputError, UsageError
        The inputs or options are not right.
    EndpointRefused, EndpointDown, BudgetReached
        Generating had to stop; what was done is kept.
    """
    return _blocking(
        generate_async(
            model,
            annotations,
            videos=videos,
            frames=frames,
            prompt=prompt,
            run=run,
            runs=runs,
            base_url=base_url,
            api_key=api_key,
            max_new_tokens=max_new_tokens,
            batch_size=batch_size,
            device=device,
            decoder=decoder,
            shuffle=shuffle,
            images=images,
            jpeg_quality=jpeg_quality,
            max_side=max_side,
            shard=shard,
            only=only,
            limit=limit,
            max_concurrency=max_concurrency,
            timeout=timeout,
            max_cost=max_cost,
            cache=cache,
            client=client,
            progress=progress,
        )
    )


def _blocking(work: Coroutine[object, object, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        in_notebook = False
    else:
        in_notebook = True
    if not in_notebook:
        return asyncio.run(work)
    # A notebook's loop cannot be entered twice, so the work gets a loop of its own elsewhere.
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()
