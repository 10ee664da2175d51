"""A command that could not begin leaves nothing behind that a later command stumbles over."""

from __future__ import annotations

import json

from tests.cli.conftest import Workspace, caption


def test_a_refused_judge_leaves_no_run_and_corrected_captions_are_accepted(
    work: Workspace, endpoint: object
) -> None:
    refused = work.run(
        *("judge", "captions.jsonl", "--annotations", "annotations.json"),
        *("--base-url", "http://127.0.0.1:9/v1", "--judge", "m", "--timeout", "1"),
    )
    assert refused.code in (2, 3), refused.err
    assert not (work.judged.parent).exists()
    corrected = [caption(number) for number in range(12)]
    corrected[0]["caption"] = "A corrected caption of a dog."
    work.write("captions.jsonl", "".join(json.dumps(line) + "\n" for line in corrected))
    assert work.judge().code == 0


def test_a_second_judge_that_is_refused_is_no_judge_of_the_run(
    work: Workspace, endpoint: object
) -> None:
    assert work.judge().code == 0
    before = sorted(path.name for path in work.judged.parent.iterdir())
    refused = work.run("judge", "captions", "--base-url", "http://127.0.0.1:9/v1", "--judge", "m")
    assert refused.code in (2, 3), refused.err
    assert sorted(path.name for path in work.judged.parent.iterdir()) == before
    assert work.run("score", "captions").code == 0


def test_a_refused_generate_leaves_no_run(work: Workspace, endpoint: object) -> None:
    refused = work.run(
        *("generate", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--limit", "1"),
        *("--frames", "2", "--timeout", "1"),
    )
    assert refused.code in (2, 3), refused.err
    assert not (work.folder / "runs").exists() or not list((work.folder / "runs").iterdir())
