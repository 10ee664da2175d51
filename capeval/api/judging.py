"""`capeval.judge`: captions in, scores out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from capeval.api.scoring import Annotations
from capeval.api.sync_async import blocking
from capeval.errors import UsageError
from capeval.judging.prompts import DEFAULT_PROMPTS
from capeval.judging.run import Progress, execute, plan_run
from capeval.judging.selection import JudgeChoice, open_judge
from capeval.llm import ChatClient
from capeval.runs.resolve import find_captions
from capeval.runs.sources import Source, from_file, from_memory, from_run
from capeval.schema import Caption
from capeval.scoring import Scores

Captions = str | Path | Mapping[str, str] | Sequence[Caption]


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


judge = blocking(judge_async)


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
    found = find_captions(captions, runs)
    if isinstance(found, Path):
        return from_file(found, path, runs=runs, name=run, ignore_unknown=ignore_unknown)
    return from_run(found, path, ignore_unknown=ignore_unknown)
