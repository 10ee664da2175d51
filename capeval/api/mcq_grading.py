"""`capeval.mcq_grade`: responses to multiple-choice questions in, accuracy out."""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from capeval.api.mcq_options import GradeOptions
from capeval.api.sync_async import blocking
from capeval.errors import UsageError
from capeval.files.jsonl import dumps
from capeval.llm.asker import open_asker
from capeval.llm.client import DEFAULT_URL, endpoint_url
from capeval.mcq.asked import Asked
from capeval.mcq.grades import Grades
from capeval.mcq.grading import DRAWS, Blind, Graded, count_grades
from capeval.mcq.model_reader import ModelReader, label_of
from capeval.mcq.questions import load_questions
from capeval.mcq.responses import load_responses, responses_hash
from capeval.mcq.strategies import (
    ALL,
    CONVENTIONS,
    STRATEGIES,
    Convention,
    Decision,
    Settings,
    Strategy,
    strategy,
    usable,
)
from capeval.options import takes
from capeval.runs.outputs import check_output, write_output
from capeval.schema.question import Question, Response
from capeval.scoring.signature import VERSION, Signature
from capeval.text import counted
from capeval.version import __version__


@takes(GradeOptions)
async def mcq_grade_async(o: GradeOptions) -> Grades:
    """Grade one model's responses to multiple-choice questions.

    Raises
    ------
    InputError, UsageError
        A file cannot be read, the options do not fit the responses, or `out` cannot be written.
    EndpointError, BudgetReached
        The model that reads replies cannot be called any more. Its replies so far are kept.
    """
    # Calls to a model can go on for hours, and then memory matters more than a second.
    with nullcontext() if o.llm else _no_collection():
        return await _grade(o)


mcq_grade = blocking(mcq_grade_async)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the search for cycles: it would go through all responses again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


async def _grade(o: GradeOptions) -> Grades:
    inputs = [Path(one) for one in (o.responses, o.questions, o.blind_run) if one is not None]
    if o.out is not None:
        check_output(Path(o.out), inputs)
    questions = None if o.questions is None else load_questions(o.questions, o.on_notice)
    loaded = load_responses(Path(o.responses), o.on_notice, questions)
    responses = _in_set(loaded, questions)
    chosen, convention = _chosen(o)
    others = {one.benchmark for one in responses} - {o.convention}
    if convention is not None and others:
        o.on_notice(f"--as {convention.name}: there are responses to {', '.join(sorted(others))}")
    blind = None
    if o.blind_run is not None:
        blind = load_responses(Path(o.blind_run), o.on_notice, questions)
    captioning = None if o.cap_run is None else _captioning(o)
    settings = Settings(seed=o.seed, per_token=o.per_token)
    asked = [Asked(one) for one in responses]
    _check_likelihoods(chosen, responses)
    has_model = o.llm is not None
    several = usable(responses, has_model=has_model) if o.select == ALL else []
    async with _open_reader(o, [chosen, *several]) as reader:
        decisions = await _decide(asked, chosen, settings, reader, o)
        sides = {
            one.name: await _decide(asked, one, settings, reader, o, notice=False)
            for one in several
        }
        of_blind = None
        if blind is not None:
            asked_blind = [Asked(one) for one in blind]
            decided = await _decide(asked_blind, chosen, settings, reader, o, notice=False)
            of_blind = Blind(asked_blind, decided)
    graded = Graded(
        asked=asked,
        decisions=decisions,
        strategy=chosen,
        convention=convention,
        questions=questions,
        blind=of_blind,
        by=tuple(o.by),
        draws=DRAWS if o.resamples is None else o.resamples,
        seed=o.seed,
        sides=sides,
    )
    signature = _signature(graded, responses, settings, o.llm)
    made_with = {
        "select": ALL if several else chosen.name,
        "strategy": chosen.name,
        "as": convention.name if convention else None,
        "per_token": o.per_token,
        "llm": o.llm,
        "seed": o.seed,
        "resamples": graded.draws,
        "published": chosen.published,
    }
    found = count_grades(
        graded, signature=str(signature), settings=made_with, strategies=STRATEGIES
    )
    if captioning is not None:
        found = found.model_copy(update={"captioning": captioning})
    if o.out is not None:
        write_output(Path(o.out), dumps(found.model_dump(mode="json"), indent=1) + "\n")
    return found


