"""What benchmarks and the tags of questions are called in tables and sentences."""

from __future__ import annotations

from capeval.text import one_line

_BENCHMARKS = {"tuna": "TUNA-MCQ", "tomato": "TOMATO", "video-mme": "Video-MME"}
_WAYS = {
    "frames": "Frames",
    "composite": "Composite motion",
    "zoom": "Zoomed in",
    "first_person": "First person",
    "sub_category": "Sub-category",
    "visual_characteristic": "Visual characteristic",
    "reasoning_type": "Reasoning type",
    "demonstration_type": "Demonstration type",
    "task_type": "Task type",
}


def benchmark_name(benchmark: str) -> str:
    """Return the name of a benchmark, or of a set of the user's own.

    >>> benchmark_name("tuna"), benchmark_name("own"), benchmark_name("mine")
    ('TUNA-MCQ', 'own questions', 'mine')
    """
    if benchmark == "own":
        return "own questions"
    return _BENCHMARKS.get(benchmark, one_line(benchmark, 60))


def way_name(tag: str) -> str:
    """Return a tag as a heading; a user's own tag begins with a capital letter too.

    >>> way_name("reasoning_type"), way_name("speed")
    ('Reasoning type', 'Speed')
    """
    name = _WAYS.get(tag, one_line(tag, 60))
    return name[:1].upper() + name[1:]
