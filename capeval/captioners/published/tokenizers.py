"""The tokenizer of a published checkpoint, also where only SentencePiece's file is there.

InternLM2's tokenizer is published with code of its own, which is never run here, and Yi's as a file
of SentencePiece, a package that capeval does not need otherwise. Both are byte-pair encodings: the
package tokenizers can do them once it has the pieces and the merges.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from capeval.captioners.published.checkpoint import Files
from capeval.errors import UsageError

_SPACE = "▁"
# SentencePiece's types of pieces and of models.
_CONTROL, _USER_DEFINED = 3, 4
_BPE = 2
# SentencePiece makes pieces of 16 characters unless asked for more; the ways to split one of a
# million would take hours to find.
_LONGEST = 1000


def load_tokenizer(model: str, files: Files, *, revision: str | None, text_config: Any) -> Any:
    """Return the tokenizer of a hub id or a folder; raises `UsageError`."""
    if files("tokenizer.json") is not None:
        return PreTrainedTokenizerFast.from_pretrained(model, revision=revision)
    if (pieces := files("tokenizer.model")) is not None:
        stored = files("tokenizer_config.json")
        added = files("added_tokens.json")
        return from_sentencepiece(
            pieces.read_bytes(),
            model=model,
            options={} if stored is None else _object(stored, model),
            added={} if added is None else _object(added, model),
        )
    if files("vocab.json") is None:
        # Without one, transformers makes an empty tokenizer.
        raise UsageError(f"{model}: it has no tokenizer.json, tokenizer.model or vocab.json")
    return AutoTokenizer.from_pretrained(
        model, revision=revision, config=text_config, trust_remote_code=False
    )


def _object(path: Path, model: str) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{model}: {path.name}: is not JSON: {error}") from None
    if not isinstance(loaded, dict):
        raise UsageError(f"{model}: {path.name}: must be an object")
    return loaded


@dataclass(frozen=True)
class SentencePieceModel:
    """What is needed of a SentencePiece file: pieces, scores and types, and its options."""

    pieces: tuple[tuple[str, float, int], ...]
    kind: int
    byte_fallback: bool
    dummy_prefix: bool
    removes_spaces: bool
    has_character_map: bool


def read_sentencepiece(data: bytes) -> SentencePieceModel:
    """Read a file of SentencePiece, a protocol buffer; raises `ValueError`."""
    pieces: list[tuple[str, float, int]] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    for number, value in _fields(data):
        if number == 1:
            piece = dict(_fields(value))
            score = struct.unpack("<f", piece.get(2, bytes(4)))[0]
            text, kind = piece[1].decode("utf-8"), int(piece.get(3, 1))
            if len(text) > _LONGEST:
                raise ValueError(f"it has a piece of {len(text)} characters")
            pieces.append((text, score, kind))
        elif number == 2:
            trainer = dict(_fields(value))
        elif number == 3:
            normalizer = dict(_fields(value))
    if not pieces:
        raise ValueError("it has no pieces")
    return SentencePieceModel(
        pieces=tuple(pieces),
        kind=int(trainer.get(3, 1)),
        byte_fallback=bool(trainer.get(35, 0)),
        dummy_prefix=bool(normalizer.get(3, 1)),
        removes_spaces=bool(normalizer.get(4, 1)),
        has_character_map=bool(normalizer.get(2, b"")),
    )


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == 2:
            length, at = _varint(data, at)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError(f"byte {at} has the unknown wire type {wire}")
        if at + length > len(data):
            raise ValueError("it is cut off")
        yield number, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
    raise ValueError("it is cut off")


def from_sentencepiece(
    data: bytes, *, model: str, options: Mapping[str, Any], added: Mapping[str, int]
) -> PreTrainedTokenizerFast:
    """Return a tokenizer with the pieces of a SentencePiece file; raises `UsageError`.

    `options` is tokenizer_config.json, and `added` added_tokens.json: tokens and their ids.
    """
    try:
        stored = read_sentencepiece(data)
    except (ValueError, LookupError, TypeError, AttributeError, struct.error) as error:
        raise UsageError(f"{model}: tokenizer.model: cannot be read: {error}") from None
    for fault, is_one in {
        "is not a byte-pair encoding": stored.kind != _BPE,
        "normalises characters": stored.has_character_map,
        "removes spaces": stored.removes_spaces,
        # Here a prefix is put after each such piece; SentencePiece puts one at the start alone.
        "has user-defined pieces and a prefix": stored.dummy_prefix
        and any(kind == _USER_DEFINED for *_, kind in stored.pieces),
    }.items():
        if is_one:
            raise UsageError(f"{model}: tokenizer.model: {fault}, which is not supported")
    tokens = _added(options, added)
    vocabulary = [piece for piece, _, _ in stored.pieces]
    for at, token in tokens.items():
        # InternLM2 renames pieces that were left unused.
        if at < len(vocabulary):
            vocabulary[at] = token.content
    ids = {piece: at for at, piece in enumerate(vocabulary)}
    names = {
        name: _content(options.get(name, default))
        for name, default in (("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>"))
    }
    raw = Tokenizer(
        models.BPE(
            ids,
            _merges(stored, ids),
            unk_token=names["unk_token"],
            fuse_unk=True,
            byte_fallback=stored.byte_fallback,
        )
    )
    prefix = [normalizers.Prepend(_SPACE)] if stored.dummy_prefix else []
    raw.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", _SPACE)])
    strip = [decoders.Strip(" ", 1, 0)] if stored.dummy_prefix else []
    raw.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    for at, (piece, _, kind) in enumerate(stored.pieces):
        if kind in (_CONTROL, _USER_DEFINED) and at not in tokens:
            token = AddedToken(piece, special=kind == _CONTROL, normalized=_SPACE in piece)
            tokens[at] = token
    _add(raw, tokens, model)
    if options.get("add_bos_token", True):
        bos = names["bos_token"]
        if bos not in ids:
            raise UsageError(f"{model}: tokenizer_config.json: bos_token: {bos!r} is no piece")
        raw.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, ids[bos])]
        )
    pad = _content(options.get("pad_token")) or names["eos_token"]
    return PreTrainedTokenizerFast(tokenizer_object=raw, **names, pad_token=pad)


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, Mapping) else token


def _added(options: Mapping[str, Any], added: Mapping[str, int]) -> dict[int, AddedToken]:
    tokens = {
        int(at): AddedToken(content, special=True, normalized=False)
        for content, at in added.items()
    }
    for at, token in (options.get("added_tokens_decoder") or {}).items():
        flags = {name: bool(token.get(name)) for name in ("lstrip", "rstrip", "normalized")}
        tokens[int(at)] = AddedToken(
            token["content"], single_word=False, special=bool(token.get("special")), **flags
        )
    return tokens


def _add(raw: Tokenizer, tokens: Mapping[int, AddedToken], model: str) -> None:
    for at, token in sorted(tokens.items()):
        known = raw.token_to_id(token.content)
        if at != (raw.get_vocab_size() if known is None else known):
            raise UsageError(
                f"{model}: its tokenizer has no place for the added token {token.content!r} at {at}"
            )
        (raw.add_special_tokens if token.special else raw.add_tokens)([token])


def _merges(stored: SentencePieceModel, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return all ways to make a piece of two others, the best pieces first.

    SentencePiece merges the pair whose result has the highest score.
    """
    found: list[tuple[float, int, int, str, str]] = []
    for piece, score, kind in stored.pieces:
        if kind != 1:
            continue
        for at in range(1, len(piece)):
            left, right = piece[:at], piece[at:]
            if left in ids and right in ids:
                found.append((-score, ids[left], ids[right], left, right))
    return [(left, right) for *_, left, right in sorted(found)]