def _chosen(o: GradeOptions) -> tuple[Strategy, Convention | None]:
    """Return the strategy of the headline and the convention."""
    convention = CONVENTIONS[o.convention] if o.convention else None
    if o.select is None:
        return strategy(convention.select if convention else "exact"), convention
    if o.select == ALL:
        return strategy(convention.select if convention else "exact"), convention
    return strategy(o.select), convention


def _in_set(
    responses: Sequence[Response], questions: Sequence[Question] | None
) -> Sequence[Response]:
    if questions is None:
        return responses
    known = {(question.benchmark, question.id) for question in questions}
    found = [one for one in responses if (one.benchmark, one.id) in known]
    if not found:
        raise UsageError("--questions: none of the responses is to one of these questions")
    return found


def _check_likelihoods(chosen: Strategy, responses: Sequence[Response]) -> None:
    if chosen.needs_likelihood and all(one.likelihood is None for one in responses):
        raise UsageError(
            f"--select {chosen.name}: no response has likelihoods; ask again with "
            "`capeval mcq answer --likelihood`"
        )


@asynccontextmanager
async def _open_reader(
    o: GradeOptions, chosen: Sequence[Strategy]
) -> AsyncIterator[ModelReader | None]:
    if o.llm is None:
        if any(one.asks == "choice" for one in chosen):
            raise UsageError("--select exact+llm: name a chat model with --llm")
        yield None
        return
    key = o.api_key or os.environ.get("OPENAI_API_KEY") or None
    base_url = endpoint_url(o.base_url)
    if not key and o.client is None and base_url == DEFAULT_URL:
        raise UsageError(
            "there is no key for --llm: set OPENAI_API_KEY, or name a local server with --base-url"
        )
    async with open_asker(
        base_url,
        key,
        client=o.client,
        cache=o.cache,
        max_cost=o.max_cost,
        on_notice=o.on_notice,
        timeout=o.timeout,
        max_concurrency=o.max_concurrency,
    ) as asker:
        yield ModelReader(asker, o.llm, concurrency=o.max_concurrency)


async def _decide(
    asked: Sequence[Asked],
    chosen: Strategy,
    settings: Settings,
    reader: ModelReader | None,
    o: GradeOptions,
    *,
    notice: bool = True,
) -> list[Decision]:
    found = [chosen.decide(one, settings) for one in asked]
    open_ones = [at for at, one in enumerate(found) if one is None]
    if open_ones and reader is None:
        if notice:
            o.on_notice(
                f"{counted(len(open_ones), 'reply', 'replies')} that no pattern of "
                f"{chosen.name} reads would go to a model; without --llm, they are decided by "
                "chance"
            )
        for at in open_ones:
            found[at] = chosen.end(asked[at], settings)
    elif open_ones and reader is not None and chosen.asks is not None:
        made = await reader.decide(
            chosen.asks,
            [asked[at] for at in open_ones],
            lambda one: _end(chosen, one, settings),
        )
        for at, decision in zip(open_ones, made, strict=True):
            found[at] = decision
    return [one for one in found if one is not None]


def _end(chosen: Strategy, asked: Asked, settings: Settings) -> Decision:
    if chosen.last is None:
        return Decision(None, "model: none")
    return chosen.end(asked, settings)


def _signature(
    graded: Graded, responses: Sequence[Response], settings: Settings, llm: str | None
) -> Signature:
    chosen, convention = graded.strategy, graded.convention
    benchmarks = "+".join(sorted({one.benchmark for one in responses}))
    parts = {"capeval": "mcq", "set": benchmarks, "select": chosen.name}
    if convention is not None:
        parts["as"] = convention.name
    if chosen.needs_likelihood:
        parts["nll"] = "per-token" if settings.per_token else "sum"
    if chosen.asks is not None:
        parts["llm"] = llm or "none"
        parts["prompts"] = label_of(chosen.asks)
    if any(one.by_chance for one in graded.decisions):
        parts["seed"] = str(settings.seed)
    unique = {(one.benchmark, one.id) for one in responses}
    parts["data"] = f"{responses_hash(responses)[:6]}@{len(unique)}"
    parts[VERSION] = __version__
    return Signature.of(parts)


def _captioning(o: GradeOptions) -> dict[str, Any]:
    from capeval.api.scoring import score

    scores = score(o.cap_run or "", runs=o.runs)
    overall = scores.overall.model_dump(mode="json")
    f1 = {name: values["f1"] for name, values in overall.items()}
    return {"run": str(o.cap_run), "signature": scores.signature, "f1": f1}
