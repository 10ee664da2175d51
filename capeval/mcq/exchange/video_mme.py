"""Video-MME's template of results, filled in for submission."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from capeval.errors import InputError
from capeval.schema.question import Response, option_lines
from capeval.text import shown

_OF_VIDEO = ("duration", "domain", "sub_category")


def video_mme_template(responses: Sequence[Response]) -> list[dict[str, Any]]:
    """Return the filled template: one record per video, in the order of the responses.

    A failed call has an empty response, which Video-MME's script leaves out of its accuracy.
    Raises `InputError` where a response is to no question of Video-MME.
    """
    videos: dict[str, dict[str, Any]] = {}
    for one in responses:
        where = f"id {shown(one.id)}"
        lacking = [name for name in (*_OF_VIDEO, "task_type") if name not in one.tags]
        if lacking:
            raise InputError(
                f"is no response to a question of Video-MME: it has no {', '.join(lacking)}",
                where=where,
            )
        if one.rotation:
            raise InputError(
                "was asked with rotated options, which the template cannot say", where=where
            )
        # Questions of the published table name the video's file; its number is in the id.
        number = one.tags.get("video_id")
        if isinstance(number, list):
            message = f"must be a text or a number, not {shown(number)}"
            raise InputError(message, where=where, field="video_id")
        video = str(number or one.id.rpartition("-")[0] or one.video)
        record = videos.setdefault(
            video,
            {
                "video_id": video,
                **{name: one.tags[name] for name in _OF_VIDEO},
                "questions": [],
            },
        )
        for name in _OF_VIDEO:
            if record[name] != one.tags[name]:
                message = (
                    f"{shown(one.tags[name])} is not what an earlier question says of the video "
                    f"{shown(video)}: {shown(record[name])}"
                )
                raise InputError(message, where=where, field=name)
        record["questions"].append(
            {
                "question_id": one.id,
                "task_type": one.tags["task_type"],
                "question": one.question,
                "options": option_lines(one.options),
                "answer": one.answer,
                "response": one.reply or "",
            }
        )
    return list(videos.values())
