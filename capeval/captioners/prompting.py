"""The prompt that a captioner gets for each video."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from capeval.errors import InputError
from capeval.files.packaged import filled, packaged, tag_free_json
from capeval.files.reading import read_text
from capeval.schema import Annotation, Video
from capeval.text import nearest


def prompt_hash(prompt: str) -> str:
    """Return the SHA-256 (hex) of a prompt."""
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class CaptionPrompts:
    """One prompt for all videos, or with `questions` first an annotation's own question.

    `{elements}` in it becomes the annotated elements by their ids, as JSON.
    """

    text: str
    source: str
    questions: bool

    def of(self, annotation: Video) -> str:
        """Return the prompt for one video."""
        own = (annotation.question or "").strip() if self.questions else ""
        if own or not isinstance(annotation, Annotation):
            return own or self.text
        elements = {name: one.content for name, one in annotation.elements.items()}
        return filled(self.text, {"elements": tag_free_json(elements)})

    def settings(self, annotations: tuple[Video, ...]) -> dict[str, str]:
        """Return what a run's manifest records of the prompt."""
        asked = self.questions and any((a.question or "").strip() for a in annotations)
        if asked and all((a.question or "").strip() for a in annotations):
            return {"source": "question"}
        source = f"question, else {self.source}" if asked else self.source
        return {"source": source, "sha256": prompt_hash(self.text)}


def load_caption_prompts(named: str | Path | None, default: str = "tuna-cap-v1") -> CaptionPrompts:
    """Return the prompt that is named; else the data's own, or that of `default`.

    Both are a prompt set or a file.
    """
    wanted = Path(default if named is None else named)
    file = packaged("prompts") / wanted / "caption.txt"
    source = f"{wanted.name}/caption.txt"
    if wanted.name != str(wanted) or not file.is_file():
        file, source = wanted, wanted.name
    if file.is_file():
        return CaptionPrompts(read_text(file).strip(), source, questions=named is None)
    sets = sorted(entry.parent.name for entry in packaged("prompts").glob("*/caption.txt"))
    raise InputError(
        f"is neither a prompt set ({', '.join(sets)}) nor a file{nearest(str(wanted), sets)}",
        file=wanted,
    )
