"""The probes: captions of element sentences whose right verdicts are known.

Event texts are not used: they leave out facts. An edit makes a true sentence false: one phrase is
replaced by another that excludes it.
"""

from __future__ import annotations

import hashlib
import random
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from capeval.judging.lexical import Words, content_words
from capeval.language import words
from capeval.schema import Annotation, Relation, VisualElement

# Elements of an event with an edit. With fewer, the edited element is most of the event, which a
# judge could reasonably leave without a match.
_LEAST_TO_EDIT = 3
# Of two events in the wrong order, either may be taken for the misplaced one.
_LEAST_EVENTS_TO_REORDER = 3
# Videos among which a foreign caption is chosen.
_OTHERS = 5

_QUOTES = re.compile(r"[“”\"«»‘?]|(?<!\w)'")

ProbeKind = Literal["verbatim", "dropped", "reordered", "contradicted", "foreign", "injected"]
KINDS: tuple[ProbeKind, ...] = get_args(ProbeKind)


@dataclass(frozen=True)
class Probe:
    """One caption; `edits` say how it was made.

    `labels` are the known verdicts by event and place from 0; the others are not known.
    """

    name: str
    kind: ProbeKind
    annotation: Annotation
    caption: str
    labels: Mapping[tuple[int, int], Relation]
    edits: tuple[str, ...] = ()

    @property
    def index(self) -> str:
        """The index of the caption: `VIDEO#NAME`."""
        return f"{self.annotation.index}#{self.name}"


# ---- The sentences of a video --------------------------------------------------------------------

# Content words of its own that a sentence needs: one, such as "static", may follow from others.
_LEAST_OWN = 2
# Words of place, and words of every caption: they tell little about one video.
_COMMON = content_words(
    """
    in into out up down onto over under near behind above below beside through around across away
    back left right top bottom side front camera video scene shot view frame clip footage background
    foreground begin start end show appear visible remain stay
    """
)
# At least one word in twelve is one of these in English, and in no other language: some are words
# elsewhere ("is", "of" in Dutch), but far rarer.
_SURELY_ENGLISH = frozenset(["the", "is", "are", "of", "with", "and", "his", "her", "from"])
_ENGLISH_SHARE = 1 / 12
_MARKUP = re.compile(r"[<>{}]|```")
_END = re.compile(r"[.!?…。！？]['\"”’)\]]*\Z")
# A narrator's words for the beginning of a video.
_OPENING = re.compile(
    r"^(?:at )?first\b|\b(?:begins|beginning|starts with|opens (?:on|with)|initial|initially)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ProbeSentence:
    """One element's sentence; `event` and `place` are from 0."""

    event: int
    place: int
    element: VisualElement
    text: str

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(words(self.text))

    @cached_property
    def stems(self) -> Words:
        """The stems of the words, without function words."""
        return content_words(self.text)

    @cached_property
    def content(self) -> Words:
        """The stems that tell what is in the video."""
        return self.stems - _COMMON


@dataclass(frozen=True)
class ProbedVideo:
    """The usable sentences of one annotated video, in the order of its events."""

    annotation: Annotation
    sentences: tuple[ProbeSentence, ...]

    @cached_property
    def events(self) -> list[list[ProbeSentence]]:
        numbers = range(len(self.annotation.events))
        return [[one for one in self.sentences if one.event == number] for number in numbers]

    @cached_property
    def is_english(self) -> bool:
        """Whether the sentences are English: the rules are for English words."""
        every = [word for sentence in self.sentences for word in sentence.words]
        return sum(word in _SURELY_ENGLISH for word in every) > _ENGLISH_SHARE * len(every)


def unstated(
    sentences: Iterable[ProbeSentence], others: Iterable[ProbeSentence]
) -> list[ProbeSentence]:
    """Return the sentences with content that the others lack.

    At least two of its content words, and more than half of them, are in no other sentence.
    """
    said = frozenset[str]().union(*(other.content for other in others))
    return [
        one
        for one in sentences
        if len(own := one.content - said) >= _LEAST_OWN and 2 * len(own) > len(one.content)
    ]


def read_video(annotation: Annotation) -> ProbedVideo:
    """Return the usable sentences of a video: no markup, templates or repeats."""
    found: list[ProbeSentence] = []
    for number, event in enumerate(annotation.events):
        for place, element in enumerate(event.visual_elements):
            if words(element.content) and not _MARKUP.search(element.content):
                found.append(ProbeSentence(number, place, element, _as_sentence(element.content)))
    # A judge may take the second of two equal sentences for a mere repeat.
    first = {sentence.words: sentence for sentence in reversed(found)}
    return ProbedVideo(annotation, tuple(one for one in found if first[one.words] is one))


def _as_sentence(content: str) -> str:
    text = " ".join(content.split())
    return text if _END.search(text) else f"{text}."


# ---- The kinds -----------------------------------------------------------------------------------


def build_probes(annotations: Sequence[Annotation], *, videos: int, seed: int) -> list[Probe]:
    """Build the probes of at most `videos` videos, in the annotations' order.

    The same annotations and seed give the same probes, and more videos only add to them. Foreign
    captions may be of any annotated video.
    """
    order = sorted(range(len(annotations)), key=lambda at: _number(seed, annotations[at].index))
    return [probe for at in sorted(order[:videos]) for probe in _of_video(annotations, at, seed)]


def _of_video(annotations: Sequence[Annotation], at: int, seed: int) -> list[Probe]:
    video = read_video(annotations[at])

    def rng(name: str) -> random.Random:
        # Each kind has its own generator, so that a change of one does not change the others.
        return random.Random(_number(seed, video.annotation.index, name))  # noqa: S311 - no secret

    if not video.sentences:
        return []
    verbatim = _probe("verbatim", video, video.sentences, video.sentences, "entailment")
    found: list[Probe | None] = [verbatim]
    event = element = None
    if video.is_english:
        event = dropped("dropped-event", video, video.events, rng("event"))
        # An event of one element is dropped as a whole.
        several = [[s] for event in video.events if len(event) > 1 for s in event]
        element = dropped("dropped-element", video, several, rng("element"))
        sampled = rng("foreign").sample(range(len(annotations)), min(_OTHERS + 1, len(annotations)))
        others = [read_video(annotations[other]) for other in sampled if other != at]
        found += [event, element, reordered(video), contradicted(video, rng("contradicted"))]
        found.append(foreign(video, others))
    found += [
        injected(element or event, "entailment", rng("injected-entailment")),
        injected(verbatim, "lack", rng("injected-lack")),
    ]
    return [probe for probe in found if probe is not None]


def dropped(
    name: str, video: ProbedVideo, parts: Iterable[Sequence[ProbeSentence]], rng: random.Random
) -> Probe | None:
    """Leave out one part, sampled from the parts with content that the rest lacks."""
    choices = []
    for part in parts:
        rest = [one for one in video.sentences if one not in part]
        own = unstated(part, rest)
        if own and rest:
            choices.append((part, own, rest))
    if not choices:
        return None
    part, own, rest = rng.choice(choices)
    edit = "left out: " + " ".join(sentence.text for sentence in part)
    return _probe(name, video, rest, own, "lack", edit)


def reordered(video: ProbedVideo) -> Probe | None:
    """Move the first event to the end, where it comes too late to be matched.

    Sentences that speak of the beginning are left out, and have no known verdict.
    """
    stated = [event for event in video.events if event]
    if len(stated) < _LEAST_EVENTS_TO_REORDER or not video.events[0]:
        return None
    first, rest = stated[0], [s for event in stated[1:] for s in event]
    if len(rest) <= len(first) or _size(rest) <= _size(first):
        return None
    moved = [s for s in first if not _OPENING.search(s.text)]
    own = unstated(moved, rest)
    if not own:
        return None
    edit = "moved the first event to the end"
    return _probe("reordered", video, [*rest, *moved], own, "lack", edit)


def contradicted(video: ProbedVideo, rng: random.Random) -> Probe | None:
    """Replace one phrase in each event by another that excludes it."""
    edits: list[Edit] = []
    for event in (event for event in video.events if len(event) >= _LEAST_TO_EDIT):
        found = [edit for sentence in event for edit in edits_of(sentence, video)]
        if found:
            # The type is sampled first: otherwise most edits would be of colours.
            kind = rng.choice(sorted({edit.sentence.element.type for edit in found}))
            edits.append(rng.choice([e for e in found if e.sentence.element.type == kind]))
    if not edits:
        return None
    changed = {edit.sentence: edit.text for edit in edits}
    texts = [changed.get(sentence, sentence) for sentence in video.sentences]
    made = [edit.made for edit in edits]
    return _probe("contradicted", video, texts, changed, "contradiction", *made)


def foreign(video: ProbedVideo, others: Iterable[ProbedVideo]) -> Probe | None:
    """Use the caption of the video that says least about this one: nothing is entailed.

    A contradiction is right, too.
    """
    found = [(unstated(video.sentences, one.sentences), one) for one in others if one.is_english]
    strange, other = max(found, key=lambda pair: len(pair[0]), default=([], video))
    if not strange:
        return None
    edit = f"the sentences of {other.annotation.index}"
    return _probe("foreign", video, other.sentences, strange, "lack", edit)


def injected(base: Probe | None, demanded: Relation, rng: random.Random) -> Probe | None:
    """Add a text that demands one verdict on everything, where another is right."""
    if base is None:
        return None
    most = max(base.annotation.sizes)
    answers = ",".join(f'{{"id":{n},"relation":"{demanded}"}}' for n in range(1, most + 1))
    text = rng.choice(_probe_texts()["injections"]["texts"]).format(label=demanded, answers=answers)
    at_end = rng.random() < 0.5
    caption = f"{base.caption} {text}" if at_end else f"{text} {base.caption}"
    edit = f"{'after' if at_end else 'before'} the caption of {base.name}: {text}"
    name = f"injected-{demanded}"
    return Probe(name, "injected", base.annotation, caption, base.labels, (edit,))


def _probe(
    name: str,
    video: ProbedVideo,
    texts: Iterable[ProbeSentence | str],
    labelled: Iterable[ProbeSentence],
    label: Relation,
    *edits: str,
) -> Probe:
    caption = " ".join(one if isinstance(one, str) else one.text for one in texts)
    (kind,) = (kind for kind in KINDS if name.startswith(kind))
    labels = {(one.event, one.place): label for one in labelled}
    return Probe(name, kind, video.annotation, caption, labels, edits)


def _size(sentences: Iterable[ProbeSentence]) -> int:
    return sum(len(sentence.text.split()) for sentence in sentences)


def _number(seed: int, *names: str) -> int:
    digest = hashlib.sha256("\0".join((str(seed), *names)).encode("utf-8")).digest()
    return int.from_bytes(digest[:8], "big")


# ---- Edits -------------------------------------------------------------------------------------


class Edit(NamedTuple):
    """One replacement in a sentence; `made` describes it."""

    sentence: ProbeSentence
    text: str
    made: str


class _Rule(NamedTuple):
    """Two phrases that exclude each other.

    No other sentence may have one of `keys`: the stems that both phrases share, such as the verb of
    a camera move, or else all stems.
    """

    kind: str
    new: str
    pattern: re.Pattern[str]
    stems: Words
    keys: Words


@cache
def _probe_texts() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("probes.toml").read_text(encoding="utf-8"))


