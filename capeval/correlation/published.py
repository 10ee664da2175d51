"""What the TUNA paper published of metrics against people, for reference only."""

from __future__ import annotations

__all__ = ["PUBLISHED", "PUBLISHED_NOTE"]

PUBLISHED: dict[str, tuple[float, float, float]] = {
    "METEOR": (0.308, 0.448, 0.547),
    "BERT-Score": (0.274, 0.348, 0.492),
    "CLAIR": (0.456, 0.566, 0.410),
    "DREAM-1K": (0.222, 0.313, 0.247),
    "TUNA-CAP": (0.572, 0.767, 0.699),
}
"""Kendall, Spearman and Pearson of the TUNA paper's table 3 (ACL 2025), as fractions."""

PUBLISHED_NOTE = (
    "Published rows: TUNA (ACL 2025), table 3; not computed here, and of other captions and "
    "raters. They are of n = 40 captions. There an r of .247 has p = .12 and a rho of .313 p = "
    ".049, so not all of its p-values can be below .05 as stated; and the 95% intervals of its "
    "rows overlap (r = .699: [.50, .83]; r = .547: [.28, .73])."
)
