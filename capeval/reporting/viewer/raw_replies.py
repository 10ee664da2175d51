"""A judge's replies about one video, found in the cache by judging the video again offline.

The judge asks the cache in place of the endpoint, so that its own rules decide what it asked and
what it asked again. Nothing is called.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from capeval.errors import CacheMiss, CapevalError, InputError
from capeval.judging.llm_judge import LLMJudge
from capeval.judging.prompts import PromptSet, load_prompts, named_prompts
from capeval.judging.protocol import Tally
from capeval.judging.run import inputs_of, is_by
from capeval.llm.asker import Asker
from capeval.llm.cache import ReplyCache, identify
from capeval.llm.meter import Meter
from capeval.llm.types import ChatReply, ChatRequest, State
from capeval.runs.judged_run import JudgedRun
from capeval.schema import Annotation, Caption, Judgment, Scored


@dataclass(frozen=True)
class RawReply:
    """One reply as the model gave it.

    `repeat` and `attempt` count from 1; `state` is the cache's; `complaint` is what was wrong with
    the reply, as the model read it when it was asked again, None where the reply was accepted.
    """

    repeat: int
    stage: str
    attempt: int
    state: State
    model: str
    finish_reason: str | None
    text: str
    complaint: str | None


@dataclass(frozen=True)
class RawReplies:
    """The replies about one video in their order; `notices` say what is missing."""

    replies: tuple[RawReply, ...] = ()
    notices: tuple[str, ...] = ()


async def raw_replies(
    run: JudgedRun,
    index: str,
    *,
    prompts: str | Path | None = None,
    cache_path: Path | None = None,
) -> RawReplies:
    """Return what the judge of a run replied about one video, as far as the cache has it.

    Parameters
    ----------
    prompts : the folder of the set that it was judged with; by default the set that the judgment
        names, packaged or in the working folder
    cache_path : the reply cache; by default the user's
    """
    judgment, caption = run.judgments.get(index), run.captions.get(index)
    annotation = next((one for one in run.annotations if one.index == index), None)
    if judgment is None or annotation is None:
        return _nothing("this video is not judged")
    made = judgment.provenance
    if judgment.inputs is None or made.judge == "unknown":
        return _nothing("its verdicts come from another program, without replies")
    if made.prompts is None:
        return _nothing(f"{made.judge} follows rules and asks no model, so there are no replies")
    if caption is None:
        return _nothing("its caption is missing, and without it the replies cannot be looked up")
    if caption.is_empty:
        return _nothing("its caption is empty, so the model was not asked")
    if not made.base_url:
        return _nothing("its judgment does not name an endpoint")
    try:
        found = _prompts_of(made.prompts, prompts)
    except _PromptsMissing as reason:
        return _nothing(str(reason))
    notices: list[str] = []
    with closing(ReplyCache(cache_path, on_notice=notices.append)) as cache:
        cached = _CachedReplies(cache, made.base_url)
        asker = Asker(cached, None, base_url=made.base_url, meter=Meter())
        judge = LLMJudge(
            asker,
            made.judge,
            found,
            base_url=asker.base_url,
            endpoint=made.endpoint,
            reasoning=made.reasoning,
        )
        if changed := _changed(judge, annotation, caption, judgment):
            return _nothing(changed)
        missing = await _judge_again(judge, cached, annotation, caption, judgment)
        return RawReplies(tuple(cached.replies), (*missing, *notices))


class _PromptsMissing(Exception):
    """The prompts that a caption was judged with are not here."""


@dataclass
class _CachedReplies:
    """Completes requests from the cache, in place of the endpoint, and records the replies."""

    cache: ReplyCache
    base_url: str
    tally: Tally = field(default_factory=Tally)
    replies: list[RawReply] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> ChatReply:
        found = self.cache.look(identify(request, self.base_url).key)
        if len(request.messages) > 1:
            # The request is a retry: its last message says what was wrong with the reply.
            self.complain(str(request.messages[-1]["content"]))
        if found is None:
            raise CacheMiss("not in the reply cache")
        reply, state = found
        self.replies.append(
            RawReply(
                repeat=request.repeat + 1,
                stage=self.tally.stage,
                attempt=1 + len(request.messages) // 2,
                state=state,
                model=reply.model,
                finish_reason=reply.finish_reason,
                text=reply.text,
                complaint=None,
            )
        )
        return reply

    def complain(self, complaint: str) -> None:
        """Record what was wrong with the last reply."""
        if self.replies:
            self.replies[-1] = replace(self.replies[-1], complaint=complaint)


async def _judge_again(
    judge: LLMJudge,
    cached: _CachedReplies,
    annotation: Annotation,
    caption: Caption,
    judgment: Judgment,
) -> list[str]:
    # A caption is unscored at the first repeat that fails.
    done = len(judgment.repeats)
    repeats = max(1, done) if isinstance(judgment, Scored) else done + 1
    missing = []
    for repeat in range(repeats):
        try:
            await judge.judge(annotation, caption.caption, repeat=repeat, tally=cached.tally)
        except CacheMiss:
            which = f"repeat {repeat + 1}, " if repeats > 1 else ""
            missing.append(
                f"{which}{cached.tally.stage}: this reply and those after it are not in the cache "
                "(was the cache cleared, or was the run judged on another machine?)"
                if isinstance(judgment, Scored)
                else f"{which}{cached.tally.stage}: no reply is in the cache"
            )
        except CapevalError as failure:
            if cached.replies and cached.replies[-1].complaint is None:
                cached.complain(str(failure))
    return missing


def _changed(
    judge: LLMJudge, annotation: Annotation, caption: Caption, judgment: Judgment
) -> str | None:
    now, then = inputs_of(judge, annotation, caption), judgment.inputs
    if then is None:
        return None
    if then.caption != now.caption:
        return "the caption has changed since it was judged, so its replies cannot be looked up"
    if then.reference != now.reference:
        return "the annotation has changed since it was judged, so its replies cannot be looked up"
    if is_by(judge, judgment):
        return None
    return _elsewhere(judgment.provenance.prompts or "", "the prompts of this name have changed")


def _prompts_of(label: str, given: str | Path | None) -> PromptSet:
    found = None if given is None else load_prompts(given)
    with suppress(InputError):
        found = named_prompts(label, given) or found
    if found is None:
        raise _PromptsMissing(_elsewhere(label, "name their folder with --prompts"))
    if found.hash[:6] != label.rpartition("@")[2]:
        raise _PromptsMissing(_elsewhere(label, f"found {found.label}"))
    return found


def _elsewhere(label: str, why: str) -> str:
    return (
        f"it was judged with the prompts {label}, which are not available ({why}), so its replies "
        "cannot be looked up"
    )


def _nothing(reason: str) -> RawReplies:
    return RawReplies(notices=(reason,))
