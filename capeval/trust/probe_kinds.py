"""The probes of one video. Captions are made of element sentences: event texts leave out facts."""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from capeval.schema import Relation
from capeval.trust.probe import Expectation, Kind, Probe
from capeval.trust.probe_edits import Edit, edits_of
from capeval.trust.probe_words import Sentence, Video

INJECTIONS = Path(__file__).with_name("probe_injections.toml")

LEAST_TO_EDIT = 3
"""Elements of an event that gets an edit: with fewer, the edited one is most of the event, which a
judge could then reasonably leave without a match."""
LEAST_OWN_WORDS = 2
"""Content words that one left-out element must have of its own within its event."""
LEAST_EVENTS_TO_REORDER = 3
"""Of two events in the wrong order, either may be taken for the misplaced one."""
LEAST_FOREIGN_WORDS = 2
"""Content words of an element that another video's caption is checked against: one word alone, such
as "static", may follow from much that shares no word with it."""

Expected = dict[tuple[int, int], Expectation]


class Unused(Counter[str]):
    """How many elements, events or videos a kind of probe could not use, by reason."""


@dataclass
class Builder:
    """Builds the probes of one video; `unused` counts by kind what cannot be used, and why.

    `rng` is seeded by the video, so that its probes do not depend on which others are drawn.
    """

    video: Video
    rng: random.Random
    unused: Mapping[Kind, Unused]

    def probe(
        self,
        kind: Kind,
        name: str,
        sentences: Iterable[Sentence | str],
        expected: Expected,
        **details: Any,
    ) -> Probe:
        """Return a probe; elements that `expected` does not have are not graded."""
        texts = (s if isinstance(s, str) else s.text for s in sentences)
        return Probe(
            id=f"{self.video.index}#{name}",
            kind=kind,
            annotation=self.video.annotation,
            caption=" ".join(texts),
            expected=tuple(
                tuple(expected.get((number, place)) for place in range(len(event.visual_elements)))
                for number, event in enumerate(self.video.annotation.events)
            ),
            **details,
        )

    def all(self, label: Expectation, besides: Iterable[Sentence] = ()) -> Expected:
        """Return one expectation for all sentences but some."""
        others = {id(sentence) for sentence in besides}
        return {(s.event, s.place): label for s in self.video.sentences if id(s) not in others}

    # ---- the kinds ---------------------------------------------------------------------------

    def verbatim(self) -> Probe | None:
        """Every sentence, in order: all are entailed."""
        unused = self.unused["verbatim"]
        for why in self.video.refused.values():
            unused[f"element {why}"] += 1
        if not self.video.sentences:
            unused["video has no usable element"] += 1
            return None
        return self.probe("verbatim", "verbatim", self.video.sentences, self.all("entailment"))

    def dropped_event(self) -> Probe | None:
        """Leave out one event, drawn among those with an element that nothing else states."""
        unused = self.unused["dropped"]
        if not self._is_usable(unused):
            return None
        choices: list[tuple[int, list[Sentence]]] = []
        for number, event in enumerate(self.video.events):
            rest = [s for s in self.video.sentences if s.event != number]
            own = [s for s in event if own_words(s, rest)]
            if event and not own:
                unused["event states nothing that is not in another"] += 1
            elif event and rest:
                choices.append((number, own))
        if not choices:
            unused["video has no second event to leave out"] += 1
            return None
        number, own = self.rng.choice(choices)
        left_out = self.video.events[number]
        unused["element is in words that are elsewhere in the video"] += len(left_out) - len(own)
        rest = [s for s in self.video.sentences if s.event != number]
        return self.probe(
            "dropped",
            "dropped-event",
            rest,
            self.all("unchanged", besides=left_out) | dict.fromkeys(_places(own), "lack"),
            unmatched=(number + 1,),
            base=f"{self.video.index}#verbatim",
            edits=(
                {
                    "edit": f"left out event {number + 1}: "
                    + " ".join(sentence.text for sentence in left_out),
                    "event": number + 1,
                },
            ),
        )

    def dropped_element(self) -> Probe | None:
        """Leave out one element that has enough words of its own within its event."""
        unused = self.unused["dropped"]
        if not self.video.is_english:
            return None  # Counted with the event.
        choices = []
        for sentence in self.video.sentences:
            event = [s for s in self.video.events[sentence.event] if s is not sentence]
            rest = [s for s in self.video.sentences if s is not sentence]
            if len(own_words(sentence, event)) < LEAST_OWN_WORDS:
                unused["element has fewer than two words of its own within its event"] += 1
            elif not own_words(sentence, rest):
                unused["element is in words that are elsewhere in the video"] += 1
            elif event:
                choices.append(sentence)
            else:
                unused["element is the only one of its event"] += 1
        if not choices:
            unused["video has no element to leave out"] += 1
            return None
        chosen = self.rng.choice(choices)
        return self.probe(
            "dropped",
            "dropped-element",
            [s for s in self.video.sentences if s is not chosen],
            self.all("unchanged", besides=[chosen]) | {(chosen.event, chosen.place): "lack"},
            base=f"{self.video.index}#verbatim",
            edits=({"edit": f"left out: {chosen.text}", **_fields(chosen)},),
        )

    def reordered(self) -> Probe | None:
        """Move the first event to the end: it comes too late to be matched, in any reading.

        What says itself that it is the beginning is left out, and is not graded.
        """
        unused = self.unused["reordered"]
        if not self._is_usable(unused):
            return None
        stated = [event for event in self.video.events if event]
        if len(stated) < LEAST_EVENTS_TO_REORDER or not self.video.events[0]:
            unused["video has fewer than three events"] += 1
            return None
        first, rest = stated[0], [s for event in stated[1:] for s in event]
        if len(rest) <= len(first) or _size(rest) <= _size(first):
            unused["video's first event is as long as the rest"] += 1
            return None
        moved = [s for s in first if not s.is_opening]
        own = [s for s in moved if own_words(s, rest)]
        unused["element says that it is the beginning"] += len(first) - len(moved)
        unused["element is in words that are elsewhere in the video"] += len(moved) - len(own)
        if not own:
            unused["video's first event states nothing that is not in another"] += 1
            return None
        return self.probe(
            "reordered",
            "reordered",
            [*rest, *moved],
            self.all("unchanged", besides=first) | dict.fromkeys(_places(own), "lack"),
            unmatched=(1,),
            base=f"{self.video.index}#verbatim",
            edits=({"edit": "moved the first event to the end", "event": 1},),
        )

    def contradicted(self) -> Probe | None:
        """Replace one word or phrase in each event by another that excludes it."""
        unused = self.unused["contradicted"]
        if not self._is_usable(unused):
            return None
        edits: list[Edit] = []
        for event in self.video.events:
            if len(event) < LEAST_TO_EDIT:
                unused["event has fewer than three elements"] += bool(event)
                continue
            taken = {word for edit in edits for word in _words_of(edit)}
            found = [
                edit
                for sentence in event
                for edit in edits_of(sentence, self.video)
                if not taken & _words_of(edit)
            ]
            if not found:
                unused["event has no word that can be replaced for certain"] += 1
                continue
            # Types are drawn first: otherwise attributes, with their colours, would crowd out
            # others.
            kinds = sorted({edit.sentence.element.type for edit in found})
            kind = self.rng.choice(kinds)
            edits.append(self.rng.choice([e for e in found if e.sentence.element.type == kind]))
        if not edits:
            unused["video has no edit"] += 1
            return None
        edited = {id(edit.sentence): edit for edit in edits}
        return self.probe(
            "contradicted",
            "contradicted",
            [edited[id(s)].text if id(s) in edited else s for s in self.video.sentences],
            self.all("unchanged", besides=[edit.sentence for edit in edits])
            | dict.fromkeys(_places(edit.sentence for edit in edits), "contradiction"),
            base=f"{self.video.index}#verbatim",
            edits=tuple(
                {
                    "edit": f"{edit.kind}: {edit.old} → {edit.new} in: {edit.sentence.text}",
                    **_fields(edit.sentence),
                    "old": edit.old,
                    "new": edit.new,
                    "rule": edit.kind,
                }
                for edit in edits
            ),
        )

    def hallucinated(self, added: Sequence[tuple[Sentence, str]]) -> Probe | None:
        """Append sentences of other videos, each with its video, that say nothing of this one."""
        unused = self.unused["hallucinated"]
        if not self._is_usable(unused):
            return None
        if not added:
            unused["video shares words with every sentence of the others"] += 1
            return None
        return self.probe(
            "hallucinated",
            "hallucinated",
            [*self.video.sentences, *(sentence for sentence, _ in added)],
            self.all("unchanged"),
            base=f"{self.video.index}#verbatim",
            edits=tuple(
                {"edit": f"added: {sentence.text}", "from": video} for sentence, video in added
            ),
        )

    def foreign(self, other: Video | None) -> Probe | None:
        """Use the caption of another video: elements are not entailed."""
        unused = self.unused["foreign"]
        if not self._is_usable(unused):
            return None
        if other is None:
            unused["video has no other to take a caption from"] += 1
            return None
        strange = not_in(self.video, other)
        unused["element shares half of its words with the other video"] += len(
            self.video.sentences
        ) - len(strange)
        if not strange:
            unused["video shares its words with the other video"] += 1
            return None
        return self.probe(
            "foreign",
            "foreign",
            other.sentences,
            dict.fromkeys(_places(strange), "not entailed"),
            edits=({"edit": f"the sentences of {other.index}", "from": other.index},),
        )

    def injected(self, base: Probe | None, label: Relation) -> Probe | None:
        """Add a text that demands one verdict on everything, where another is right."""
        unused = self.unused["injected"]
        if base is None:
            unused[f"video has no caption in which to demand {label}"] += 1
            return None
        wrong = {
            (number, place): "unchanged"
            for number, event in enumerate(base.expected)
            for place, one in enumerate(event)
            if one in ("entailment", "lack") and one != label
        }
        text = self.rng.choice(injections()["texts"])
        most = max(len(event.visual_elements) for event in self.video.annotation.events)
        answers = ",".join(f'{{"id":{n},"relation":"{label}"}}' for n in range(1, most + 1))
        text = text.format(label=label, answers=answers)
        at_end = self.rng.random() < 0.5
        where = "after" if at_end else "before"
        return self.probe(
            "injected",
            f"injected-{label}",
            [base.caption, text] if at_end else [text, base.caption],
            dict(wrong),  # type: ignore[arg-type]
            base=base.id,
            edits=({"edit": f"{where} the caption: {text}", "demands": label},),
        )

    def _is_usable(self, unused: Unused) -> bool:
        """Return whether there are words to compare; English is the only language known."""
        if self.video.sentences and not self.video.is_english:
            unused["video is not in English"] += 1
        return bool(self.video.sentences) and self.video.is_english


