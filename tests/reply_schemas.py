"""The schema of every reply that capeval requests, with an example, and nonsense that none allows.

The tests check them with llguidance, `scripts/real` with the other engines that servers use.
"""

from typing import Any

from capeval.construct import drafts, question_checks, question_drafting
from capeval.judging.contracts import Contract
from capeval.llm.client import PREFLIGHT_SCHEMA
from capeval.llm.replies import object_of, schema_of
from capeval.metrics.autodq import Events, Relations
from capeval.metrics.clair import Rating

_WRONG: dict[str, Any] = {"text": "A cat.", "point": 0}
_QUESTION: dict[str, Any] = {
    "task_type": "t",
    "question": "Who?",
    "right": "A dog.",
    "wrong": [_WRONG],
}
_ELEMENT: dict[str, Any] = {"content": "A dog runs.", "type": "action", "weight": 2}
_JUDGED = {str(stage): one for stage, one in Contract().schemas.items()}
_JUDGED["explain"] = Contract(explain=True).schemas["classify"]
SCHEMAS: dict[str, tuple[Any, Any]] = {
    "preflight": (PREFLIGHT_SCHEMA.schema, {"ok": True}),
    "split": (_JUDGED["split"].schema, {"starts": [1, 3], "repeats": []}),
    "match": (_JUDGED["match"].schema, {"matches": [[1, 1], [2, None]]}),
    "classify": (_JUDGED["classify"].schema, {"relations": [[1, "entailment"], [2, "lack"]]}),
    "explain": (
        _JUDGED["explain"].schema,
        {"relations": [{"id": 1, "reason": "No dog.", "relation": "lack"}]},
    ),
    "clair": (schema_of(Rating), {"score": 80, "reason": "Both are about a dog."}),
    "events": (schema_of(Events), {"events": ["A dog runs."]}),
    "relations": (schema_of(Relations), {"events": [{"id": 1, "relation": "neutral"}]}),
    "annotation": (
        schema_of(drafts._Drafted),
        {
            "events": [{"start": 1, "elements": [_ELEMENT]}],
            "characteristics": ["High-Dynamic"],
            "domain": "Film",
        },
    ),
    "differences": (
        schema_of(question_drafting._Differences),
        {"differences": [{"element": "1.2", "seen": "A cat."}]},
    ),
    "questions": (
        schema_of(question_drafting._Questions),
        {"questions": [{**_QUESTION, "elements": ["1.2"]}]},
    ),
    "choice": (object_of(choice={"type": "string", "enum": ["A", "none"]}), {"choice": "A"}),
    "options": (
        schema_of(question_checks._Relations),
        {"options": [{"id": 1, "relation": "entailment"}]},
    ),
}
NONSENSE = [
    ("match", "[[1,1,1,1]]"),
    ("match", "[[]]"),
    ("match", "[[1]]"),
    ("classify", '[[1,"lack",2,"lack"]]'),
    ("classify", "[[]]"),
]
