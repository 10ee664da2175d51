"""Which logit of a model means what, as its config.json says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from capeval.errors import UsageError
from capeval.schema import Relation
from capeval.text import listed, shown

_RELATIONS: Mapping[str, Relation] = {
    "entailment": "entailment",
    "neutral": "lack",
    "contradiction": "contradiction",
}
_UNNAMED = re.compile(r"label_\d+")


def read_labels(model: str, published: Mapping[str, Any]) -> tuple[Relation, ...]:
    """Return the relation that each logit means, from the `id2label` of a config.json.

    The order differs between models, and names may be in any case. Raises `UsageError` unless the
    labels are entailment, neutral and contradiction, once each.

    >>> read_labels("m", {"id2label": {"0": "Contradiction", "1": "ENTAILMENT", "2": "neutral"}})
    ('contradiction', 'entailment', 'lack')
    """
    names = published.get("id2label")
    if names is None:
        raise UsageError(f"{model}: config.json has no id2label, so {_NOT_KNOWN}")
    if not isinstance(names, Mapping) or not all(isinstance(one, str) for one in names.values()):
        raise UsageError(f"{model}: config.json: id2label must be an object of texts")
    by_place = {str(place): name.strip().casefold() for place, name in names.items()}
    places = [str(place) for place in range(len(by_place))]
    if sorted(by_place) != sorted(places):
        raise UsageError(
            f"{model}: config.json: id2label must number its labels from 0, not "
            f"{listed(map(shown, sorted(by_place)))}"
        )
    found = [by_place[place] for place in places]
    if sorted(found) == sorted(_RELATIONS):
        _check_inverse(model, found, published.get("label2id"))
        return tuple(_RELATIONS[name] for name in found)
    if found and all(map(_UNNAMED.fullmatch, found)):
        raise UsageError(
            f"{model}: config.json names its labels {listed(names.values())}, so {_NOT_KNOWN}"
        )
    raise UsageError(
        f"{model}: its labels are {listed(map(shown, names.values())) or 'none'}, not entailment, "
        "neutral and contradiction: a judge must tell what a caption contradicts from what it lacks"
    )


def _check_inverse(model: str, found: Sequence[str], numbers: Any) -> None:
    """Raise `UsageError` where `label2id` has the three names in another order."""
    if not isinstance(numbers, Mapping):
        return
    stated = {str(name).strip().casefold(): str(place) for name, place in numbers.items()}
    if {*stated} == {*found} and any(stated[name] != str(n) for n, name in enumerate(found)):
        raise UsageError(
            f"{model}: config.json has one order of labels in id2label and another in label2id; "
            "correct the wrong one"
        )


_NOT_KNOWN = (
    "the order of entailment, neutral and contradiction is not known: write the names of its "
    "model card there"
)
