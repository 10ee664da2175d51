"""Run as a program, with a cluster's address: captions the sample with a captioner that dies.

Prints, as JSON, which videos have a caption, why others have none, and what is refused.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import capeval
from capeval.captioners import CaptionRequest
from capeval.errors import UsageError


class Ending:
    """Ends its process at one video, at another once, and raises at a third."""

    name = "ending"

    def caption(self, requests: Sequence[CaptionRequest]) -> list[str]:
        for request in requests:
            once = Path("killed-once")
            if request.index == "sample_02" or (request.index == "sample_05" and not once.exists()):
                if request.index == "sample_05":
                    once.touch()
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
        capeval.generate(Locked(), ray=sys.argv[1], frames=1)
        refused = ""
    except UsageError as error:
        refused = str(error)
    made = capeval.generate(Ending(), ray=sys.argv[1], frames=1)
    captions = {line["index"]: line["caption"] for line in made.captions}
    print(json.dumps({"captions": captions, "left": dict(made.left), "refused": refused}))


if __name__ == "__main__":
    main()
