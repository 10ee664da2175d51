"""`--serve`: the model's server is started, used and ended, however the command ends."""

import json
import re
import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from capeval.errors import EndpointRefused
from capeval.llm.serving import serving
from tests.cli.conftest import ROOT, Workspace, end_of, wait_until

GENERATE = ("generate", "--model", "mine", "--frames", "2", "--limit", "3", "--serve")


class Served(Workspace):
    """A workspace whose model `mine` has a server of some mood."""

    def mood(self, mood: str, *more: str) -> str:
        program = (sys.executable, str(ROOT / "tests" / "model_server.py"), mood, str(self.folder))
        command = shlex.join((*program, *more))
        self.write("capeval.toml", f'[models."mine"]\nserve = {json.dumps(command)}\n')
        return command

    @property
    def pids(self) -> list[str]:
        file = self.folder / "pids"
        return file.read_text(encoding="utf-8").split() if file.exists() else []

    def alive(self) -> list[str]:
        """The processes of all its servers that have not ended; a zombie has."""
        found = []
        for pid in self.pids:
            with suppress(OSError):
                state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
                found += [pid] if state.split()[0] != "Z" else []
        return found

    def captions(self) -> int:
        file = self.folder / "runs" / "mine" / "captions.jsonl"
        return len(file.read_bytes().splitlines()) if file.exists() else 0


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path / "work", "")


def ended(work: Served) -> bool:
    assert work.pids
    wait_until(lambda: not work.alive())
    return True


def test_a_server_is_started_for_what_is_left_and_ended(served: Served) -> None:
    command = served.mood("good", "--tensor-parallel-size", "2")
    made = served.run(*GENERATE, "--gpus", "8")
    assert (made.code, served.captions()) == (0, 3), made.err
    added = r" --served-model-name mine --data-parallel-size 4 --host 127.0.0.1 --port \d+\n"
    assert re.search(re.escape(f"Starting the server: {command}") + added, made.err)
    assert ended(served)
    again = served.run(*GENERATE)
    assert (again.code, "captioned 3/3" in again.out) == (0, True)
    assert "Starting" not in again.err
    dry = served.run(*GENERATE, "--limit", "5", "--gpus", "2", "--dry-run")
    assert "mine: 2 videos to caption" in dry.out
    assert f"--serve would start: {command} " in dry.err
    assert len(served.pids) == 2


def test_a_server_that_crashes_shows_the_end_of_its_log_without_keys(served: Served) -> None:
    served.mood("crash", "--api-key", "key-of-the-server")
    made = served.run(*GENERATE, "-q", HF_TOKEN="token-of-the-hub")
    assert (made.code, made.out) == (2, "")
    *log, error = made.lines
    assert {"| Loading the weights", "| ['[hidden]', '[hidden]']"} <= {*log}
    assert "the server of mine ended before it answered; its log is /" in error
    assert "RuntimeError: no GPU has room for the weights" in error
    path = re.findall(r"its log is (\S+) ", error)[0]
    assert "Traceback (most recent call last)" in Path(path).read_text(encoding="utf-8")
    assert "\x1b" not in made.err
    assert not (served.folder / "runs").exists()
    assert ended(served)
    planned = served.run(*GENERATE, "--dry-run")
    assert "--api-key [hidden] " in planned.err
    assert "key-of-the-server" not in planned.err + made.err


async def test_a_server_that_never_answers_is_given_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capeval.llm.serving._STARTUP", 1.5)
    command = (*shlex.split(served.mood("hang")), "--served-model-name", "mine")
    with pytest.raises(EndpointRefused, match="did not answer within"):
        async with serving("mine", command, served.folder, None, lambda _: None):
            raise AssertionError
    assert ended(served)


def test_a_server_that_dies_at_work_stops_the_run(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capeval.llm.client.LONGEST_WAIT", 0.1)
    served.mood("mortal")
    made = served.run(*GENERATE, "--limit", "1")
    assert (made.code, served.captions()) == (3, 0)
    assert "the server of mine ended before the work was done; its log is" in made.err
    assert "| The server has ended with exit code 7." in made.lines
    assert ended(served)


@pytest.mark.parametrize(
    ("mood", "number"),
    [("hang", signal.SIGTERM), ("slow", signal.SIGKILL)],
)
def test_no_process_outlives_the_command(mood: str, number: signal.Signals, served: Served) -> None:
    """It is stopped while the server starts, or while it works."""
    served.mood(mood)
    process = served.start(*GENERATE, "--max-concurrency", "1")
    wait_until(lambda: bool(served.captions() if mood == "slow" else len(served.pids) == 2))
    assert served.alive() == served.pids
    process.send_signal(number)
    stopped = end_of(process)
    if number == signal.SIGKILL:
        assert stopped.code == -number
    else:
        assert stopped.code == 130
        assert stopped.lines[-1].endswith("run the same command to resume")
    assert ended(served)
    assert (served.captions() > 0) == (mood == "slow")


def test_a_server_that_does_not_end_is_killed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capeval.llm.serving._UNTIL_KILLED", 1.0)
    served.mood("deaf")
    assert served.run(*GENERATE).code == 0
    assert ended(served)


@pytest.mark.parametrize(
    ("serve", "arguments", "message"),
    [
        (None, (), 'smolvlm2-256m has no serve command: set serve of [models."smolvlm2-256m"] in'),
        ("vllm 'serve", (), "No closing quotation; correct serve of"),
        ("no-such-vllm serve x", (), "no-such-vllm, which serves smolvlm2-256m, is not installed"),
        ("true -tp 4", ("--gpus", "6"), "--gpus 6 cannot be divided by the 4 GPUs"),
        ("true -tp four", ("--gpus", "4"), "invalid int value: 'four'; correct serve of"),
        ("true", ("--base-url", "http://gpu/v1"), "--serve starts a server of its own: omit"),
        ("true", ("--device", "cpu"), "--device is for models in this process"),
    ],
)
def test_a_mistake_is_one_line(
    serve: str | None, arguments: tuple[str, ...], message: str, served: Served
) -> None:
    if serve:
        served.write("capeval.toml", f'[models."smolvlm2-256m"]\nserve = "{serve}"\n')
    made = served.run("generate", "--model", "smolvlm2-256m", "--serve", "-q", *arguments)
    assert message in made.refusal
