from pathlib import Path

from tests.world import Said, typed

LABELS = {"+": "entailment", "0": "lack", "-": "contradiction"}


def correlate(folder: Path, *arguments: str) -> Said:
    return typed(folder, "correlate", *arguments)


def labelled(folder: Path, labels: dict[tuple[str, str], str], *, binary: bool = False) -> Path:
    """Write labels of elements: by (video, system), events apart by blanks."""
    lines = ["video_id,system,element_id,label"]
    for (video, system), letters_of in labels.items():
        for event, letters in enumerate(letters_of.split(), start=1):
            for place, letter in enumerate(letters, start=1):
                label = str(int(letter == "+")) if binary else LABELS[letter]
                lines.append(f"{video},{system},{event}.{place},{label}")
    path = folder / "human.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
