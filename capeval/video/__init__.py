"""Which frames of a video a model sees: sampling and decoding."""

from __future__ import annotations

from capeval.video.decoding import FrameReader, decoder_named, open_reader
from capeval.video.frames import FrameSet
from capeval.video.sampling import Given, Policy, Uniform, read_policy

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
