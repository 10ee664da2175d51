"""Questions selected by their tags."""

from __future__ import annotations

import pytest

from capeval.errors import UsageError
from capeval.mcq.question_files import with_tags
from capeval.schema.question import Question, Tag


def question(number: int, **tags: Tag) -> Question:
    return Question(
        id=str(number), video="v", question="?", options=("a", "b"), answer="A", tags=tags
    )


QUESTIONS = (
    question(0, task="count", zoom=1, kind=["Multi-Scene", "High-Dynamic"]),
    question(1, task="rotation", zoom=0, kind=["Multi-Scene"], hard=True),
    question(2, task="visual cues", zoom=1, hard=None, weight=2.5),
)


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ([], "012"),
        (["task=count"], "0"),
        (["task=visual cues"], "2"),
        (["zoom=1"], "02"),
        (["kind=Multi-Scene"], "01"),
        (["kind=Multi-Scene", "kind=High-Dynamic"], "0"),
        (["zoom=1", "task=count"], "0"),
        (["hard=true"], "1"),
        (["hard=null"], "2"),
        (["weight=2.5"], "2"),
    ],
)
def test_every_condition_must_hold(where: list[str], ids: str) -> None:
    assert "".join(found.id for found in with_tags(QUESTIONS, where)) == ids


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (["task"], '--where "task" must be TAG=VALUE, such as task=count'),
        (
            ["tsak=count"],
            'no question has the tag "tsak"; there are hard, kind, task, weight, zoom',
        ),
        (["tsak=count"], 'did you mean "task"?'),
        (["task=conut"], "task can be count, rotation, visual cues; did you mean"),
        (["zoom=2"], "--where zoom=2: no question has this value; zoom can be 0, 1"),
        (["zoom=0", "task=count"], "no question has all of --where zoom=0 --where task=count"),
    ],
)
def test_a_condition_that_selects_nothing_is_refused(where: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_tags(QUESTIONS, where)
    assert message in str(caught.value)
