"""Human ratings: a number for a caption, or a label for each annotated element.

There can be millions of ratings, so `capeval.files.ratings` keeps them in columns. These are the
types of their values.
"""

from __future__ import annotations

from typing import Literal, get_args

from capeval.schema.judgment import Relation

Coverage = Literal["covered", "not covered"]
"""Whether a caption states an element correctly, completely and in order (TUNA, B.2.4)."""
COVERAGES: tuple[Coverage, ...] = get_args(Coverage)

HumanLabel = Relation | Coverage
LabelScale = Literal["three-way", "binary"]
RaterMode = Literal["mean", "median", "each"]
"""How ratings of several raters are aggregated; "each" keeps raters apart."""
