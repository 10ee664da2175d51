"""Tags of questions: selection and groups by them, and their names in tables."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from capeval.errors import UsageError
from capeval.schema import Question, Tag
from capeval.text import listed, nearest, one_line

_MOST_NAMED = 12  # Names in one message: more do not fit on a line that a user can read.


def with_tags(questions: Sequence[Question], where: Sequence[str]) -> tuple[Question, ...]:
    """Return the questions that have every `TAG=VALUE` of `where`, with values as in `texts_of`.

    UsageError if a tag or a value is unknown, or nothing is selected.
    """
    chosen = list(questions)
    for condition in where:
        tag, _, value = condition.partition("=")
        tagged = [one for one in questions if tag in one.tags]
        if not tagged:
            raise _no_tag(f"--where {condition}", tag, questions)
        values = sorted({text for one in tagged for text in texts_of(one.tags[tag])})
        if value not in values:
            raise UsageError(
                f"--where {condition}: no question has this value; {tag} can be "
                f"{listed(values, _MOST_NAMED)}{nearest(value, values)}"
            )
        chosen = [q for q in chosen if tag in q.tags and value in texts_of(q.tags[tag])]
    if not chosen:
        raise UsageError(f"no question has all of --where {' --where '.join(where)}")
    return tuple(chosen)


def texts_of(tag: Tag) -> tuple[str, ...]:
    """Return the values of a tag as text; true, false and null as JSON writes them.

    >>> texts_of(1), texts_of(True), texts_of(["Multi-Scene", "High-Dynamic"])
    (('1',), ('true',), ('Multi-Scene', 'High-Dynamic'))
    """
    if isinstance(tag, list):
        return tuple(tag)
    return (tag if isinstance(tag, str) else json.dumps(tag),)


# ---- Groups --------------------------------------------------------------------------------------

FLAGS = ("counterfactual", "zoom", "first_person")
"""Flags of TOMATO with a relative change: accuracy where true by accuracy where false."""

_TAGS: Mapping[str, tuple[str, ...]] = {
    "tuna": ("skill", "task", "visual_characteristic"),
    "tomato": ("reasoning_type", "demonstration_type", "frames", "composite", *FLAGS),
    "video-mme": ("duration", "domain", "task_type", "sub_category"),
}
"""The tags by which each benchmark groups questions; `frames` is the number of frames shown."""

MAIN_WAYS: Mapping[str, str] = {
    "tuna": "task",
    "tomato": "reasoning_type",
    "video-mme": "task_type",
}
"""The tag with the task of each benchmark's questions."""

ORDERS: Mapping[str, Sequence[str]] = {
    tag: names.split(", ")
    for tag, names in {
        "duration": "short, medium, long",
        "skill": "Camera State, Background Scene, Subject Action, Object Attribute",
        "task": "Camera Motion, Camera Transition, Scene Description, Scene Transition, "
        "Action Recognition, Action Sequence, Action-Subject Matching, Object Recognition, "
        "Object Appearance, Object Location",
        "visual_characteristic": "Low-Dynamic, High-Dynamic, Multi-Scene, Multi-Subject",
        "reasoning_type": "rotation, direction, velocity&frequency, shape&trend, visual_cues, "
        "count",
    }.items()
}
"""The order of the groups in the benchmarks' own tables; others are sorted."""

# A user's tag with more values, or with fewer questions per value, says more about single questions
# than about groups: an index of a frame, for example.
_MOST_VALUES = 50
_FEWEST_QUESTIONS = 2
# Tags of `capeval mcq construct`: the origin of a question, and findings about it.
_ORIGINS = frozenset(
    {"elements", "errors", "drafted_by", "filtered_by", "reviewed_by", "mended", "findings"}
)


class _Tagged(Protocol):
    @property
    def benchmark(self) -> str: ...
    @property
    def tags(self) -> Mapping[str, Tag]: ...
    @property
    def frames(self) -> Mapping[str, Any]: ...


def _groups_of(response: _Tagged, tag: str) -> tuple[str, ...]:
    if tag == "benchmark":
        return (response.benchmark,)
    if tag == "frames":
        indices, number = response.frames.get("indices"), response.frames.get("number")
        count = len(indices) if isinstance(indices, list) else number
        return () if count is None else (str(count),)
    value = response.tags.get(tag)
    if tag not in response.tags:
        return ()
    if tag in (*FLAGS, "composite") and value in (0, 1):
        return ("true" if value else "false",)
    return texts_of(value)


def grouped(
    responses: Sequence[_Tagged], by: Sequence[str] = ()
) -> dict[str, dict[str, list[int]]]:
    """Return the positions of the responses in each group, by tag.

    The tags are `by`, else those of the benchmarks, or all tags of own questions.
    """
    found = {}
    for tag in by or _usual_tags(responses):
        places: defaultdict[str, list[int]] = defaultdict(list)
        for at, response in enumerate(responses):
            for group in _groups_of(response, tag):
                places[group].append(at)
        if by and not places:
            raise _no_tag(f"--by {tag}", tag, responses)
        if places:
            order = {name: at for at, name in enumerate(ORDERS.get(tag, ()))}
            names = sorted(places, key=lambda name: (order.get(name, len(order)), _natural(name)))
            found[tag] = {name: places[name] for name in names}
    return found


def _no_tag(option: str, tag: str, questions: Sequence[Question | _Tagged]) -> UsageError:
    tags = sorted({name for one in questions for name in one.tags})
    names = listed(tags, _MOST_NAMED) or "none"
    return UsageError(f"{option}: no question has this tag; the tags: {names}{nearest(tag, tags)}")


def _usual_tags(responses: Sequence[_Tagged]) -> list[str]:
    benchmarks = dict.fromkeys(response.benchmark for response in responses)
    found = ["benchmark"] if len(benchmarks) > 1 else []
    found += [tag for name in benchmarks for tag in _TAGS.get(name, ())]
    own = [response for response in responses if response.benchmark not in _TAGS]
    for tag in dict.fromkeys(name for response in own for name in response.tags):
        tagged = [_groups_of(response, tag) for response in own if tag in response.tags]
        values = {text for texts in tagged for text in texts}
        few = len(tagged) < _FEWEST_QUESTIONS * len(values)
        if tag not in _ORIGINS and 2 <= len(values) <= _MOST_VALUES and not few:
            found.append(tag)
    return list(dict.fromkeys(found))


def _natural(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() and len(name) < 10 else (10**10, name)


# ---- Names in tables and sentences ---------------------------------------------------------------

_BENCHMARKS = {"tuna": "TUNA-MCQ", "tomato": "TOMATO", "video-mme": "Video-MME"}
_WAYS = {"composite": "Composite motion", "zoom": "Zoomed in", "sub_category": "Sub-category"}


def benchmark_name(benchmark: str) -> str:
    """Return the name of a benchmark, or of a set of the user's own.

    >>> benchmark_name("tuna"), benchmark_name("own"), benchmark_name("mine")
    ('TUNA-MCQ', 'own questions', 'mine')
    """
    if benchmark == "own":
        return "own questions"
    return _BENCHMARKS.get(benchmark, one_line(benchmark, 60))


def way_name(tag: str) -> str:
    """Return a tag as a heading.

    >>> way_name("reasoning_type"), way_name("speed")
    ('Reasoning type', 'Speed')
    """
    name = _WAYS.get(tag, one_line(tag.replace("_", " "), 60))
    return name[:1].upper() + name[1:]
