"""Label orders, and the models that are refused."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from capeval.errors import UsageError
from capeval.judging.nli.labels import read_labels

MEANS = {"entailment": "entailment", "neutral": "lack", "contradiction": "contradiction"}


@pytest.mark.parametrize("order", list(permutations(MEANS)), ids="-".join)
@pytest.mark.parametrize("written", [str, str.upper, str.title, " {} ".format], ids=range(4))
def test_the_order_is_that_of_the_config(order: tuple[str, ...], written: Any) -> None:
    names = {str(place): written(name) for place, name in enumerate(order)}
    assert read_labels("m", {"id2label": names}) == tuple(MEANS[name] for name in order)


def test_labels_are_found_by_their_number_and_not_by_their_place_in_the_file() -> None:
    names = {"2": "neutral", "0": "contradiction", "1": "entailment"}
    assert read_labels("m", {"id2label": names}) == ("contradiction", "entailment", "lack")


@pytest.mark.parametrize(
    ("id2label", "told"),
    [
        pytest.param(None, "has no id2label, so the order", id="missing"),
        pytest.param(
            {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
            "names its labels LABEL_0, LABEL_1, LABEL_2, so the order of entailment",
            id="unnamed",
        ),
        pytest.param(
            {"0": "entailment", "1": "not_entailment"},
            "a judge must tell what a caption contradicts from what it lacks",
            id="binary",
        ),
        pytest.param({"0": "consistent"}, 'its labels are "consistent", not entailment', id="one"),
        pytest.param(
            {"0": "entailment", "1": "neutral", "2": "entailment"}, "its labels are", id="twice"
        ),
        pytest.param(
            {"0": "entailment", "1": "neutral", "2": "contradiction", "3": "other"},
            "its labels are",
            id="four",
        ),
        pytest.param(
            {"1": "entailment", "2": "neutral", "3": "contradiction"},
            "must number its labels from 0",
            id="from 1",
        ),
        pytest.param(
            {"0": "entailment", "00": "neutral", "1": "contradiction"},
            "must number its labels from 0",
            id="one number in two ways",
        ),
        pytest.param({}, "its labels are none", id="empty"),
        pytest.param({"0": None, "1": 3, "2": []}, "must be an object of texts", id="no texts"),
        pytest.param(["entailment", "neutral", "contradiction"], "must be an object", id="list"),
        pytest.param("entailment", "must be an object", id="text"),
        pytest.param({"0": "x\n\x1b[2J", "1": "y"}, "its labels are", id="control characters"),
    ],
)
def test_a_model_without_the_three_labels_is_refused(id2label: Any, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_labels("./m", {} if id2label is None else {"id2label": id2label})
    message = str(refused.value)
    assert message.startswith("./m: ")
    assert told in message
    assert message.isprintable()
