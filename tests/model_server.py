"""A model's server for `--serve`: `python model_server.py MOOD FOLDER`, then what capeval adds.

It writes the ids of its processes to FOLDER/pids, its own and that of a child that ignores SIGTERM,
and each request to FOLDER/asked: the model's name. It captions frames and judges captions.
The moods: `good`; `slow` to reply; `mortal`, which ends at its first call for work; `crash` and
`hang`, which never answer; `deaf`, which ignores SIGTERM.
"""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def alive(pids: list[str]) -> list[str]:
    """The processes that have not ended; a zombie has."""
    found = []
    for pid in pids:
        with suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
            found += [pid] if state.split()[0] != "Z" else []
    return found


def note(file: str, line: object) -> None:
    with (Path(sys.argv[2]) / file).open("a", encoding="utf-8") as stream:
        stream.write(f"{line}\n")


async def serve(mood: str, name: str, port: int) -> None:
    from tests.judge_responder import answer as judge
    from tests.judge_responder import is_preflight
    from tests.server import LoopbackServer, completion

    def answer(request: dict[str, Any]) -> Any:
        note("asked", request["model"])
        if mood == "mortal" and not is_preflight(request):
            os._exit(7)
        if isinstance(request["messages"][-1]["content"], str):
            return judge(request)
        return completion("A man runs along a beach.")

    latency = 0.5 if mood == "slow" else 0.0
    async with LoopbackServer(answer, models=[name], latency=latency, port=port, keep=False):
        await asyncio.Event().wait()


def main() -> None:
    mood, folder = sys.argv[1], Path(sys.argv[2])
    given = dict(zip(sys.argv[3::2], sys.argv[4::2], strict=True))
    if mood == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = os.spawnl(os.P_NOWAIT, sys.executable, sys.executable, "-c", CHILD)
    pids = folder / "pids"
    before = alive(pids.read_text(encoding="utf-8").split()) if pids.exists() else []
    note("asked", f"start beside {len(before)}")
    note("pids", f"{os.getpid()}\n{child}")
    print("Loading the weights\n\x1b[2J", flush=True)
    if mood == "hang":
        time.sleep(600)
    if mood == "crash":
        print([given.get("--api-key"), os.environ.get("HF_TOKEN")])
        raise RuntimeError("no GPU has room for the weights")
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    asyncio.run(serve(mood, given["--served-model-name"], int(given["--port"])))


if __name__ == "__main__":
    main()
