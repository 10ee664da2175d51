"""`capeval mcq grade`: responses to multiple-choice questions in, accuracy out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY
from functools import partial
from pathlib import Path
from typing import Literal

from capeval.errors import UsageError
from capeval.files.jsonl import check_json, check_output, collection_paused, write_output
from capeval.llm.asker import Asker, key_for, open_asker
from capeval.llm.client import EndpointOptions
from capeval.llm.money import Meter
from capeval.mcq.exact import VERSION as EXACT
from capeval.mcq.grades import Grades, grades_file
from capeval.mcq.grading import Graded, count_grades
from capeval.mcq.question_files import load_questions
from capeval.mcq.responses import (
    find_responses,
    load_responses,
    models_of,
    questions_of_run,
    responses_hash,
)
from capeval.mcq.strategies import (
    ALL,
    CONVENTIONS,
    MODEL_FAILED,
    STRATEGIES,
    Convention,
    Decision,
    ReadingReplies,
    ReplyToGrade,
    Strategy,
    Undecided,
    strategy,
)
from capeval.options import (
    JUDGE,
    FilePath,
    Notices,
    command,
    declares,
    in_file,
    option,
    out_option,
    python_only,
    required,
)
from capeval.runs.engine import (
    Done,
    Labels,
    Left,
    Locks,
    LongWork,
    Progress,
    WorkEstimate,
    execute,
    functions,
)
from capeval.runs.sources import tested_model_warnings
from capeval.schema import Question, Response, Usage
from capeval.scoring.verdicts import VERSION, signature_text
from capeval.text import counted, listed, shown
from capeval.version import __version__


@declares
class GradeOptions(EndpointOptions):
    """The arguments of `capeval.mcq_grade`.

    Parameters
    ----------
    responses : A run of `capeval mcq answer`, a responses.jsonl, a filled template of Video-MME,
        results of TOMATO's code, VLMEvalKit's predictions or lmms-eval's log.
    questions : The questions, to count missing responses; needed for lmms-eval's log.
    model : The model's name. By default as the calls in the responses say.
    select : How replies become answers: exact, exact+random, exact+llm, likelihood-symbol, tomato
        and others, or all of them. By default exact.
    convention : Grade like tuna's, tomato's or video-mme's code; --select sets the strategy.
    by : Tags to group by. By default the benchmark's.
    llm : A chat model that reads replies, for exact+llm and tomato.
    progress : Receives the status after every reply that the chat model reads.
    resamples : Bootstrap resamples of videos.
    """

    responses: FilePath = required(positional=True, metavar="RUN")
    _: KW_ONLY
    questions: FilePath | None = option(None, metavar="PATH")
    model: str | None = option(None, metavar="NAME")
    select: str | None = option(None, metavar="NAME")
    convention: Literal["tuna", "tomato", "video-mme"] | None = option(
        None, name="--as", metavar="BENCHMARK"
    )
    by: Collection[str] = option((), metavar="TAG", commas=True)
    llm: str | None = option(None, panel=JUDGE, metavar="NAME")
    max_concurrency: int = in_file(64, min=1, max=4096)
    progress: Progress | None = python_only(None, method="update", shown=False)
    resamples: int = python_only(10_000, min=99)
    seed: int = python_only(0, "The seed of random choices and resamples.", min=0)
    out: FilePath | None = out_option()


_LABELS = Labels("reading", "reply", "read", "unread")


class GradingSession(LongWork[Grades]):
    """Responses that were read from their files, and the replies that are left to a model."""

    @collection_paused()
    def __init__(self, o: GradeOptions, asker: Asker | None) -> None:
        self._o, self.asker = o, asker
        self.meter = asker.meter if asker else Meter()
        if asker:
            self.title, self.model = f"Reader of replies: {o.llm}", o.llm or ""
        source = find_responses(o.responses, Path(o.runs))
        self.out = grades_file(source) if o.out is None else Path(o.out)
        if self.out is not None:
            check_json(self.out)
            check_output(self.out, [source, *([] if o.questions is None else [Path(o.questions)])])
        self._load(source)
        chosen, self._convention = _chosen(o)
        others = {one.benchmark for one in self._responses} - {o.convention}
        if self._convention is not None and others:
            o.on_notice(
                f"--as {self._convention.name}: the responses are to questions of another "
                f"benchmark ({', '.join(sorted(others))})"
            )
        models = models_of(self._responses)
        if len(models) > 1 and not o.model:
            o.on_notice(f"the responses are of several models: {listed(models)}")
        self._model = o.model or "+".join(models) or None
        tags, tested = (one.tags for one in self._responses), (o.model, *models)
        for line in tested_model_warnings(source.parent.name, "questions", tags, tested):
            o.on_notice(line)
        self._asked = [ReplyToGrade(one, o.seed) for one in self._responses]
        self._todo: list[Undecided] = []
        self._decided = [self._decide(one) for one in (chosen, *self._compared(chosen))]
        self._reading = None
        if asker:
            self._reading = ReadingReplies(self._todo, asker, self.model, o.max_concurrency)

    def _load(self, source: Path) -> None:
        o = self._o
        self._questions = None if o.questions is None else load_questions(o.questions, o.on_notice)
        self._responses = load_responses(source, o.on_notice, self._questions)
        if self._questions is None:
            there, every = len(self._responses), questions_of_run(source)
            if every and there < every:
                o.on_notice(
                    f"{there:,} of the run's {every:,} questions have a response; the accuracy "
                    "is over these; --questions counts the missing ones"
                )
        else:
            self._responses = _in_set(self._responses, self._questions, o.on_notice)

    def _compared(self, chosen: Strategy) -> list[Strategy]:
        """Return the strategies of `--select all`; refuse one that needs absent likelihoods."""
        has_likelihoods = any(one.likelihood is not None for one in self._responses)
        how = "`capeval mcq answer --likelihood`"
        if chosen.needs_likelihood and not has_likelihoods:
            message = f"no response has likelihoods; ask again with {how}"
            raise UsageError(f"--select {chosen.name}: {message}")
        if self._o.select != ALL:
            return []
        left_out = [] if has_likelihoods else [f"strategies with likelihoods ({how} stores them)"]
        left_out += [] if self.asker else ["exact+llm and tomato (they need --llm)"]
        if left_out:
            self._o.on_notice(f"--select all leaves out {' and '.join(left_out)}")
        return [
            one
            for one in STRATEGIES.values()
            # Versions of one published reader stand behind the one that fits the benchmark.
            if "@" not in one.name
            and (has_likelihoods or not one.needs_likelihood)
            and (self.asker or one.asks is None)
        ]

    def _decide(self, chosen: Strategy) -> tuple[Strategy, list[Decision | None]]:
        found = [chosen.decide(one) for one in self._asked]
        open_ = [at for at, decision in enumerate(found) if decision is None]
        if self.asker is not None:
            self._todo += [
                Undecided(self._asked[at], chosen, partial(found.__setitem__, at)) for at in open_
            ]
        elif open_:
            self._o.on_notice(
                f"{counted(len(open_), 'reply', 'replies')} that no pattern of {chosen.name} "
                "reads would go to a model; without --llm, they are decided by chance"
            )
            for at in open_:
                found[at] = chosen.end(self._asked[at], "")
        return chosen, found

    async def prepare(self, _: Locks) -> WorkEstimate:
        usage = self._reading.expected() if self._reading else Usage()
        replies = counted(len(self._todo), "reply", "replies")
        lines = [f"{replies} that no rule can read, for {self.model or 'a model'}"]
        return self.estimate(usage, lines, {"replies": len(self._todo)})

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Done[Grades]]:
        """Have a model read the replies that rules leave open, count, and write `out`."""
        reader = self.model
        if self.asker and self._reading and self._todo:
            # Replies so far are in the cache.
            if stopped := (await execute(self._reading, self._reading.plan(), progress)).stopped:
                raise stopped
            if weights := await self.asker.weights(reader):
                reader = f"{reader} ({weights})"
        main, *others = (
            self._count(*one, reader, is_main=at == 0) for at, one in enumerate(self._decided)
        )
        found = main
        if others:
            settings = {**main.settings, "select": ALL}
            found = main.model_copy(update={"strategies": others, "settings": settings})
        if self.out is not None:
            # pydantic's own JSON: that of thousands of items takes a second otherwise.
            write_output(self.out, found.model_dump_json(indent=1) + "\n")
        failed = found.decided_by.get(MODEL_FAILED, 0)
        left = Left("grades", _LABELS, {}, len(self._responses), failed)
        yield Done(found, [left], [] if self.out is None else [str(self.out)])

    def _count(
        self, chosen: Strategy, decisions: Sequence[Decision | None], reader: str, *, is_main: bool
    ) -> Grades:
        o, convention = self._o, self._convention if is_main else None
        decided = [one for one in decisions if one is not None]
        signature = {
            "capeval": "mcq",
            "set": "+".join(sorted({one.benchmark for one in self._responses})),
            "select": chosen.name.replace("exact", f"exact@{EXACT}"),
        }
        if convention is not None:
            signature["as"] = convention.name
        if chosen.asks is not None:
            signature |= {"llm": reader or "none", "prompts": chosen.prompt_label}
        if any(one.by_chance for one in decided):
            signature["seed"] = str(o.seed)
        signature["data"] = f"{responses_hash(self._responses)[:6]}@{len(self._responses)}"
        signature[VERSION] = __version__
        settings = {
            "model": self._model,
            "select": chosen.name,
            "strategy": chosen.name,
            **({"exact": EXACT} if "exact" in chosen.name else {}),
            "as": convention.name if convention else None,
            "llm": o.llm,
            "seed": o.seed,
            "resamples": o.resamples,
            "published": chosen.published,
        }
        only_read = convention is not None and convention.only_read
        graded = Graded(
            self._asked, decided, self._questions, only_read, resamples=o.resamples, seed=o.seed
        )
        return count_grades(
            graded,
            signature=signature_text(signature),
            settings=settings,
            by=tuple(o.by) if is_main else None,
        )


@command("mcq grade", "yes", "dry_run", "as_json", "form", "full", options=GradeOptions)
@asynccontextmanager
async def open_grading(o: GradeOptions, *, dry_run: bool = False) -> AsyncIterator[GradingSession]:
    """Read answers from replies by a named strategy, and count the right ones.

    A run gets a grades.json; for a file of responses, --out names it.

    A reply that yields no answer is wrong; a failed call is not counted. Tables show how many
    replies each rule decided, and how many were decided by chance.
    """
    if o.llm is None:
        if _chosen(o)[0].asks == "choose":
            raise UsageError("--select exact+llm: name a chat model with --llm")
        yield GradingSession(o, None)
        return
    key = key_for(o, "there is no key for --llm", offline=dry_run)
    async with open_asker(o, key) as asker:
        yield GradingSession(o, asker)


mcq_grade_async, mcq_grade = functions("mcq_grade", open_grading, GradeOptions, Grades)


def _chosen(o: GradeOptions) -> tuple[Strategy, Convention | None]:
    convention = CONVENTIONS[o.convention] if o.convention else None
    named = None if o.select == ALL else o.select
    return strategy(named or (convention.select if convention else "exact")), convention


def _in_set(
    responses: Sequence[Response], questions: Sequence[Question], on_notice: Notices
) -> tuple[Response, ...]:
    """Return the responses to some questions; their options and answers must match."""
    known = {(question.benchmark, question.id): question for question in questions}
    found = []
    for one in responses:
        question = known.get((one.benchmark, one.id))
        if question is None:
            continue
        if (question.options, question.answer) != (one.options, one.answer):
            raise UsageError(
                f"--questions: the options or the answer of {shown(one.id)} differ from its "
                "response; answer the new questions (`capeval mcq answer` repeats no finished "
                "call), or omit --questions"
            )
        found.append(one)
    if not found:
        raise UsageError("--questions: none of the responses is to one of these questions")
    if others := len(responses) - len(found):
        verb = "is" if others == 1 else "are"
        on_notice(f"--questions: {counted(others, 'response')} to other questions {verb} left out")
    return tuple(found)
