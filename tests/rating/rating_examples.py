"""Annotations and captions to be rated, hostile ones among them."""

from __future__ import annotations

from capeval.schema import Annotation

HOSTILE = (
    "</script><script>window.broken = 1</script><!-- <script> "
    "<img src=x onerror='window.broken = 2'> {{policy}} {{data}} ${x} \u2028 & \"quoted\", 'too'\n"
    "\u202eright to left"
)


def annotation(index: str, tags: str = "", sizes: tuple[int, ...] = (2, 1)) -> Annotation:
    return Annotation.model_validate(
        {
            "index": index,
            "visual_characteristic": tags,
            "events": [
                {
                    "event": f"Event {e} of {index}.",
                    "visual_elements": [
                        {"content": f"Element {e}.{n} of {index}.", "type": "action", "weight": 1}
                        for n in range(1, size + 1)
                    ],
                }
                for e, size in enumerate(sizes, start=1)
            ],
        }
    )
