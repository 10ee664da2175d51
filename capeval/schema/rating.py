"""What people say of captions: a number for the whole, or a label for each annotated element.

Ratings come by the million and are kept in columns (`capeval.files.ratings`); the nouns here are
what a row of theirs can say.
"""

from __future__ import annotations

from typing import Literal, get_args

from capeval.schema.judgment import Relation

Coverage = Literal["covered", "not covered"]
"""Whether a caption states an element correctly, completely and in order (TUNA, B.2.4)."""
COVERAGES: tuple[Coverage, ...] = get_args(Coverage)

HumanLabel = Relation | Coverage
HumanRating = float | HumanLabel
LabelScale = Literal["three-way", "binary"]
RaterMode = Literal["mean", "median", "zmean", "each"]
"""How several people's ratings are made one; "each" keeps them apart."""
