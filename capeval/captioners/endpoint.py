"""Captions from a chat endpoint that takes images."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capeval.captioners.caption_cleanup import CUT_OFF, without_thinking
from capeval.captioners.images import ImageForm, encode
from capeval.captioners.protocol import Captioned, CaptionRequest, Uncaptioned
from capeval.errors import ReplyError, RequestRefused, RetriesExhausted
from capeval.llm import Asker, ChatReply, ChatRequest


@dataclass(frozen=True)
class EndpointCaptioner:
    """Sends the frames of each video, then its prompt, in one message.

    `model` is the name that runs and caption lines bear; `served` the one that the endpoint knows.
    A caption that is cut off is kept with a warning: a caption is not a contract.
    """

    asker: Asker
    model: str
    served: str
    form: ImageForm
    system: str | None = None
    max_new_tokens: int = 1024
    temperature: float | None = 0.0
    max_concurrency: int = 32

    @property
    def name(self) -> str:
        """The model, as the run and the caption lines name it."""
        return self.model

    @property
    def settings(self) -> Mapping[str, Any]:
        """All that decides a caption besides frames and prompt.

        The endpoint's address is not part of it: several servers may share the work on one run.
        """
        return {
            "backend": "endpoint",
            "model": self.served,
            "system": self.system,
            "max_new_tokens": self.max_new_tokens,
            "temperature": self.temperature,
            "images": self.form.settings(),
        }

    @property
    def batch_size(self) -> int:
        """One: the endpoint batches by itself."""
        return 1

    @property
    def concurrency(self) -> int:
        """How many videos may be under way."""
        return self.max_concurrency

    async def caption(self, requests: Sequence[CaptionRequest]) -> list[Captioned | Uncaptioned]:
        """Return one outcome per request, in order.

        Raises
        ------
        EndpointRefused, EndpointDown, BudgetReached
            No video can be captioned any more.
        """
        tasks = [self._one(request) for request in requests]
        # Raw frames are hundreds of megabytes: none is held once it is encoded.
        del requests
        return list(await asyncio.gather(*tasks))

    async def aclose(self) -> None:
        """Nothing: whoever made the asker closes its client."""

    async def _one(self, request: CaptionRequest) -> Captioned | Uncaptioned:
        index, prompt = request.index, request.prompt
        encoded = await asyncio.to_thread(encode, request.frames, self.form)
        del request
        content = [*encoded.parts, {"type": "text", "text": prompt}]
        system = [{"role": "system", "content": self.system}] if self.system else []
        chat = ChatRequest(
            model=self.served,
            messages=(*system, {"role": "user", "content": content}),
            max_tokens=self.max_new_tokens,
            temperature=self.temperature,
        )
        started = time.perf_counter()
        try:
            answer = await self.asker.ask(chat, _caption, attempts=1, whole=False)
        except (ReplyError, RequestRefused, RetriesExhausted) as failure:
            return Uncaptioned(index, str(failure))
        reply = answer.replies[-1]
        warnings = []
        if reply.finish_reason == "length":
            warnings.append(CUT_OFF.format(reply.usage.output_tokens or self.max_new_tokens))
        if answer.value != reply.text.strip():
            warnings.append("the model's reasoning in front of the caption was taken off")
        return Captioned(
            index=index,
            text=answer.value,
            usage=answer.usage,
            seconds=time.perf_counter() - started,
            model=self.model,
            revision=reply.model,
            warnings=tuple(warnings),
            details={
                "endpoint": self.asker.base_url,
                "fingerprint": reply.fingerprint,
                "left_off": list(reply.left_off),
                "image": {
                    "width": encoded.width,
                    "height": encoded.height,
                    "bytes": encoded.bytes,
                },
            },
        )


def _caption(reply: ChatReply) -> str:
    text = without_thinking(reply.text).strip()
    if not text:
        raise ReplyError("the reply holds reasoning and no caption")
    return text
