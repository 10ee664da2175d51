"""What the TUNA paper published of metrics against people, for reference only."""

from __future__ import annotations

from capeval.correlation.result import Published

__all__ = ["PUBLISHED", "PUBLISHED_NOTE"]

_SOURCE = "TUNA (ACL 2025), table 3"

PUBLISHED = tuple(
    Published(
        metric=metric, n=40, kendall=kendall, spearman=spearman, pearson=pearson, source=_SOURCE
    )
    for metric, kendall, spearman, pearson in (
        ("METEOR", 0.308, 0.448, 0.547),
        ("BERT-Score", 0.274, 0.348, 0.492),
        ("CLAIR", 0.456, 0.566, 0.410),
        ("DREAM-1K", 0.222, 0.313, 0.247),
        ("TUNA-CAP", 0.572, 0.767, 0.699),
    )
)
"""The TUNA paper's table 3, as fractions."""

PUBLISHED_NOTE = (
    "Published rows: TUNA (ACL 2025), table 3; not computed here, and of other captions and "
    "raters. They are of n = 40 captions. There an r of .247 has p = .12 and a rho of .313 p = "
    ".049, so not all of its p-values can be below .05 as stated; and the 95% intervals of its "
    "rows overlap (r = .699: [.50, .83]; r = .547: [.28, .73])."
)
