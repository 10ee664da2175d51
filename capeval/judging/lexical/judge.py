"""The lexical judge: splits a caption, matches its pieces and classifies elements by rules."""

from __future__ import annotations

from typing import Final

from capeval.judging.lexical.matching import RULES, prepare, split_and_match, stemmer
from capeval.judging.lexical.relations import relations
from capeval.schema import Annotation, Verdict


class LexicalJudge:
    """A deterministic judge that uses word overlap and rules of language; no model, no network.

    It follows the three stages of TUNA (4.1) and serves as a baseline and as a smoke test of a
    pipeline. It has no world knowledge and resolves no coreference: its verdicts do not measure
    quality.
    `name` is the version of its rules and word lists; with the same stemmer, the same name gives
    the same verdicts.

    >>> annotation = Annotation.model_validate(
    ...     {
    ...         "index": "1",
    ...         "events": [
    ...             {
    ...                 "event": "A man in a red shirt runs to the left.",
    ...                 "visual_elements": [
    ...                     {"content": "A man runs.", "type": "action", "weight": 3},
    ...                     {"content": "His shirt is red.", "type": "attribute", "weight": 2},
    ...                     {"content": "It is snowing.", "type": "scene", "weight": 1},
    ...                 ],
    ...             }
    ...         ],
    ...     }
    ... )
    >>> LexicalJudge().judge(annotation, "A guy in a blue shirt is running.").relations
    (('entailment', 'contradiction', 'lack'),)
    """

    name: Final = RULES
    is_baseline: Final = True
    description: Final = "built-in baseline: compares words, understands nothing"

    def __init__(self) -> None:
        self.identity: Final = (stemmer(),)

    def judge(self, annotation: Annotation, caption: str) -> Verdict:
        """Judge one caption, which may be any text; an empty one lacks everything."""
        reference = prepare(annotation)
        pieces, readings, matches, notes = split_and_match(caption, reference)
        return Verdict(
            candidate_events=tuple(pieces),
            matches=tuple(None if match is None else match + 1 for match in matches),
            relations=tuple(
                tuple(
                    relations(event, [r for r, m in zip(readings, matches, strict=True) if m == n])
                )
                for n, event in enumerate(reference.events)
            ),
            notes=tuple(notes),
        )
