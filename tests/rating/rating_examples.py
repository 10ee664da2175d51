from pathlib import Path

from capeval.rating.rate_merge import read_key
from capeval.schema import Annotation, element_ids
from tests.files.making import annotation_of

HOSTILE = (
    "</script><script>window.broken = 1</script><!-- <script> "
    "<img src=x onerror='window.broken = 2'> {{policy}} {{data}} ${x} \u2028 & \"quoted\", 'too'\n"
    "\u202eright to left"
)


def annotation(index: str, sizes: tuple[int, ...] = (2, 1)) -> Annotation:
    events = [
        (f"Event {e} of {index}.", *(f"Element {e}.{n} of {index}." for n in range(1, size + 1)))
        for e, size in enumerate(sizes, start=1)
    ]
    return annotation_of(*events, index=index)


def exported(key: Path, to: Path, rater: str, label: str = "entailment", leave: int = 0) -> Path:
    lines = ["item_id,element_id,rater,label"]
    for item, keyed in read_key(key).items():
        for element in element_ids(keyed.elements):
            given = label if len(lines) > leave else ""
            lines.append(f"{item},e{element},{rater},{given}")
    to.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return to
