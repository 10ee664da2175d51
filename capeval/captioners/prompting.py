"""The prompt that a captioner gets for each video."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from capeval.errors import InputError, UsageError
from capeval.files.packaged import packaged
from capeval.files.reading import read_text
from capeval.schema import Annotation
from capeval.text import nearest


def prompt_hash(prompt: str) -> str:
    """Return the SHA-256 (hex) of a prompt."""
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class CaptionPrompts:
    """One prompt for all videos, or with `questions` first an annotation's own question."""

    text: str
    source: str
    questions: bool
    typed: bool = False
    """Whether the prompt is in no file: its text is then recorded as well."""

    def of(self, annotation: Annotation) -> str:
        """Return the prompt for one video."""
        own = (annotation.question or "").strip() if self.questions else ""
        return own or self.text

    def settings(self, annotations: tuple[Annotation, ...]) -> dict[str, str]:
        """Return what a run's manifest records of the prompt."""
        asked = self.questions and any((a.question or "").strip() for a in annotations)
        if asked and all((a.question or "").strip() for a in annotations):
            return {"source": "question"}
        source = f"question, else {self.source}" if asked else self.source
        found = {"source": source, "sha256": prompt_hash(self.text)}
        return found | ({"text": self.text} if self.typed else {})


def load_caption_prompts(
    file: Path | None, default: str = "tuna-cap-v1", *, text: str | None = None
) -> CaptionPrompts:
    """Return `text`, or the prompt of a file; else the data's own or that of `default`.

    `default` is a prompt set or a file.
    """
    if file is not None and text is not None:
        raise UsageError("--prompt and --prompt-text are two prompts; give one of them")
    if text is not None:
        return CaptionPrompts(text.strip(), "--prompt-text", questions=False, typed=True)
    if file is not None:
        return CaptionPrompts(read_text(file).strip(), file.name, questions=False)
    path = packaged("prompts") / Path(default).name / "caption.txt"
    if path.is_file():
        return CaptionPrompts(read_text(path).strip(), f"{Path(default).name}/caption.txt", True)
    if Path(default).is_file():
        return CaptionPrompts(read_text(Path(default)).strip(), Path(default).name, True)
    sets = sorted(entry.parent.name for entry in packaged("prompts").glob("*/caption.txt"))
    raise InputError(
        f"is neither a prompt set ({', '.join(sets)}) nor a file{nearest(default, sets)}",
        file=default,
    )
