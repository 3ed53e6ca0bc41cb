"""The layers of Ada-ClustFormer: those of the Transformer, whose self-attention is weakened by a clustering matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from recap.models.transformer import DecoderLayer, EncoderLayer, Past
from recap.nn.rows import Rows
from recap.papers.acf.clusters import Carried, Clusters, TokenByToken, TokenClusters


@dataclass(eq=False)
class ClusteredRows(Rows):
    """Rows with what their layer hands to the next one for Eq. 6."""

    carried: Carried = ()

    @classmethod
    def of(cls, rows: Rows, carried: Carried) -> ClusteredRows:
        """Return the rows with what is handed on."""
        return cls(rows.values, rows.index, rows.token_mask, carried)


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

    def forward(self, x: Rows, attn_mask: Tensor | None, **others: Any) -> Rows:
        """As `EncoderLayer.forward`; what the layer below handed on is in `x`."""
        log_clusters, carried = self.clusters(x, _carried(x))
        out = super().forward(x, attn_mask, log_clusters=self.log_clusters(log_clusters), **others)
        return ClusteredRows.of(out, carried)


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

    def begin(self, like: Tensor) -> TokenClusters:
        """Return the clusters of no tokens."""
        return self.clusters.empty(like)

    def forward(
        self, x: Rows, image: Any, self_mask: Tensor | None, cross_mask: Any, past: Past | None = None, **others: Any
    ) -> Rows:
        """As `DecoderLayer.forward`; what the layer below handed on is in `x`."""
        log_clusters, carried = self._log_clusters(x, past)
        out = super().forward(x, image, self_mask, cross_mask, past, log_clusters=log_clusters, **others)
        return ClusteredRows.of(out, carried)

    def _log_clusters(self, x: Rows, past: Past | None) -> tuple[Tensor, Carried]:
        """Return log C~ of the tokens, or of one more token and the entries of the cache."""
        if past is None:
            log_clusters, carried = self.clusters(x, _carried(x))
            return self.log_clusters(log_clusters), carried
        row, carried, past.carried = self.clusters.step(x, past.carried, _carried(x))
        entries = row.new_zeros(*row.shape[:2], past.cache.size)  # from the tokens of each beam, [B, C, T]
        return entries.scatter(2, past.cache.ancestry, row)[:, :, None], carried


def _carried(x: Rows) -> Carried:
    return x.carried if isinstance(x, ClusteredRows) else ()
