"""What makes ResNet-101 of a detector library the network of bottom-up attention (Anderson et al. 2018).

Names and shapes of its weights do not show these differences: released weights load without them, and give other
vectors. Of three sources that run these weights, all agree on the first two: py-bottom-up-attention
(`CAFFE_MAXPOOL: True`, `RES5HALVE: False`), MILVLG's bottom-up-attention.pytorch (`RES5_DILATION: 2`) and the copy in
transformers' LXMERT project. Only MILVLG's has the third.

- the stem's max pooling has no padding and keeps the last, incomplete window;
- the fifth stage in the head has stride 1 and dilation 2, so that a region's 14 x 14 cells stay 14 x 14;
- Caffe's anchors are rounded, stand at the middle of a cell and are ordered by ratio, then size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

STRIDE = 16  # of the fourth stage, and the side of Caffe's base anchor
SCALES, RATIOS = (4, 8, 16, 32), (0.5, 1.0, 2.0)


class CaffeStem(nn.Module):
    """The first convolution of a ResNet with the max pooling of Caffe's model."""

    def __init__(self, conv1: nn.Module) -> None:
        super().__init__()
        self.conv1 = conv1

    def forward(self, pixels: Tensor) -> Tensor:
        """Return maps [B, 64, h, w] of pictures [B, 3, H, W]."""
        return max_pool2d(torch.relu(self.conv1(pixels)), kernel_size=3, stride=2, padding=0, ceil_mode=True)


def caffe_anchors() -> Tensor:
    """Return the 12 anchors of the cell at the top left, [12, 4] left, top, right, bottom, of any reals.

    Caffe's boxes include their last pixel; right and bottom are one more here, so that a width is right - left.
    """
    anchors = []
    for ratio in RATIOS:
        width = round((STRIDE**2 / ratio) ** 0.5)
        height = round(width * ratio)  # of halves the even one, as numpy has it
        for scale in SCALES:
            half_width, half_height = width * scale / 2, height * scale / 2
            center = STRIDE / 2
            anchors.append([center - half_width, center - half_height, center + half_width, center + half_height])
    return torch.tensor(anchors)
