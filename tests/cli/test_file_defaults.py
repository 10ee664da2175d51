"""`[defaults]` and `[commands.NAME]` of `capeval.toml`."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.conftest import Workspace
from tests.judged_runs import score_run, write_annotations
from tests.server import LoopbackServer, unauthorized
from tests.world import Said, typed

KEY = "sk-test-0123456789abcdef"
ASK = "judge out/runs/old --judge m --base-url http://localhost:9/v1"
LABELS = "+0- 0++ | 0+- | 00 +"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two judged runs in `out/runs`, and an empty folder `inner`."""
    monkeypatch.chdir(tmp_path)
    write_annotations(Path("a.json"))
    for name in ("old", "new"):
        score_run(name, LABELS, folder=Path("out"))
    for folder in ("inner", "videos"):
        Path(folder).mkdir()
    return tmp_path


def configure(text: str) -> None:
    Path("capeval.toml").write_text(text, encoding="utf-8")


def helped(command: str) -> str:
    shown = typed(Path(), *command.split(), "--help")
    assert shown.code == 0, shown.err
    return " ".join(shown.out.replace("│", " ").split())


@pytest.mark.parametrize(
    ("text", "command", "expected"),
    [
        ("defaults.judge = 'm'\ncommands.judge.judge = 'n'", "judge", 'capeval.toml sets "n".'),
        ("defaults.judge = 'm'\ncommands.judge.judge = 'n'", "probe", 'capeval.toml sets "m".'),
        ("defaults.base_url = 'http://me:secret@a'", "judge", 'sets "http://[hidden]@a".'),
        ("defaults.timeout = 7.5", "generate", "runs, timeout (capeval.toml sets 7.5)."),
        ("commands.'mcq answer'.single = 'middle'", "mcq answer", 'sets "middle".'),
    ],
)
def test_the_help_shows_what_the_file_sets(
    project: Path, text: str, command: str, expected: str
) -> None:
    configure(text)
    assert expected in helped(command)


