import json
import re
import shlex
import shutil
import signal
import sys
from pathlib import Path

import pytest

from capeval.errors import EndpointRefused
from capeval.llm.client import ServeOptions
from capeval.llm.serving import Server, find_server, serving
from tests.cli.conftest import Workspace, end_of, wait_until
from tests.model_server import alive
from tests.world import ROOT

GENERATE = ("generate", "--model", "mine", "--limit", "3", "--serve")
JUDGE = ("judge", "ours.jsonl", "--annotations", "annotations.json", "--judge", "mine", "--serve")


class Served(Workspace):
    """A workspace whose model and judge `mine` has a server of some mood."""

    def mood(self, mood: str, *more: str) -> str:
        program = (sys.executable, str(ROOT / "tests" / "model_server.py"), mood, str(self.folder))
        command = shlex.join((*program, *more))
        tables = ('[models."mine"]', '[judges."mine"]')
        serve = f"serve = {json.dumps(command)}\n"
        options = '[defaults]\nframes = "2"\nbase_url = "http://gpu/v1"\n'
        self.write("capeval.toml", options + "".join(f"{table}\n{serve}" for table in tables))
        self.fill(4, "ours.jsonl")
        return command

    @property
    def pids(self) -> list[str]:
        file = self.folder / "pids"
        return file.read_text(encoding="utf-8").split() if file.exists() else []

    def alive(self) -> list[str]:
        return alive(self.pids)

    def asked(self) -> list[str]:
        """What the servers were asked since the last look."""
        file = self.folder / "asked"
        lines = file.read_text(encoding="utf-8").splitlines()
        file.unlink()
        return lines

    def lines(self) -> int:
        """How many captions and verdicts are written."""
        runs = self.folder / "runs"
        files = (runs / "mine/captions.jsonl", runs / "ours/mine@tuna-cap-v1/judgments.jsonl")
        return sum(len(file.read_bytes().splitlines()) for file in files if file.exists())


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
    assert (made.code, served.lines()) == (0, 3), made.err
    added = r" --served-model-name mine --data-parallel-size 4 --host 127.0.0.1 --port \d+\n"
    assert re.search(re.escape(f"Starting the server: {command}") + added, made.err)
    assert ended(served)
    again = served.run(*GENERATE)
    assert (again.code, "captioned 3/3" in again.out) == (0, True)
    assert "Starting" not in again.err
    dry = served.run(*GENERATE, "--limit", "5", "--gpus", "2", "--dry-run")
    assert "mine: 2 videos to caption" in dry.out
    assert f"Would start the server: {command} " in dry.err
    assert len(served.pids) == 2


def test_a_judge_is_known_by_its_serve_command_and_asked_nothing_twice(served: Served) -> None:
    command = served.mood("good")
    made = served.run(*JUDGE)
    assert (made.code, served.lines()) == (0, 4), made.err
    assert re.search(r"^Judge: mine at http://127.0.0.1/v1 \(serve \w{6}\)", made.err, re.MULTILINE)
    start, *calls = served.asked()
    assert calls
    # With other GPUs and at another port, it is the same judge.
    shutil.rmtree(served.folder / "runs")
    again = served.run(*JUDGE, "--gpus", "2")
    assert "--data-parallel-size 2 " in again.err
    assert (again.code, "\n0 calls (" in again.out) == (0, True), again.err
    assert served.asked() == [start]
    assert served.run(*JUDGE).code == 0
    other = json.dumps(f"{command} --dtype half")
    served.write("capeval.toml", f'[judges."mine"]\nserve = {other}')
    dry = served.run(*JUDGE, "--dry-run")
    assert "ours: 4 captions to judge" in dry.out
    assert "Would start the server: " in dry.err
    assert not (served.folder / "asked").exists()
    assert ended(served)


def test_a_program_beside_the_file_is_found_from_a_folder_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bin", "below"):
        (tmp_path / name).mkdir()
    (tmp_path / "capeval.toml").touch()
    (tmp_path / "bin" / "serve").touch(mode=0o700)
    monkeypatch.chdir(tmp_path / "below")
    found = find_server(ServeOptions(), "judges", "m", "bin/serve --fast", "m", offline=False)
    assert found.command[0] == "bin/serve"


