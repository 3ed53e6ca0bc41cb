"""The layers of Ada-ClustFormer: those of the Transformer, whose self-attention is weakened by a clustering matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from recap.models.transformer_layers import DecoderLayer, EncoderLayer, Past
from recap.nn.attention import KeyValue
from recap.nn.rows import Rows
from recap.papers.acf.cluster_attention import ClusterAttention
from recap.papers.acf.clusters import Carried, Clusters, TokenByToken, TokenClusters


@dataclass(eq=False)
class ClusteredRows(Rows):
    """Rows with what their layer hands to the next one for Eq. 6."""

    carried: Carried = ()

    @classmethod
    def of(cls, rows: Rows, values: Tensor, carried: Carried) -> ClusteredRows:
        """Return other vectors of the same tokens."""
        return cls(values, rows.index, rows.token_mask, carried)


@dataclass
class ClusterPast(Past):
    """Also the clusters of one layer; a step of the layer replaces them."""

    clusters: TokenClusters

    def to_entries(self, row: Tensor) -> Tensor:
        """Numbers of each beam's tokens in order [B, C, T] -> of the entries of the cache [B, C, 1, S]."""
        entries = row.new_zeros(*row.shape[:2], self.cache.size)
        return entries.scatter(2, self.cache.ancestry, row)[:, :, None]


class ClusterEncoderLayer(EncoderLayer):
    """The Transformer's encoder layer under a clustering matrix of its input.

    Attributes:
        log_clusters: an identity through which log C~ [B or 1, 1, N, N] passes, for forward hooks.
    """

    def __init__(self, layer: EncoderLayer, clusters: Clusters) -> None:
        """Take over the modules of a layer."""
        nn.Module.__init__(self)
        self.attention, self.feed_forward = layer.attention, layer.feed_forward
        self.around_attention, self.around_feed_forward = layer.around_attention, layer.around_feed_forward
        self.clusters, self.log_clusters = clusters, nn.Identity()

    def forward(self, x: Rows, attn_mask: Tensor | None) -> Rows:
        """As `EncoderLayer.forward`; what the layer below handed on is in `x`."""
        log_clusters, carried = self.clusters(x, _carried(x))
        log_clusters = self.log_clusters(log_clusters)
        attention = cast(ClusterAttention, self.attention)

        def attend(y: Tensor) -> Tensor:
            rows = x.like(y)
            key_value = attention.key_value(rows)
            return attention(rows, key_value, attn_mask=attn_mask, log_clusters=log_clusters).values

        attended = self.around_attention(x.values, attend)
        return ClusteredRows.of(x, self.around_feed_forward(attended, self.feed_forward), carried)


class ClusterDecoderLayer(DecoderLayer):
    """The Transformer's decoder layer, whose self-attention is under a clustering matrix of its input.

    Attributes:
        log_clusters: an identity through which log C~ [B, C, T, T] passes under teacher forcing, for forward hooks.
    """

    def __init__(self, layer: DecoderLayer, clusters: TokenByToken) -> None:
        """Take over the modules of a layer."""
        nn.Module.__init__(self)
        self.attention, self.cross, self.feed_forward = layer.attention, layer.cross, layer.feed_forward
        self.around_attention, self.around_cross = layer.around_attention, layer.around_cross
        self.around_feed_forward = layer.around_feed_forward
        self.clusters, self.log_clusters = clusters, nn.Identity()

    def forward(
        self,
        x: Rows,
        image: KeyValue,
        self_mask: Tensor | None,
        cross_mask: Tensor | None,
        past: Past | None = None,
    ) -> Rows:
        """As `DecoderLayer.forward`; what the layer below handed on is in `x`."""
        log_clusters, carried = self._log_clusters(x, past)
        attention = cast(ClusterAttention, self.attention)

        def attend(y: Tensor) -> Tensor:
            rows = x.like(y)
            key_value = attention.key_value(rows)
            key_value = key_value if past is None else past.extend(key_value)
            return attention(rows, key_value, attn_mask=self_mask, log_clusters=log_clusters).values

        y = self.around_attention(x.values, attend)
        y = self.around_cross(y, lambda y: self.cross_attend(x.like(y), image, cross_mask, past).values)
        return ClusteredRows.of(x, self.around_feed_forward(y, self.feed_forward), carried)

    def _log_clusters(self, x: Rows, past: Past | None) -> tuple[Tensor, Carried]:
        """Return log C~ of the tokens, or of one more token and the entries of the cache."""
        if not isinstance(past, ClusterPast):
            log_clusters, carried = self.clusters(x, _carried(x))
            return self.log_clusters(log_clusters), carried
        row, carried, past.clusters = self.clusters.step(x, past.clusters, _carried(x))
        return past.to_entries(row), carried

    def empty_clusters(self, like: Tensor) -> TokenClusters:
        """Return what is known before the first token of the images [B, ...]."""
        return self.clusters.empty(like)


def _carried(x: Rows) -> Carried:
    return x.carried if isinstance(x, ClusteredRows) else ()
