"""X-LAN: X-Linear attention in encoder and decoder, around an LSTM.

Paper: Pan et al. 2020, "X-Linear Attention Networks for Image Captioning", section 3.3, Eq. 7-10; code:
JDAI-CV/image-captioning, not opened here. As the released code has it, where that differs from the paper:
  - 8 heads (D_B = 8 x 128, D_c = 8 x 64), CELU(1.3) and group norms in the blocks, keys and values updated as one;
  - a norm after W_G; the LSTM reads [word ; global + context], 2 D wide, not four vectors side by side;
  - the attended vector passes through norm(W [h ; v]) before the GLU.
The rows of Table 3: `encoder_layers` 0 to 4, `decoder_attention` conventional or x_linear, `activation` relu or celu.
Departs: with `decoder_attention: conventional` (not released) only the attention itself is exchanged, for Eq. 1.
Expected: 75.2 M parameters with 2048-d features and 9,488 ids. Torch's initialization; the output layer is not tied.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import celu, glu

from recap.models.images import Images, InputSpec
from recap.models.recurrent import ContextCaptioner, ContextState
from recap.models.state import GlobalMemory, masked_mean
from recap.nn.attention import AdditiveAttention
from recap.nn.fast import Dropout, Linear
from recap.nn.layers import LSTMCell, Stack
from recap.nn.masks import key_mask
from recap.nn.rows import Rows
from recap.papers.xlan.settings import XLanModel
from recap.papers.xlan.x_linear import CELU_ALPHA, FeatureMix, XLinear, x_linear


class XLanEncoder(nn.Module):
    """Stacked X-Linear blocks over the regions, each queried by the last one's output (Eq. 7-8, 10)."""

    def __init__(self, *, d_model: int, blocks: list[XLinear], dropout: float, mix_dropout: float) -> None:
        super().__init__()
        self.blocks = Stack[XLinear](blocks)
        self.mixes = nn.ModuleList(FeatureMix(d_model=d_model, dropout=mix_dropout) for _ in blocks)
        self.dropout = Dropout(dropout)
        self.projection = Linear((len(blocks) + 1) * d_model, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, regions: Tensor, mask: Tensor) -> GlobalMemory:
        """[B, N, D], [B, N] -> updated regions and global vector."""
        x, attn_mask = regions[:, None], key_mask(mask)
        g = masked_mean(regions, mask)[:, None, None]  # [B, 1, 1, D]
        summaries = [g]
        for block, mix in zip(self.blocks, self.mixes, strict=True):
            attended = block(Rows(g), block.key_value(Rows(x)), attn_mask=attn_mask).values
            g = self.dropout(attended)
            x = mix(g, x)
            summaries.append(g)
        return GlobalMemory(x[:, 0], mask, self.norm(self.projection(torch.cat(summaries, -1)))[:, 0, 0])


class AttendedState(nn.Module):
    """v' = norm(W [h ; v]), then GLU(W' [v' ; h]): state and attended vector -> context, all [..., D]."""

    def __init__(self, *, d_model: int) -> None:
        super().__init__()
        self.linear = Linear(2 * d_model, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.gate = Linear(2 * d_model, 2 * d_model)

    def forward(self, h: Tensor, attended: Tensor) -> Tensor:
        """[..., D] and [..., D] -> [..., D]."""
        v = self.norm(self.linear(torch.cat([h, attended], -1)))
        return glu(self.gate(torch.cat([v, h], -1)), -1)


class XLan(ContextCaptioner):
    """X-LAN and the variants of its ablation."""

    def __init__(self, inputs: InputSpec, settings: XLanModel) -> None:
        super().__init__()
        d_model = settings.d_model
        block = x_linear(settings)
        self.d_model = d_model
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = Dropout(settings.feature_dropout)
        self.encoder = XLanEncoder(
            d_model=d_model,
            blocks=[block() for _ in range(settings.encoder_layers)],
            dropout=settings.attention_dropout,
            mix_dropout=settings.mix_dropout,
        )
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, d_model)
        self.word_dropout = Dropout(settings.word_dropout)
        self.lstm = LSTMCell(2 * d_model, d_model)
        self.attention: XLinear | AdditiveAttention = (
            block()
            if settings.decoder_attention == "x_linear"
            else AdditiveAttention(d_query=d_model, d_source=d_model, d_hidden=settings.heads * settings.d_joint)
        )
        self.attention_dropout = Dropout(settings.attention_dropout)
        self.attended = AttendedState(d_model=d_model)
        self.context_dropout, self.output_dropout = (Dropout(settings.context_dropout) for _ in range(2))
        self.output = Linear(d_model, inputs.vocabulary_size)

    def encode(self, images: Images) -> GlobalMemory:
        """Images -> regions and global vector; vectors that the mask hides change nothing."""
        regions = self.feature_dropout(celu(self.feature_embedding(images.main.values), CELU_ALPHA))
        return self.encoder(regions, images.main.mask)

    def embed(self, tokens: Tensor) -> Tensor:
        """Token ids [...] -> their part of the LSTM's projected input, [..., 4D]."""
        embedded = self.word_dropout(celu(self.word_embedding(tokens), CELU_ALPHA))
        return self.lstm.project_input(embedded, 0)

    def context(self, h: Tensor, state: ContextState) -> Tensor:
        """Attend to the regions with h; [B, C, D] -> context [B, C, D]."""
        return self.attended(h, self.attention_dropout(self.attend(h, state)))
