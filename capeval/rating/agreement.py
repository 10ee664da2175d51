"""Inter-rater agreement of a rating sheet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from capeval.files.ratings import Keys
from capeval.rating.merging import KeyedItem, Place, RatedFile
from capeval.schema import ELEMENT_TYPES, RELATIONS, Annotation, ElementType
from capeval.stats.agreement import Estimate, cohen_kappa, confusion_by_video, krippendorff_alpha
from capeval.stats.values import Ints

Key = Mapping[str, KeyedItem]


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """The agreement of two raters on the `n` elements that both labelled."""

    first: str
    second: str
    n: int
    kappa: Estimate


@dataclass(frozen=True, slots=True)
class Agreement:
    """Inter-rater agreement: Krippendorff's alpha (nominal), and each pair of raters.

    `n` is the number of elements that at least two raters labelled.
    """

    alpha: Estimate
    n: int
    pairs: tuple[PairAgreement, ...]


def agreement(files: Sequence[RatedFile], key: Key) -> Agreement:
    """Return the agreement of raters on the elements that they labelled."""
    given = Counter(place for file in files for place in file.labels)
    shared = sorted(place for place, n in given.items() if n > 1)
    codes = {label: float(n) for n, label in enumerate(RELATIONS)}
    table = np.full((len(files), len(shared)), np.nan)
    for row, file in enumerate(files):
        for column, place in enumerate(shared):
            if place in file.labels:
                table[row, column] = codes[file.labels[place]]
    return Agreement(
        krippendorff_alpha(table, _videos(shared, key)),
        len(shared),
        tuple(_pair(one, two, key) for one, two in combinations(files, 2)),
    )


def agreement_by_type(
    files: Sequence[RatedFile], key: Key, annotations: Sequence[Annotation]
) -> dict[ElementType, Agreement]:
    """Return the agreement of raters on elements of each type that has labels."""
    elements = {annotation.index: annotation.elements for annotation in annotations}
    types = {
        (item, element_id): element.type
        for item, keyed in key.items()
        for element_id, element in elements[keyed.video_id].items()
    }
    found: dict[ElementType, Agreement] = {}
    for of in ELEMENT_TYPES:
        parts = [
            replace(file, labels={p: label for p, label in file.labels.items() if types[p] == of})
            for file in files
        ]
        if any(part.labels for part in parts):
            found[of] = agreement(parts, key)
    return found


def _pair(one: RatedFile, two: RatedFile, key: Key) -> PairAgreement:
    both = [place for place in one.labels if place in two.labels]
    first, second = ([file.labels[place] for place in both] for file in (one, two))
    matrices = confusion_by_video(first, second, RELATIONS, _videos(both, key))
    return PairAgreement(one.rater, two.rater, len(both), cohen_kappa(matrices))


def _videos(places: Sequence[Place], key: Key) -> Ints:
    return Keys([key[item].video_id for item, _ in places], None).video
