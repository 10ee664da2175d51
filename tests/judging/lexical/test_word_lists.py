"""The file of word lists: complete and free of contradictions."""

from __future__ import annotations

from collections import Counter
from importlib.metadata import version

import pytest
from snowballstemmer.english_stemmer import EnglishStemmer

from capeval.judging.lexical import LexicalJudge
from capeval.judging.lexical.lexicon import COLOURS, NUMBERS, SECTIONS, WEAK_NUMBERS, lexicon


def test_every_entry_is_whole() -> None:
    assert all(SECTIONS.values())
    assert all(bits > 0 for bits in COLOURS.values())
    assert all(least <= most for least, most in NUMBERS.values())
    assert NUMBERS.keys() >= WEAK_NUMBERS
    for section in ("opposites", "camera opposites"):
        poles = [line.split("|") for line in SECTIONS[section]]
        assert all(len(line) > 1 and all(map(str.strip, line)) for line in poles)


def test_a_word_has_one_meaning() -> None:
    words = Counter(word for line in SECTIONS["synonyms"] for word in line.split())
    assert [word for word, count in words.items() if count > 1] == []
    phrases = Counter(line.partition(" = ")[0] for line in SECTIONS["phrases"])
    assert [phrase for phrase, count in phrases.items() if count > 1] == []


def test_no_word_excludes_itself() -> None:
    words = lexicon()
    for word in " ".join(SECTIONS["opposites"]).replace("|", " ").split():
        concept = words.word(word).concept
        assert concept not in words.related(concept).opposed


def test_the_stemmer_is_part_of_the_judges_identity() -> None:
    assert LexicalJudge().identity == (f"snowballstemmer {version('snowballstemmer')}",)


@pytest.mark.parametrize(
    # Snowball 3.0 stems these otherwise; scores of two stemmers are not one judge's.
    ("word", "stem"),
    [("skis", "ski"), ("internal", "internal"), ("interval", "interval")],
)
def test_the_stemmer_is_the_one_that_scores_were_made_with(word: str, stem: str) -> None:
    assert EnglishStemmer().stemWord(word) == stem
