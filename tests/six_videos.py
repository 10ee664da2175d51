"""Six videos, or more, with a caption each, and a judge of them."""

from capeval.llm.replies import ChatRequest
from capeval.schema import Annotation
from tests.judge_responder import reply_to

COUNT = 6


def videos(count: int = COUNT) -> list[Annotation]:
    man, car = ("A man runs.", "action", 3), ("The car is red.", "attribute", 1)
    elements = [{"content": c, "type": kind, "weight": weight} for c, kind, weight in (man, car)]
    return [
        Annotation.model_validate(
            {
                "index": f"V{n}",
                "visual_characteristic": "Low-Dynamic",
                "events": [{"event": f"Man {n} runs to a red car.", "visual_elements": elements}],
            }
        )
        for n in range(count)
    ]


def captions(count: int = COUNT) -> dict[str, str]:
    cars = ["a red car", "a blue car", "a tree"]
    return {f"V{n}": f"Man {n} runs to {cars[n % 3]}. Birds sing." for n in range(count)}


def right(request: ChatRequest) -> str:
    return reply_to(str(request.messages[0]["content"]), request.repeat)
