"""Text as LaTeX: what stands in a table, a caption or a note stays text."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TEX = {
    "\\": r"\textbackslash{}",
    "–": "--",
    "†": r"\dag{}",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\rightarrow$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{mark: "\\" + mark for mark in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
}


def tex(text: str) -> str:
    r"""Return text with all of LaTeX's marks escaped.

    >>> print(tex("<=2 & [a_b]"), tex("[–]"))
    $\leq$2 \& [a\_b] {[}--]
    """
    # Two hyphens would become one dash, and after \\ a bracket or a star belongs to it.
    flat = text.replace("<=", "≤").replace(">=", "≥").replace("--", "-\0-").replace("--", "-\0-")
    shown = "".join(_TEX.get(mark, mark) for mark in flat).replace("\0", "{}")
    return f"{{{shown[0]}}}{shown[1:]}" if shown[:1] in ("[", "*") else shown


def breakable(text: str) -> str:
    """Return text whose words may be broken where TeX would not, at other marks than hyphens."""
    pieces = re.findall(r"[^_/@]*[_/@]*", text)
    return r"\allowbreak{}".join(tex(piece) for piece in pieces if piece)


def box(lines: Sequence[str], share: float) -> str:
    """Return lines of LaTeX in a box of a share of the text's width, in which they are broken."""
    text = r"\newline ".join(lines)
    return rf"\parbox[t]{{{share:g}\linewidth}}{{\raggedright\strut {text}\strut}}"
