"""Questions in parquet, as the benchmarks publish them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from capeval.errors import InputError
from capeval.mcq.question_files import load_questions
from tests.mcq.question_files import OPTIONS, harness, own, tuna, video_mme, write


def write_parquet(path: str, records: list[dict[str, Any]]) -> str:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra data")
    import pyarrow

    parquet.write_table(pyarrow.Table.from_pylist(records), path)
    return path


@pytest.mark.parametrize(
    "record",
    [
        tuna(),
        tuna(candidates=str(OPTIONS), answer="B"),
        video_mme(),
        harness(),
        own(options=["1", "2"], answer="2"),
    ],
)
def test_parquet_is_read_as_json_is(record: dict[str, Any]) -> None:
    of_json = load_questions(write(Path("q.json"), [record]))
    # Recognised from the content: the name does not matter.
    assert load_questions(write_parquet("q.tsv", [record])) == of_json


def test_a_mistake_in_parquet_is_named_with_its_row() -> None:
    file = write_parquet("q.parquet", [tuna(), tuna(index=8, candidates=["left", None])])
    with pytest.raises(InputError, match=r"^q\.parquet: row 2: candidates\.2: is empty"):
        load_questions(file)
    file = write_parquet("q.parquet", [own(photo=b"x")])
    with pytest.raises(InputError, match=r"^q\.parquet: row 1: photo: must be text, a number"):
        load_questions(file)
    file = write_parquet("q.parquet", [own(level=float("-inf"))])
    with pytest.raises(InputError, match=r"^q\.parquet: row 1: level: must be text, a number"):
        load_questions(file)
