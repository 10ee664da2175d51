"""Sampling and decoding: the frames of a video that a model sees."""

from __future__ import annotations

from capeval.video.decoding import FrameReader, decoder_named, open_reader
from capeval.video.sampling import FrameSet, Given, Policy, Uniform, read_policy

__all__ = [
    "FrameReader",
    "FrameSet",
    "Given",
    "Policy",
    "Uniform",
    "decoder_named",
    "open_reader",
    "read_policy",
]
