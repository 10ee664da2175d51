"""LaTeX as an author would set it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

__all__ = ["PDFLATEX", "typeset"]

PDFLATEX = shutil.which("pdflatex")


def typeset(folder: Path, body: str) -> str:
    """Set tables in an article of ten points, without booktabs where there is none; its log."""
    rules = "".join(f"\\let\\{name}\\hline" for name in ("toprule", "midrule", "bottomrule"))
    booktabs = f"\\IfFileExists{{booktabs.sty}}{{\\usepackage{{booktabs}}}}{{{rules}}}"
    head = (
        f"\\documentclass{{article}}\n\\usepackage{{graphicx}}\n{booktabs}\n\\begin{{document}}\n"
    )
    (folder / "x.tex").write_text(f"{head}{body}\n\\end{{document}}\n", encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "x.tex"],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout
