"""transformers' LLaVA with the projected patches of each frame pooled by average."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn
from transformers import LlavaConfig, LlavaForConditionalGeneration
from transformers.models.llava.modeling_llava import LlavaModel


class PooledLlavaConfig(LlavaConfig):
    """LLaVA's configuration, and the stride of the pooling."""

    model_type = "pooled_llava"

    spatial_pool_stride: int = 2


class PooledLlavaModel(LlavaModel):
    """LLaVA's model with pooled patches."""

    def get_image_features(self, pixel_values: torch.Tensor, **options: Any) -> Any:
        """Return the embeddings of (frames, channels, height, width) pixels."""
        outputs = super().get_image_features(pixel_values, **options)
        projected = torch.stack(outputs.pooler_output)
        side = int(projected.shape[1] ** 0.5)
        grid = projected.unflatten(1, (side, side)).permute(0, 3, 1, 2)
        pooled = nn.functional.avg_pool2d(grid, self.config.spatial_pool_stride)
        outputs.pooler_output = list(pooled.flatten(2).transpose(1, 2))
        return outputs


class PooledLlavaForConditionalGeneration(LlavaForConditionalGeneration):
    """The model with its language-model head."""

    config_class = PooledLlavaConfig
    _keys_to_ignore_on_load_unexpected: ClassVar[list[str]] = [r"position_ids", r"rotary_emb"]

    def __init__(self, config: PooledLlavaConfig) -> None:
        super().__init__(config)
        self.model = PooledLlavaModel(config)
        self.post_init()
