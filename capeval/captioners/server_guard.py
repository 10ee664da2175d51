"""Runs a server and ends it with capeval: `python server_guard.py COMMAND ARGUMENTS ...`.

capeval holds the other end of the pipe that is this program's standard input. It closes when
capeval is done, and the system closes it when capeval dies, of whatever: then the server and its
children are asked to end (SIGTERM) and, after a while, killed. This program is the leader of their
process group, so no other group can have its number. It imports nothing but the standard library.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

# Seconds. vLLM stops its engines and frees their GPUs in a few.
_UNTIL_KILLED = 10.0


def main() -> None:
    """Run the server until it ends by itself or standard input is closed."""
    # This program gets the signal that it sends to its group. The server does not inherit this.
    signal.signal(signal.SIGTERM, lambda *_: None)
    server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)  # noqa: S603
    threading.Thread(target=_end_with_capeval, daemon=True).start()
    print(f"The server has ended with exit code {server.wait()}.", flush=True)
    # Children of a server that has ended keep their GPUs. This program is killed with them.
    os.killpg(0, signal.SIGKILL)


def _end_with_capeval() -> None:
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGTERM)
    time.sleep(_UNTIL_KILLED)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