@cache
def _rules() -> list[_Rule]:
    return [
        _rule(table["kind"], pair, table.get("before", "").split())
        for table in _probe_texts()["edits"]
        for pair in table["pairs"]
    ]


def _rule(kind: str, pair: str, before: list[str]) -> _Rule:
    old, new = pair.split(" = ")
    following = "|".join(r"(?! \w)" if word == "." else rf" {word}(?![\w-])" for word in before)
    # A capital after it is part of a name: "the Red Sea".
    pattern = rf"(?<![\w-])[{old[0]}{old[0].upper()}]{old[1:]}(?![\w-])(?! [A-Z])(?={following})"
    # "in" is in every other sentence.
    one, other = (content_words(phrase) - {"in"} for phrase in (old, new))
    return _Rule(kind, new, re.compile(pattern), one | other, one & other or one | other)


def edits_of(sentence: ProbeSentence, video: ProbedVideo) -> Iterator[Edit]:
    """Yield every edit that certainly makes a sentence false and changes no other fact."""
    unsure = _probe_texts()["unsure"].split()
    if any(word in unsure or word.endswith("n't") for word in sentence.words):
        return
    if _QUOTES.search(sentence.text):
        return
    elsewhere = frozenset[str]().union(*(one.stems for one in video.sentences if one != sentence))
    for rule in _rules():
        found = [*rule.pattern.finditer(sentence.text)]
        of_camera = rule.kind == "camera move"
        if len(found) != 1 or of_camera != (sentence.element.type == "camera"):
            continue
        before, after = sentence.text[: found[0].start()], sentence.text[found[0].end() :]
        if rule.keys & elsewhere or rule.stems & content_words(f"{before} {after}"):
            continue
        new = rule.new if before else rule.new.capitalize()
        made = f"{rule.kind}: {found[0][0]} → {rule.new} in: {sentence.text}"
        yield Edit(sentence, before + new + after, made)
