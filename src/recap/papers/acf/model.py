"""Ada-ClustFormer (ACF): the Transformer whose self-attention is weakened between elements of different clusters.

Paper: "Adaptively Clustering Neighbor Elements for Image Captioning", Eq. 1-8; code: ZihuaEvan/ACFModel (no license),
not opened here; docs/papers/acf.md says what it does instead of the equations.
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
from typing import Any

from torch import Tensor, nn

from recap.models.images import Images, InputSpec
from recap.models.state import Memory
from recap.models.transformer import DecoderLayer, EncoderLayer
from recap.nn.attention import Attention, MultiHeadAttention
from recap.nn.layers import Stack
from recap.papers.acf.cluster_attention import ClusterAttention
from recap.papers.acf.cluster_windows import GridWindow, LineWindow
from recap.papers.acf.clusters import Clusters, GridClusters, LineClusters, TokenByToken
from recap.papers.acf.layers import ClusterDecoderLayer, ClusterEncoderLayer
from recap.papers.acf.region_grid import cell_of_region, region_cells
from recap.papers.acf.settings import AcfModel
from recap.papers.transformer.model import Transformer


class Acf(Transformer):
    """Transformer with clustering matrices in its encoder, its decoder, or both."""

    def __init__(self, inputs: InputSpec, settings: AcfModel) -> None:
        window = settings.window
        region_rows = settings.region_rows if settings.layout == "regions" else None
        adaptive: Any = {
            "d_model": settings.d_model,
            "norm": settings.layer_norm if settings.cluster_norm else "none",
            "context": settings.context,
            "self_factor": settings.self_factor,
            "stacking": settings.stacking,
        }

        def line(rate: int) -> TokenByToken:
            return LineWindow(window=window) if window is not None else LineClusters(**adaptive, rate=rate)

        def grid() -> Clusters:
            if window is not None:
                return GridWindow(window=window, height=region_rows)
            return GridClusters(
                **adaptive,
                rate=settings.sampling_rate,
                height=region_rows,
                box=settings.box,
                share_directions=settings.share_directions,
            )

        clustered = {
            "encoder": settings.encoder_clustering != "none",
            "decoder": settings.decoder_clustering != "none",
            "cross": False,
        }

        def attention(place: str) -> Attention:
            if clustered[place]:
                return ClusterAttention(d_model=settings.d_model, heads=settings.heads, reading=settings.reading)
            return MultiHeadAttention(d_model=settings.d_model, heads=settings.heads)

        super().__init__(inputs, settings, make_attention=attention)
        self.region_rows = region_rows
        self.reads_boxes = region_rows is not None  # a setting decides here
        if clustered["encoder"]:
            self.encoder = Stack[EncoderLayer](
                layer
                if index < settings.plain_encoder_layers
                else ClusterEncoderLayer(
                    layer, grid() if settings.encoder_clustering == "2d" else line(settings.sampling_rate)
                )
                for index, layer in enumerate(self.encoder)
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
