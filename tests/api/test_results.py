"""Results in Python: a sentence, a table in a notebook, rows for pandas; annotations as dicts."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import capeval
from capeval.config import sample_folder
from capeval.errors import CapevalError

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A result of each kind, of runs with a hostile name among them."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        captions = sample_folder() / "captions"
        for name in ("confused", "thorough", "terse"):
            file, run = captions / f"{name}.jsonl", f"sample-{name}"
            scores = capeval.judge(file, "sample", judge="lexical", run=run)
        correlations = capeval.correlate(sample_folder() / "human.csv")
        capeval.judge(captions / "thorough.jsonl", "sample", judge="lexical", run="<b>")
        return {
            "scores": scores,
            "comparison": capeval.compare(["sample-terse", "<b>"]),
            "matrix": capeval.compare(["sample-terse", "<b>", "sample-confused"]),
            "correlations": correlations,
        }


@pytest.mark.parametrize("name", ["scores", "comparison", "matrix", "correlations"])
def test_a_result_shows_itself(name: str, results: dict[str, Any]) -> None:
    result = results[name]
    sentence = str(result)
    assert sentence.count("\n") <= 12
    page = result._repr_html_()
    assert page.startswith("<pre")
    assert "<b>" not in page.replace("&lt;b&gt;", "")
    frame = result.to_frame()
    assert len(frame) == len(result.records()) > 0
    values = [value for row in result.records() for value in row.values()]
    assert not [value for value in values if isinstance(value, dict | list)]


def test_scores_as_rows_are_those_of_the_file(results: dict[str, Any]) -> None:
    scores = results["scores"]
    frame = scores.to_frame().set_index(["by", "group", "type"])
    camera = frame.loc[("overall", "all", "camera")]
    assert camera["recall"] == scores.overall.camera.recall.value
    assert camera["f1_low"] == scores.overall.camera.f1.low
    assert str(scores).startswith("F1 28.2 [18.9, 38.7] over all 10 videos")


def test_annotations_may_be_dicts() -> None:
    known = json.loads((sample_folder() / "annotations.json").read_text("utf-8"))
    captions = {"sample_01": "A dog runs."}
    found = capeval.judge(captions, known, judge="lexical")
    assert found.overall == capeval.judge(captions, "sample", judge="lexical").overall
    known[2]["events"][0]["visual_elements"][0]["weight"] = 4
    with pytest.raises(CapevalError, match=r"annotation 3: index .*weight"):
        capeval.judge(captions, known, judge="lexical")


def test_the_notebook_of_the_docs_runs(tmp_path: Path) -> None:
    notebook = nbformat.reads((DOCS / "evaluate.ipynb").read_text("utf-8"), as_version=4)
    folder = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=120, resources=folder).execute()
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    assert any("text/html" in one.get("data", {}) for one in outputs)
    assert not [cell for cell in notebook.cells if len(cell.source) > 600]
