"""What needs only the extra `frames`: models behind an endpoint, and reports with frames."""

from __future__ import annotations

from pathlib import Path

from tests.cli_runs import ROOT, process
from tests.mcq.answering import own_folder, replies
from tests.server import LoopbackServer

HIDDEN = ("torch", "torchvision", "transformers", "accelerate", "timm", "num2words", "decord")


async def test_captions_answers_and_reports_need_no_torch(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    for name in HIDDEN:
        (hidden / f"{name}.py").write_text("raise ImportError('not here')\n", encoding="utf-8")
    questions = str(own_folder(tmp_path / "q"))
    async with LoopbackServer(replies) as server:
        commands = {
            "generate": ["--model", "m", "--base-url", server.url, "--run", "r", "--frames", "2"],
            "mcq": ["answer", "--model", "m", "--base-url", server.url, "--questions", questions],
            "judge": ["r", "--judge", "lexical"],
            "report": ["r", "--frames", "2"],
        }
        for command, arguments in commands.items():
            ended = await process(tmp_path, command, *arguments, PYTHONPATH=f"{hidden}:{ROOT}")
            assert ended.code == 0, ended.err
    assert "data:image/jpeg;base64" in next((tmp_path / "runs").rglob("report.html")).read_text(
        encoding="utf-8"
    )