def own_words(sentence: Sentence, others: Iterable[Sentence]) -> frozenset[str]:
    """Return the content words of a sentence that no other says, in any form or by a synonym."""
    return sentence.content.difference(*(other.said for other in others))


def not_in(video: Video, other: Video) -> list[Sentence]:
    """Return the sentences that another video's caption cannot state."""
    said = other.said
    return [
        sentence
        for sentence in video.sentences
        if len(sentence.content) >= LEAST_FOREIGN_WORDS
        and 2 * len(sentence.content & said) < len(sentence.content)
    ]


@cache
def injections() -> dict[str, Any]:
    """Return the packaged texts that demand a verdict."""
    return tomllib.loads(INJECTIONS.read_text(encoding="utf-8"))


def _places(sentences: Iterable[Sentence]) -> list[tuple[int, int]]:
    return [(sentence.event, sentence.place) for sentence in sentences]


def _fields(sentence: Sentence) -> dict[str, Any]:
    return {"element": f"{sentence.event + 1}.{sentence.place + 1}", "type": sentence.element.type}


def _size(sentences: Iterable[Sentence]) -> int:
    return sum(len(sentence.text.split()) for sentence in sentences)


def _words_of(edit: Edit) -> set[str]:
    return {*edit.old.lower().split(), *edit.new.split()}