@pytest.mark.parametrize("words", ["./checkpoint", "base --lora-modules m=./checkpoint"])
def test_one_relative_path_in_two_folders_is_two_judges(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name in ("a/checkpoint", "b/checkpoint"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name).with_name("capeval.toml").touch()
        for place in ("..", "."):  # the file's folder, and one below it
            monkeypatch.chdir(tmp_path / name / place)
            how = ("judges", "m", f"vllm serve {words}", "m")
            found.append(find_server(ServeOptions(), *how, offline=True).weights)
    assert found[0] == found[1] != found[2] == found[3]


@pytest.mark.parametrize("command", [GENERATE, JUDGE])
def test_no_server_is_started_before_the_question(command: tuple[str, ...], served: Served) -> None:
    served.mood("good")
    with (served.folder / "capeval.toml").open("a") as file:
        file.write('[prices."mine"]\ninput = 1000\noutput = 1000\n')
    made = served.run(*command)
    assert (made.code, served.pids) == (2, [])
    assert "this is expected to cost" in made.err


def test_eval_serves_the_judge_once_after_all_captions(served: Served) -> None:
    served.mood("good")
    served.write("theirs.jsonl", '{"index": "sample_01", "caption": "A dog runs."}')
    names = ("eval", "theirs.jsonl", "mine", "--limit", "1", "--judge", "mine")
    made = served.run(*names, "--annotations", "sample", "--serve", "--judge-serve")
    assert made.code == 0, made.err
    assert made.out.startswith("theirs: F1 ")
    asked = served.asked()
    begins = [n for n, line in enumerate(asked) if line.startswith("start")]
    assert [asked[n] for n in begins] == ["start beside 0"] * 2
    captioning, judging = asked[1 : begins[1]], asked[begins[1] + 1 :]
    assert len(captioning) == 2  # the test call, and one video
    assert len(judging) > 4
    assert ended(served)


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
    server = Server("mine", command, served.folder, "", None, lambda _: None)
    with pytest.raises(EndpointRefused, match="did not answer within"):
        async with serving(server):
            raise AssertionError
    assert ended(served)


@pytest.mark.parametrize("command", [GENERATE, JUDGE])
def test_a_server_that_dies_at_work_stops_the_run(
    command: tuple[str, ...], served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capeval.llm.client.LONGEST_WAIT", 0.1)
    served.mood("mortal")
    made = served.run(*command, "--limit", "1")
    assert (made.code, served.lines()) == (3, 0)
    assert "the server of mine ended before the work was done; its log is" in made.err
    assert "| The server has ended with exit code 7." in made.lines
    assert ended(served)


@pytest.mark.parametrize(
    ("command", "mood", "number"),
    [(GENERATE, "hang", signal.SIGTERM), (JUDGE, "slow", signal.SIGKILL)],
)
def test_no_process_outlives_the_command(
    command: tuple[str, ...], mood: str, number: signal.Signals, served: Served
) -> None:
    """It is stopped while the server starts, or while it works."""
    served.mood(mood)
    process = served.start(*command, "--max-concurrency", "1")
    wait_until(lambda: bool(served.lines() if mood == "slow" else len(served.pids) == 2))
    assert served.alive() == served.pids
    process.send_signal(number)
    stopped = end_of(process)
    if number == signal.SIGKILL:
        assert stopped.code == -number
    else:
        assert stopped.code == 130
        assert stopped.lines[-1].endswith("run the same command to resume")
    assert ended(served)
    assert (served.lines() > 0) == (mood == "slow")


def test_a_server_that_does_not_end_is_killed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capeval.llm.serving._UNTIL_KILLED", 1.0)
    served.mood("deaf")
    assert served.run(*GENERATE).code == 0
    assert ended(served)


SMOL = "generate --model smolvlm2-256m --serve"
OURS = "judge ours.jsonl --annotations annotations.json --serve"


@pytest.mark.parametrize(
    ("serve", "command", "message"),
    [
        (None, SMOL, 'no serve command: omit --serve, or set serve of [models."smolvlm2'),
        ("vllm 'serve", SMOL, "No closing quotation; correct serve of"),
        ("no-such-vllm serve x", SMOL, "no-such-vllm, which serves smolvlm2-256m, is not"),
        ("true -tp 4", f"{SMOL} --gpus 6", "--gpus 6 cannot be divided by the 4 GPUs"),
        ("true -tp four", f"{SMOL} --gpus 4", "invalid int value: 'four'; correct serve of"),
        ("true", f"{SMOL} --base-url http://gpu/v1", "--serve starts a server of its own: omit"),
        (None, f"{OURS} --judge lexical", "only a chat model has a server to start; the judge"),
        (None, OURS, "name the judge whose server is to be started"),
        (None, "eval m --judge-serve --judge-url http://gpu/v1", "omit --judge-url"),
    ],
)
def test_a_mistake_is_one_line(
    serve: str | None, command: str, message: str, served: Served
) -> None:
    served.fill(1, "ours.jsonl")
    if serve:
        served.write("capeval.toml", f'[models."smolvlm2-256m"]\nserve = "{serve}"\n')
    assert message in served.run("-q", *command.split()).refusal
