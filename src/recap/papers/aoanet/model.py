"""AoANet: attention on attention, in a refiner of the image vectors and around an LSTM.

Paper: Huang et al. 2019, "Attention on Attention for Image Captioning"; code: husthuaan/AoANet, not
opened here. As the released code has it:

    AoA(query, attended) = GLU(W dropout([attended ; query]))
                         = (W_i [...] + b_i) * sigmoid(W_g [...] + b_g)
    x = relu(W f);   x = x + AoA(norm(x), x),  6 times, without feed-forward layers;   x = norm(x)
    h, c = LSTM([word ; mean x + context], h, c)
    context = AoA(h, attention(norm(h), x)),   logits = W context

The LSTM's input is 2 D wide, because mean and context are added. Norms use the unbiased standard
deviation. The decoder's attention has no output projection.
Departs: the refiner's layers are drawn one by one, where the release copies the first one's initial
weights; attention weights are dropped in the decoder, too, whose attention is the refiner's class
in the release.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import glu

from recap.models.images import Images, InputSpec
from recap.models.recurrent import ContextCaptioner, ContextState
from recap.models.state import GlobalMemory, masked_mean
from recap.nn.attention import Attention, KeyValue, MultiHeadAttention
from recap.nn.fast import Linear
from recap.nn.layers import Dropout, LSTMCell, Residual, Stack, UnbiasedLayerNorm
from recap.nn.rows import Rows, key_mask
from recap.papers.aoanet.settings import AoANetModel

ORDER = "attended_query"  # of what the AoA concatenates


class AttentionOnAttention(nn.Module):
    """AoA: what was attended, gated in view of the query;
    of the linear layer, the gate is the second half.

    `order` of the two in the concatenation is "attended_query" (AoANet) or "query_attended".
    """

    def __init__(self, *, d_model: int, order: str, dropout: float) -> None:
        super().__init__()
        self.attended_first = order == "attended_query"
        self.dropout = Dropout(dropout)
        self.linear = Linear(2 * d_model, 2 * d_model)

    def forward(self, query: Tensor, attended: Tensor) -> Tensor:
        """[..., D] and [..., D] -> [..., D]."""
        both = [attended, query] if self.attended_first else [query, attended]
        return glu(self.linear(self.dropout(torch.cat(both, -1))), -1)


class AoAAttention(Attention):
    """Multi-head attention without output projection, then AoA with the query as it came."""

    def __init__(
        self, *, d_model: int, heads: int, order: str, attention_dropout: float, aoa_dropout: float
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(
            d_model=d_model, heads=heads, dropout=attention_dropout, projected=False
        )
        self.aoa = AttentionOnAttention(d_model=d_model, order=order, dropout=aoa_dropout)

    def key_value(self, source: Rows) -> KeyValue:
        """Rows of [B, C or 1, N, D] -> keys and values [B, C or 1, H, N, K]."""
        return self.attention.key_value(source)

    def forward(self, query: Rows, key_value: KeyValue, *, attn_mask: Tensor | None = None) -> Rows:
        """Attend, see `Attention.forward`."""
        attended = self.attention(query, key_value, attn_mask=attn_mask)
        return query.like(self.aoa(query.values, attended.values))


class RefinerLayer(nn.Module):
    """x + dropout(AoA attention(norm(x))) of image vectors, rows of [B, 1, N, D]."""

    def __init__(self, settings: AoANetModel) -> None:
        super().__init__()
        d_model = settings.d_model
        self.attention = AoAAttention(
            d_model=d_model,
            heads=settings.heads,
            order=ORDER,
            attention_dropout=settings.attention_dropout,
            aoa_dropout=settings.aoa_dropout,
        )
        self.around = Residual(
            d_model=d_model, norm="pre", norm_kind="unbiased", dropout=settings.refiner_dropout
        )

    def forward(self, x: Rows, attn_mask: Tensor | None) -> Rows:
        """Apply the layer; `attn_mask` is broadcastable to [B, 1, N, N]."""
        return x.within(self.around, lambda y: self.attention.to_itself(y, attn_mask))


class AoANet(ContextCaptioner):
    """AoANet."""

    def __init__(self, inputs: InputSpec, settings: AoANetModel) -> None:
        super().__init__()
        self.d_model = d_model = settings.d_model
        self.feature_embedding = Linear(inputs.feature_size, d_model)
        self.feature_dropout = Dropout(settings.feature_dropout)
        self.refiner = Stack[RefinerLayer](
            RefinerLayer(settings) for _ in range(settings.refiner_layers)
        )
        self.refiner_norm = UnbiasedLayerNorm(d_model) if settings.refiner_layers else nn.Identity()
        self.word_embedding = nn.Embedding(inputs.vocabulary_size, d_model)
        self.word_dropout = Dropout(settings.word_dropout)
        self.lstm = LSTMCell(2 * d_model, d_model)
        self.query_norm = UnbiasedLayerNorm(d_model)
        self.attention = MultiHeadAttention(
            d_model=d_model,
            heads=settings.heads,
            dropout=settings.attention_dropout,
            projected=False,
        )
        self.aoa = AttentionOnAttention(d_model=d_model, order=ORDER, dropout=0.0)
        self.context_dropout = Dropout(settings.context_dropout)
        self.output_dropout = Dropout(settings.context_dropout)
        self.output = Linear(d_model, inputs.vocabulary_size)

    def encode(self, images: Images) -> GlobalMemory:
        """Images -> refined vectors and their mean; vectors that the mask hides change nothing."""
        mask = images.main.mask
        x = self.feature_dropout(torch.relu(self.feature_embedding(images.main.values)))
        rows = Rows(x.masked_fill(~mask[..., None], 0)[:, None])
        for layer in self.refiner:
            rows = self.run_layer(layer, rows, key_mask(mask))
        values = self.refiner_norm(rows.values)[:, 0]
        return GlobalMemory(values, mask, masked_mean(values, mask))

    def step(self, tokens: Tensor, state: ContextState) -> tuple[Tensor, ContextState]:
        """Tokens [B, C] -> log-probabilities [B, C, V] and the new state.

        A training model drops here, too.
        """
        state = self.advance(self.embed(tokens), state)
        return self.log_probabilities(self.output_dropout(state.context)), state

    def embed(self, tokens: Tensor) -> Tensor:
        """Token ids [...] -> their part of the LSTM's projected input, [..., 4D]."""
        return self.lstm.project_input(
            self.word_dropout(torch.relu(self.word_embedding(tokens))), 0
        )

    def context(self, h: Tensor, state: ContextState) -> Tensor:
        """Attend to the refined vectors with h; [B, C, D] -> context [B, C, D]."""
        return self.aoa(h, self.attend(self.query_norm(h), state))
