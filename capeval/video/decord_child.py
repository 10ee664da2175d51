"""Run by `DecordDecoder` in a separate process; imports nothing of capeval.

Writes a line of JSON (`times`, `fps`), reads a line (the indices), writes a line (`shape`) and the
pixels; or a line with `error`.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    """Decode the video that the first argument names."""
    # decord's libraries print to stdout; that must not mix with the answers.
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def send(**values: object) -> None:
        answer.write((json.dumps(values) + "\n").encode())
        answer.flush()

    try:
        import decord

        reader = decord.VideoReader(sys.argv[1], num_threads=1)
        times = reader.get_frame_timestamp(range(len(reader)))[:, 0]
        send(times=[float(time) for time in times], fps=float(reader.get_avg_fps()))
        wanted = json.loads(sys.stdin.readline())
        frames = reader.get_batch(wanted).asnumpy()
        # An idle reader decodes ahead without bound.
        del reader
        send(shape=list(frames.shape))
        answer.write(memoryview(frames).cast("B"))
        answer.flush()
    except Exception as fault:
        lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
        send(error=lines[0] if lines else type(fault).__name__)
    # Its threads may never end by themselves.
    os._exit(0)


if __name__ == "__main__":
    main()
