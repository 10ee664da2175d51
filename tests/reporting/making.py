"""Judged runs to report on, made in memory; one video is hostile in every text that it has."""

import json
from pathlib import Path
from typing import Any

from capeval.schema import Annotation, Caption, Judgment, Provenance, Unscored, Usage
from capeval.scoring.judged_run import JudgedRun
from tests.scoring.making import annotation, scored

ATTACK = (
    "</script><script>window.broken = 1</script><!--<script> <img src=x "
    "onerror='window.broken = 2'> {{ data }} {% raw %} javascript:window.broken=3 "
    '${window.broken=4} \u2028\u2029 & "quoted" \u202eright to left\x00\x1b[31m'
)
ATTACKER = f"a/b&c=#%+ ?\\ {ATTACK}"
BY = Provenance(judge="gpt-4o-2024-08-06", prompts="tuna-cap-v1@abcdef")


def data_of(page: str) -> dict[str, Any]:
    """Return what the script of a report has to show."""
    _, _, rest = page.partition('<script type="application/json" id="data">')
    found: dict[str, Any] = json.loads(rest.partition("</script>")[0])
    return found


def texts(plain: Annotation, text: str) -> Annotation:
    value = plain.model_dump()
    for event in value["events"]:
        event["event"] = text
        for element in event["visual_elements"]:
            element["content"] = text
    return Annotation.model_validate(value)


VIDEOS = (
    annotation("V1", "c3 s2", "a3 t1", visual_characteristic="Low-Dynamic", domain="Film"),
    annotation("V2", "a2 t2", visual_characteristic="High-Dynamic,Multi-Scene", domain="Cooking"),
    annotation("V10", "c1 s1 a1 t1", visual_characteristic="High-Dynamic", domain="Film"),
    annotation("unscored", "a1"),
    annotation("uncaptioned", "a1"),
    annotation("unjudged", "a1"),
    texts(annotation(ATTACKER, "c3 s2", "a3", domain=ATTACK), ATTACK),
)
MORE_VIDEOS = (*VIDEOS, *(annotation(f"more {n}", "a1") for n in range(3)))
_CAPTIONS = {
    "V1": "A cat sleeps. Then  a dog barks, and birds sing.",
    "V2": "Someone cooks soup.",
    "V10": "A film.",
    "unscored": "Untold.",
    "unjudged": "Later.",
    ATTACKER: f"First {ATTACK}. Last.",
}


def judged(verdicts: dict[str, str] | None = None) -> list[Judgment]:
    """Judgments of all but the uncaptioned and the unjudged; labels as in `scored`."""
    labels = {"V1": "+0 -0", "V2": "++", "V10": "+-00", ATTACKER: "+- 0"} | (verdicts or {})
    more: dict[str, dict[str, Any]] = {
        "V1": {
            "candidate_events": ("A cat sleeps.", "Then a dog barks,", "and birds sing."),
            "matches": (1, 2, None),
            "notes": ("relation of 1.2 was missing: asked again",),
        },
        ATTACKER: {
            "candidate_events": (f"First {ATTACK}.", ATTACK),
            "matches": (1, None),
            "notes": (ATTACK,),
        },
    }
    usage = {"split": Usage(calls=1, input_tokens=1000, output_tokens=500)}
    found: list[Judgment] = [
        scored(index, given, provenance=BY, usage=usage, **more.get(index, {}))
        for index, given in labels.items()
    ]
    refused = f"refused: {ATTACK}"
    return [*found, Unscored(index="unscored", reason=refused, usage=usage, provenance=BY)]


def eight(verdicts: dict[str, str] | None = None) -> list[Judgment]:
    """As `judged`, and four more of `MORE_VIDEOS`: the fewest that have an interval."""
    more = ("unjudged", "more 0", "more 1", "more 2")
    return [*judged(verdicts), *(scored(index, "+", provenance=BY) for index in more)]


def run(
    judgments: list[Judgment] | None = None,
    *,
    name: str = "mine",
    captions: dict[str, str] | None = None,
    videos: tuple[Annotation, ...] = VIDEOS,
    **fields: Any,
) -> JudgedRun:
    texts_of = _CAPTIONS if captions is None else captions
    made = judged() if judgments is None else judgments
    return JudgedRun(
        name=name,
        file=Path(f"{name}.jsonl"),
        run=None,
        annotations=videos,
        annotations_path="annotations.json",
        captions={index: Caption(index=index, caption=text) for index, text in texts_of.items()},
        judgments={judgment.index: judgment for judgment in made},
        captioned=len({*texts_of, *(judgment.index for judgment in made)}),
        **fields,
    )
