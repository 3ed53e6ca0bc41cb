"""Ada-ClustFormer (ACF): the Transformer whose self-attention is weakened between elements of different clusters.

Paper: "Adaptively Clustering Neighbor Elements for Image Captioning", Eq. 1-8; code: ZihuaEvan/ACFModel (no licence),
not opened here; docs/acf.md says what it does instead of the equations.
Follows the equations where paper and code differ: the mean of Eq. 4 is without the new element, the product of Eq. 3
begins behind k = i, Eq. 6 is applied to C, and C of a grid is Eq. 8's with the box's top row and left column for all
orientations, which makes it symmetric. `context: inclusive_mean`, `self_factor: true`, `stacking: steps` are the
code's one-dimensional path. Its two-dimensional one, neither symmetric nor within 0 and 1, is not offered.
As the code, where the paper is silent or has two readings: weights are multiplied by C after the softmax and not
normalized again, norms come first, and a norm of its own feeds Eq. 4.
Departs from the code: the decoder is causal, one pass a caption, where the code predicts each word of a caption from
a copy of it with a mask token; attention weights have no dropout.
Expected: 54.94 M parameters with 2048-d features, D 512, 6+6 layers, COCO's 9,487 words + <unk>.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack

from torch import Tensor, nn

from recap.models.images import Images, InputSpec
from recap.models.state import Memory
from recap.models.transformer_layers import DecoderLayer, EncoderLayer
from recap.nn.attention import Attention, MultiHeadAttention
from recap.nn.stack import Stack
from recap.papers.acf.cluster_attention import ClusterAttention
from recap.papers.acf.cluster_windows import GridWindow, LineWindow
from recap.papers.acf.clusters import Clusters, TokenByToken
from recap.papers.acf.grid_clusters import GridClusters
from recap.papers.acf.layers import ClusterDecoderLayer, ClusterEncoderLayer
from recap.papers.acf.line_clusters import LineClusters
from recap.papers.acf.region_grid import cell_of_region, region_cells
from recap.papers.transformer.model import Transformer, TransformerSizes


class Acf(Transformer):
    """Transformer with clustering matrices in its encoder, its decoder, or both.

    Args:
        inputs, d_model, heads, sizes: as in `Transformer`.
        encoder_clustering: "2d" for the cells of a grid, "1d" for the vectors in their order, or "none".
        decoder_clustering: "1d" or "none".
        reading: of Eq. 2, see `recap.papers.acf.cluster_attention.ClusterAttention`.
        context, self_factor, stacking: see `recap.papers.acf.clusters.AdaptiveClusters`.
        window: clusters of this fixed size in place of adaptive ones.
        sampling_rate: edge of the blocks for which the encoder's C is computed.
        box, share_directions: see `recap.papers.acf.grid_clusters.GridClusters`.
        cluster_norm: whether a norm of the layer's input feeds Eq. 4.
        layout: "grid": the vectors are the cells of a square grid; "regions": they are laid out as one by their boxes.
        region_rows: rows of that layout.
        plain_encoder_layers: layers below the clustering ones.
    """

    def __init__(
        self,
        inputs: InputSpec,
        *,
        d_model: int,
        heads: int,
        encoder_clustering: str,
        decoder_clustering: str,
        reading: str,
        context: str,
        self_factor: bool,
        stacking: str,
        window: int | None,
        sampling_rate: int,
        box: str,
        share_directions: bool,
        cluster_norm: bool,
        layout: str,
        region_rows: int,
        plain_encoder_layers: int,
        **sizes: Unpack[TransformerSizes],
    ) -> None:
        clustered = {"encoder": encoder_clustering != "none", "decoder": decoder_clustering != "none", "cross": False}

        def attention(place: str) -> Attention:
            if clustered[place]:
                return ClusterAttention(d_model=d_model, heads=heads, reading=reading)
            return MultiHeadAttention(d_model=d_model, heads=heads)

        super().__init__(inputs, d_model=d_model, heads=heads, make_attention=attention, **sizes)
        self.region_rows = region_rows if layout == "regions" else None
        self.reads_boxes = layout == "regions"  # a setting decides here
        norm = sizes["layer_norm"] if cluster_norm else "none"

        def line(rate: int) -> TokenByToken:
            if window is not None:
                return LineWindow(window=window)
            return LineClusters(
                d_model=d_model, norm=norm, context=context, self_factor=self_factor, stacking=stacking, rate=rate
            )

        def grid() -> Clusters:
            if window is not None:
                return GridWindow(window=window, height=self.region_rows)
            return GridClusters(
                d_model=d_model,
                norm=norm,
                context=context,
                self_factor=self_factor,
                stacking=stacking,
                rate=sampling_rate,
                height=self.region_rows,
                box=box,
                share_directions=share_directions,
            )

        if clustered["encoder"]:
            layers = list(self.encoder)
            self.encoder = Stack[EncoderLayer](
                layer
                if index < plain_encoder_layers
                else ClusterEncoderLayer(layer, grid() if encoder_clustering == "2d" else line(sampling_rate))
                for index, layer in enumerate(layers)
            )
        if clustered["decoder"]:
            self.decoder = Stack[DecoderLayer](ClusterDecoderLayer(layer, line(1)) for layer in self.decoder)

    def encode(self, images: Images) -> Memory:
        """As `Transformer.encode`; regions are laid out by their boxes and come back in their own order."""
        if self.region_rows is None:
            return super().encode(images)
        stream = images.main
        if stream.boxes is None:
            raise ValueError("layout 'regions' needs boxes, but the images have none")
        regions = stream.mask.shape[1]
        cells = region_cells(stream.boxes, stream.mask, self.region_rows)  # [B, M]
        real = cells < regions
        laid_out = _taken(stream.values, cells.clamp(max=regions - 1)).masked_fill(~real[..., None], 0.0)
        memory = super().encode(Images.of(laid_out, real))
        return Memory(_taken(memory.values, cell_of_region(cells, regions)), stream.mask)

    def cluster_modules(self) -> dict[str, Sequence[nn.Identity | None]]:
        """Return where log C~ passes in each layer of "encoder" and "decoder"; None: a layer has no clusters."""
        stacks: dict[str, Iterable[nn.Module]] = {"encoder": self.encoder, "decoder": self.decoder}
        return {
            place: [
                layer.log_clusters if isinstance(layer, ClusterEncoderLayer | ClusterDecoderLayer) else None
                for layer in stack
            ]
            for place, stack in stacks.items()
        }


def _taken(values: Tensor, index: Tensor) -> Tensor:
    """Values [B, N, D] and numbers [B, M] -> [B, M, D]."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))
