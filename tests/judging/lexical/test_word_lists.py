"""The file of word lists: complete, free of contradictions, and packaged."""

from __future__ import annotations

import re
from collections import Counter
from importlib.metadata import version

import pytest
from snowballstemmer.english_stemmer import EnglishStemmer

from capeval.judging.lexical import LexicalJudge, word_lists
from capeval.judging.lexical.lexicon import lexicon

WORD = re.compile(r"=?[a-z']+(\.[a-z])?\Z")
FLAT = {
    name: words
    for name, words in vars(word_lists).items()
    if name.isupper() and isinstance(words, frozenset)
}


@pytest.mark.parametrize("name", FLAT)
def test_a_list_holds_lower_case_words(name: str) -> None:
    assert FLAT[name]
    assert [word for word in FLAT[name] if not WORD.match(word)] == []


def test_every_section_is_read_and_every_entry_is_whole() -> None:
    sections = re.findall(r"^\[(.*)\]$", word_lists.FILE.read_text("utf-8"), re.MULTILINE)
    assert len(sections) == len(set(sections)) == 20
    assert all(len(meaning) > 1 for meaning in word_lists.SYNONYMS)
    assert all(members for _, members in word_lists.KINDS)
    assert all(named for _, _, named in word_lists.PHRASES)
    for opposites in (word_lists.OPPOSITES, word_lists.CAMERA_OPPOSITES):
        assert all(len(poles) > 1 and all(poles) for poles in opposites)
    assert all(bits > 0 for bits in word_lists.COLOURS.values())
    assert all(least <= most for least, most in word_lists.NUMBERS.values())
    assert word_lists.NUMBERS.keys() >= word_lists.WEAK_NUMBERS


def test_a_word_has_one_meaning() -> None:
    words = Counter(word for meaning in word_lists.SYNONYMS for word in meaning)
    assert [word for word, count in words.items() if count > 1] == []
    phrases = Counter(phrase[:2] for phrase in word_lists.PHRASES)
    assert [phrase for phrase, count in phrases.items() if count > 1] == []


def test_no_word_excludes_itself() -> None:
    words = lexicon()
    for concept in {word for poles in word_lists.OPPOSITES for pole in poles for word in pole}:
        name = words.words[concept].concept
        assert name not in words.related or name not in words.related[name].opposing


def test_the_stemmer_is_part_of_the_judges_identity() -> None:
    assert LexicalJudge().identity == (f"snowballstemmer {version('snowballstemmer')}",)


@pytest.mark.parametrize(
    # Snowball 3.0 stems these otherwise; scores of two stemmers are not one judge's.
    ("word", "stem"),
    [("skis", "ski"), ("internal", "internal"), ("interval", "interval")],
)
def test_the_stemmer_is_the_one_that_scores_were_made_with(word: str, stem: str) -> None:
    assert EnglishStemmer().stemWord(word) == stem
