"""What needs only the extra `frames`: models behind an endpoint, and reports with frames."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from tests.mcq.answering import own_folder, replies
from tests.server import LoopbackServer
from tests.world import ROOT, environment

HIDDEN = ("torch", "torchvision", "transformers", "accelerate", "timm", "num2words", "decord")
PROGRAM = """
import json, sys
from capeval.cli import main
sys.modules |= dict.fromkeys(json.loads(sys.argv[1]))
for command in json.loads(sys.argv[2]):
    sys.argv = ["capeval", *command]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""


async def test_captions_answers_and_reports_need_no_torch(tmp_path: Path) -> None:
    questions = str(own_folder(tmp_path / "q"))
    async with LoopbackServer(replies) as server:
        model = ["--model", "m", "--base-url", server.url]
        commands = [
            ["generate", *model, "--run", "r", "--frames", "2", "--limit", "2"],
            ["mcq", "answer", *model, "--questions", questions],
            ["judge", "r", "--judge", "lexical"],
            ["report", "r", "--frames", "1"],
        ]
        await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", PROGRAM, json.dumps(HIDDEN), json.dumps(commands)],
            cwd=tmp_path,
            env=environment(tmp_path, PYTHONPATH=str(ROOT)),
            check=True,
        )
    assert "data:image/webp;base64" in next((tmp_path / "runs").rglob("report.html")).read_text(
        encoding="utf-8"
    )
