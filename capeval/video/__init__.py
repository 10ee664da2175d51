"""Which frames of a video a model sees, exactly known: sampling, decoding, prefetching."""

from __future__ import annotations

from capeval.video.decoding import (
    DECODERS,
    Decoder,
    FrameReader,
    decoder_named,
    open_reader,
    prefetch,
)
from capeval.video.frames import FrameSet, Timeline
from capeval.video.sampling import (
    Dynamic,
    Fps,
    Given,
    Middle,
    Policy,
    Shuffled,
    Uniform,
    read_policy,
)

__all__ = [
    "DECODERS",
    "Decoder",
    "Dynamic",
    "Fps",
    "FrameReader",
    "FrameSet",
    "Given",
    "Middle",
    "Policy",
    "Shuffled",
    "Timeline",
    "Uniform",
    "decoder_named",
    "open_reader",
    "prefetch",
    "read_policy",
]
