"""Video-language models: frames and a prompt in, a caption and what it cost out."""

from capeval.captioners.protocol import Captioned, Captioner, CaptionRequest, Uncaptioned

__all__ = ["CaptionRequest", "Captioned", "Captioner", "Uncaptioned"]
