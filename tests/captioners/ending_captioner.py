"""Run as a program: captions the sample on Ray with a captioner that one video kills.

Prints, as JSON, which videos have a caption, why others have none, and what is refused.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence

import capeval
from capeval.captioners import CaptionRequest
from capeval.errors import UsageError


class Ending:
    """Ends its process at one video, and raises at another."""

    name = "ending"

    def caption(self, requests: Sequence[CaptionRequest]) -> list[str]:
        for request in requests:
            if request.index == "sample_02":
                os.kill(os.getpid(), 9)
            if request.index == "sample_03":
                raise RuntimeError("no kernel image")
        return [f"A dog of {request.index} runs." for request in requests]


class Locked(Ending):
    """Cannot be sent to another process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def main() -> None:
    try:
        capeval.generate(Locked(), ray="local", frames=1)
        refused = ""
    except UsageError as error:
        refused = str(error)
    made = capeval.generate(Ending(), ray="local", frames=1)
    captions = {line["index"]: line["caption"] for line in made.captions}
    print(json.dumps({"captions": captions, "left": dict(made.left), "refused": refused}))


if __name__ == "__main__":
    main()
