"""Which frames of a video a model sees, exactly known: sampling, decoding, prefetching."""

from __future__ import annotations

from capeval.video.choice import Policy
from capeval.video.decoding import FrameReader, decoder_named, open_reader, prefetch
from capeval.video.frames import FrameSet
from capeval.video.sampling import Given, Middle, Uniform, read_policy

__all__ = [
    "FrameReader",
    "FrameSet",
    "Given",
    "Middle",
    "Policy",
    "Uniform",
    "decoder_named",
    "open_reader",
    "prefetch",
    "read_policy",
]