@pytest.mark.parametrize(
    ("text", "command", "complaint"),
    [
        ("defaults.jugde = 'm'", "cache info", 'did you mean "judge"?'),
        ("commands.jugde.judge = 'm'", "score old", "commands.jugde: is not a command; did you"),
        ("commands.'mcq grade'.blind = true", "judge", 'commands."mcq grade".blind: there is'),
        ("commands.score = 3", "score old", "commands.score: must be a table, not 3"),
        ("defaults.runs = true", "score old", "defaults.runs: must be text or a number, not tr"),
        ("defaults.repeats = 'x'", "score old", "defaults.repeats must be a valid integer"),
        ("defaults.seed = -1", "compare old new", "defaults.seed must be greater than or"),
        ("defaults.full = 'yes'", "score old", 'defaults.full: must be true or false, not "yes"'),
        ("defaults.format = 'xml'", "compare --help", "defaults.format must be 'table', 'm"),
        ("defaults.check", "score old", "not valid TOML"),
        ("endpoints.'http://a/v1' = 3", ASK, 'endpoints."http://a/v1": must be the'),
        *(
            (f"defaults.{name} = true", "score old", f"defaults.{name}: cannot be set in a file")
            for name in ("api_key", "judge_serve", "max_cost", "ray", "replace_captions", "yes")
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_in_the_file_is_named(
    project: Path, text: str, command: str, complaint: str
) -> None:
    configure(text)
    refusal = typed(project, *command.split()).refusal
    assert refusal.startswith("capeval: capeval.toml: ")
    assert complaint in refusal


def test_the_file_sets_what_is_not_typed(project: Path) -> None:
    configure("[defaults]\nruns = 'out/runs'\njson = true\ngpus = 8\n[commands.score]\nrepeats = 7")
    assert typed(project, "compare", "old", "new").json
    done = typed(project, "score", "old")
    assert (done.code, "--repeats 7" in done.err) == (3, True)
    assert typed(project, "score", "old", "--repeats", "1").json["overall"]
    # The number of GPUs is for commands with --serve.
    assert typed(project, "judge", "old", "--judge", "lexical").code == 0
    assert typed(project, "eval", "old", "--judge", "lexical").code == 0
    assert Path("out/runs/old/lexical-2/report.html").is_file()
    # Probes are never among the runs.
    assert typed(project, "probe", "--judge", "lexical", "--count", "2", "--run", "p").code == 0
    assert Path("probes/p").is_dir()


def test_the_file_alone_sets_what_has_no_option(project: Path) -> None:
    configure("runs = 'out/runs'".join(("[defaults]\n", "\nseed = 7\n")))
    assert typed(project, "compare", "old", "new", "--json").json["settings"]["test"]["seed"] == 7
    assert typed(project, "compare", "old", "new", "--seed", "3").code == 2
    configure("[commands.frames]\ndecoder = 'x'")
    done = typed(project, "frames", "clip.mp4")
    assert (done.code, "decoder 'x' is not one of pyav, decord" in done.err) == (2, True)


def test_a_refusal_says_which_of_the_options_was_not_typed(project: Path) -> None:
    configure("[defaults]\nbase_url = 'http://localhost:9'\nexplain = true\nruns = 'out/runs'")
    done = typed(project, "judge", "old", "--judge", "lexical")
    assert done.code == 2
    assert done.err.endswith("is not one (set in capeval.toml: defaults.explain)\n")


def test_a_file_above_is_found_and_its_paths_are_its_own(project: Path) -> None:
    configure("[defaults]\nruns = 'out/runs'\nannotations = 'a.json'\nvideos = 'videos'\n")
    shown = " ".join(typed(project / "inner", "generate", "--help").out.replace("│", "").split())
    assert '../capeval.toml sets "a.json".' in shown
    assert "videos: does not exist" not in typed(project / "inner", "check").err
    assert typed(project / "inner", "leaderboard").code == 0
    assert [*Path("inner").iterdir()] == []
    Path("captions.jsonl").write_text('{"index": "a", "caption": "A dog runs."}\n')
    assert typed(project / "inner", "judge", "../captions.jsonl", "--judge", "lexical").code == 0
    Path("capeval.toml").unlink()
    assert typed(project, "score", "out/runs/captions").code == 0


def test_a_file_above_that_belongs_to_another_user_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("defaults.runs = 'out/runs'")
    if os.getuid() == 0:
        os.chown("capeval.toml", 12345, -1)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    refusal = typed(project / "inner", "score", "old").refusal
    assert "../capeval.toml: belongs to another user; run capeval in" in refusal
    # In the working folder it is read, and an empty file ends the search.
    assert typed(project, "score", "old").code == 0
    Path("inner/capeval.toml").touch()
    assert "another user" not in typed(project / "inner", "score", "old").err


ASKING = {
    "judge": ("judge", "captions.jsonl", "--annotations", "annotations.json", "--judge", "m"),
    "probe": ("probe", "annotations.json", "--judge", "m", "--count", "1"),
    "metrics": (
        *("metrics", "captions.jsonl", "--annotations", "annotations.json"),
        *("--metric", "clair", "--judge", "m"),
    ),
    "generate": ("generate", "--model", "m", "--limit", "1", "--frames", "2"),
    "eval": ("eval", "captions.jsonl", "--annotations", "annotations.json", "--judge", "m"),
}


@pytest.fixture
async def refusing() -> AsyncIterator[LoopbackServer]:
    async with LoopbackServer(lambda _: unauthorized(), models=["m"]) as server:
        yield server


@pytest.mark.parametrize("name", ASKING)
async def test_an_address_in_the_file_gets_no_key(
    name: str, tmp_path: Path, refusing: LoopbackServer
) -> None:
    work = Workspace(tmp_path / "work", refusing.url)
    work.fill(1)

    async def ask(*more: str, base_url: str = refusing.url, **env: str) -> tuple[str, Said]:
        """The key that the server got last, and what the command said."""
        work.write("capeval.toml", f"[defaults]\nbase_url = '{base_url}'")
        before = refusing.calls
        env |= {"OPENAI_API_KEY": KEY}
        done = await asyncio.to_thread(work.run, *ASKING[name], *more, **env)
        assert refusing.calls > before, done.err
        return refusing.headers[-1]["Authorization"].removeprefix("Bearer "), done

    key, done = await ask()
    assert (key, done.code) == ("none", 2)
    assert (
        "the address comes from capeval.toml, so no key is sent; to send it, type --base-url "
        "(eval: --model-url or --judge-url)" in done.err
    )
    # What is typed is used instead, and so is what is set in the environment.
    elsewhere = "http://localhost:9/v1"
    option = "--judge-url" if name == "eval" else "--base-url"
    assert (await ask(option, refusing.url))[0] == KEY
    assert (await ask(option, refusing.url, base_url=elsewhere))[0] == KEY
    if name != "generate":  # which needs --base-url
        assert (await ask(base_url=elsewhere, OPENAI_BASE_URL=refusing.url))[0] == KEY
    assert (await ask())[0] == "none"
