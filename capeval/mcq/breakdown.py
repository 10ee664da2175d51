"""How the questions of each benchmark are grouped, and what benchmarks and groupings are called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from capeval.errors import UsageError
from capeval.mcq.question_files import texts_of
from capeval.schema.question import Tag
from capeval.text import nearest, one_line

TAGS: Mapping[str, tuple[str, ...]] = {
    "tuna": ("skill", "task", "visual_characteristic"),
    "tomato": (
        "reasoning_type",
        "demonstration_type",
        "frames",
        "composite",
        "counterfactual",
        "zoom",
        "first_person",
    ),
    "video-mme": ("duration", "domain", "sub_category", "task_type"),
}
"""The tags by which each benchmark groups questions; `frames` is the number of frames shown."""

MAIN_WAYS: Mapping[str, str] = {
    "tuna": "task",
    "tomato": "reasoning_type",
    "video-mme": "task_type",
}
"""The tag that says what each benchmark's question asks for."""

CHANGES = ("counterfactual", "zoom", "first_person")
"""Flags of TOMATO whose relative change is given: accuracy where true by accuracy where false."""

_FLAGS = frozenset({*CHANGES, "composite"})

ORDERS: Mapping[str, tuple[str, ...]] = {
    "duration": ("short", "medium", "long"),
    "skill": ("Camera State", "Background Scene", "Subject Action", "Object Attribute"),
    "task": (
        "Camera Motion",
        "Camera Transition",
        "Scene Description",
        "Scene Transition",
        "Action Recognition",
        "Action Sequence",
        "Action-Subject Matching",
        "Object Recognition",
        "Object Appearance",
        "Object Location",
    ),
    "visual_characteristic": ("Low-Dynamic", "High-Dynamic", "Multi-Scene", "Multi-Subject"),
    "reasoning_type": (
        "rotation",
        "direction",
        "velocity&frequency",
        "shape&trend",
        "visual_cues",
        "count",
    ),
}
"""The order of the groups in the benchmarks' own tables; others are sorted."""

# A user's tag with more values, or with fewer questions per value, says more about single questions
# than about groups: an index of a frame, for example.
_MOST_VALUES = 50
_FEWEST_QUESTIONS = 2
# Tags of `capeval mcq construct`: where a question comes from, and what was found in it.
_ORIGINS = frozenset(
    {"elements", "errors", "drafted_by", "filtered_by", "reviewed_by", "mended", "findings"}
)


class _Tagged(Protocol):
    """A response, or a graded one."""

    @property
    def benchmark(self) -> str: ...
    @property
    def tags(self) -> Mapping[str, Tag]: ...
    @property
    def frames(self) -> Mapping[str, Any]: ...


def buckets_of(response: _Tagged, tag: str) -> tuple[str, ...]:
    """Return the groups of a question by a tag; none if it has no such tag."""
    if tag == "frames":
        return _frames(response)
    if tag == "benchmark":
        return (response.benchmark,)
    if tag not in response.tags:
        return ()
    value = response.tags[tag]
    if isinstance(value, str):
        return (value,)
    if tag in _FLAGS and value in (0, 1):
        return ("true" if value else "false",)
    return texts_of(value)


def _frames(response: _Tagged) -> tuple[str, ...]:
    indices, number = response.frames.get("indices"), response.frames.get("number")
    if isinstance(indices, list):
        return (str(len(indices)),)
    return () if number is None else (str(number),)


def grouped(
    responses: Sequence[_Tagged], by: Sequence[str] = ()
) -> dict[str, dict[str, list[int]]]:
    """Return the positions of the responses in each group, by tag.

    The tags are `by`, else those of the benchmarks, or all tags of own questions.
    """
    found = {}
    for tag in by or _usual(responses):
        places: defaultdict[str, list[int]] = defaultdict(list)
        for at, response in enumerate(responses):
            for bucket in buckets_of(response, tag):
                places[bucket].append(at)
        if by and not places:
            tags = sorted({name for response in responses for name in response.tags})
            raise UsageError(
                f"--by {tag}: no question has this tag; there are {', '.join(tags) or 'none'}"
                f"{nearest(tag, tags)}"
            )
        if places:
            order = {name: at for at, name in enumerate(ORDERS.get(tag, ()))}
            names = sorted(places, key=lambda name: (order.get(name, len(order)), _natural(name)))
            found[tag] = {name: places[name] for name in names}
    return found


def _usual(responses: Sequence[_Tagged]) -> list[str]:
    benchmarks = list(dict.fromkeys(response.benchmark for response in responses))
    found = [tag for name in benchmarks for tag in TAGS.get(name, ())]
    if any(name not in TAGS for name in benchmarks):
        own = [response for response in responses if response.benchmark not in TAGS]
        for tag in dict.fromkeys(name for response in own for name in response.tags):
            if tag in _ORIGINS:
                continue
            tagged = [buckets_of(response, tag) for response in own if tag in response.tags]
            values = {text for texts in tagged for text in texts}
            few = len(tagged) < _FEWEST_QUESTIONS * len(values)
            if 2 <= len(values) <= _MOST_VALUES and not few:
                found.append(tag)
    return list(dict.fromkeys([*(["benchmark"] if len(benchmarks) > 1 else []), *found]))


def _natural(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() and len(name) < 10 else (10**10, name)


# ---- Names in tables and sentences ---------------------------------------------------------------

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
