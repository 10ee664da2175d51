"""Tokenizers that are published as a file of SentencePiece."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capeval.captioners.published.tokenizers import from_sentencepiece, read_sentencepiece
from capeval.errors import UsageError
from tests.captioners.published import SENTENCEPIECE

# What sentencepiece 0.2.3 itself makes of the texts.
EXPECTED: Mapping[str, Any] = json.loads(
    (SENTENCEPIECE / "expected.json").read_text(encoding="utf-8")
)
PLAIN = (SENTENCEPIECE / "plain.model").read_bytes()


def tokenizer(name: str = "plain", added: Mapping[str, int] | None = None, **options: Any) -> Any:
    data = (SENTENCEPIECE / f"{name}.model").read_bytes()
    given = {"add_bos_token": False, **options}
    return from_sentencepiece(data, model="m", options=given, added=added or {})


@pytest.mark.parametrize("name", EXPECTED)
def test_it_splits_texts_as_sentencepiece_does(name: str) -> None:
    made = tokenizer(name)
    assert len(made) == EXPECTED[name]["size"]
    got = [made(one["text"])["input_ids"] for one in EXPECTED[name]["texts"]]
    assert got == [one["ids"] for one in EXPECTED[name]["texts"]]


@pytest.mark.parametrize("name", EXPECTED)
def test_it_decodes_what_it_has_split(name: str) -> None:
    made = tokenizer(name)
    for one in EXPECTED[name]["texts"]:
        assert made.decode(one["ids"]) == one["text"].replace("▁", " ")


def test_added_tokens_and_the_first_token() -> None:
    made = tokenizer(add_bos_token=True, added={"<img>": 400, "</img>": 401})
    assert made("<img></img>")["input_ids"] == [1, 400, 401]
    # A text beside them is split as on its own.
    words = made("Describe the video.")["input_ids"][1:]
    assert made("<img>Describe the video.</img>")["input_ids"] == [1, 400, *words, 401]
    assert made.decode([1, 400, *words], skip_special_tokens=True) == "Describe the video."


def test_an_unused_piece_can_be_renamed() -> None:
    flags = {"special": True, "normalized": False}
    made = tokenizer(added_tokens_decoder={"399": {"content": "<|end|>", **flags}})
    assert made("<|end|>")["input_ids"] == [399]
    assert len(made) == 400


@pytest.mark.parametrize(("token", "at"), [("<s>", 400), ("<img>", 401)])
def test_an_added_token_without_a_place_is_refused(token: str, at: int) -> None:
    with pytest.raises(UsageError, match=f"no place for the added token '{token}' at {at}"):
        tokenizer(added={token: at})


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def stored(*, kind: int = 2, dummy: int = 0, spaces: int = 0, charsmap: bytes = b"") -> bytes:
    pieces = b"".join(
        field(1, field(1, piece.encode()) + field(3, type_))
        for piece, type_ in (("<unk>", 2), ("<s>", 3), ("</s>", 3), ("<seam>", 4), ("a", 1))
    )
    normalizer = field(2, charsmap) + field(3, dummy) + field(4, spaces)
    return pieces + field(2, field(3, kind)) + field(3, normalizer)


def test_a_small_file_is_read() -> None:
    model = read_sentencepiece(stored(dummy=1, spaces=1, charsmap=b"x"))
    assert [piece for piece, _, _ in model.pieces] == ["<unk>", "<s>", "</s>", "<seam>", "a"]
    assert (model.kind, model.dummy_prefix, model.removes_spaces) == (2, True, True)
    assert model.has_character_map


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "cannot be read: it has no pieces"),
        (PLAIN[:1000], "cannot be read: it is cut off"),
        (b"\xff" * 20, "cannot be read"),
        (b'{"version": "1.0"}', "cannot be read"),
        (b"version https://git-lfs.github.com/spec/v1\n", "cannot be read"),
        (stored(kind=1), "is not a byte-pair encoding, which is not supported"),
        (stored(spaces=1), "removes spaces, which"),
        (stored(charsmap=b"x"), "normalises characters, which"),
        (stored(dummy=1), "has user-defined pieces and a prefix, which"),
    ],
)
def test_a_file_that_is_not_understood_is_one_line(data: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=r"^m: tokenizer\.model: ") as caught:
        from_sentencepiece(data, model="m", options={}, added={})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    from capeval.captioners.loading import load_model
    from tests.captioners import published

    published.longva(tmp_path / "m")
    (tmp_path / "m" / "vocab.json").unlink()
    with pytest.raises(UsageError, match=r"no tokenizer\.json, tokenizer\.model or vocab\.json"):
        load_model(str(tmp_path / "m"), name="m", device="cpu")


def test_a_piece_that_would_take_hours_is_refused() -> None:
    text = b"a" * 2_000_000
    length = b"\x80\x89\x7a"
    piece = b"\x0a" + length + text
    data = b"\x0a\x84\x89\x7a" + piece
    with pytest.raises(ValueError, match="has a piece of 2000000 characters"):
        read_sentencepiece(data)
