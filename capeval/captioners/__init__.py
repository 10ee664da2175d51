"""Video-language models: frames and a prompt in, a caption and its token counts out."""

from capeval.captioners.protocol import (
    Captioned,
    Captioner,
    CaptionRequest,
    SimpleCaptioner,
    Uncaptioned,
)

__all__ = ["CaptionRequest", "Captioned", "Captioner", "SimpleCaptioner", "Uncaptioned"]
