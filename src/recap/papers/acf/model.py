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

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, Unpack

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
from recap.papers.acf.settings import AcfModel
from recap.papers.transformer.model import MakeAttention, Transformer, TransformerSizes


class Acf(Transformer):
    """Transformer with clustering matrices in its encoder, its decoder, or both.

    Args:
        inputs, d_model, heads, make_attention, sizes: as in `Transformer`.
        encoder_clusters, decoder_clusters: each makes the clusters of a layer; None: that side has none.
        plain_encoder_layers: layers below the clustering ones.
        region_rows: rows of the grid on which regions are laid out by their boxes; None: vectors come as they are.
    """

    def __init__(
        self,
        inputs: InputSpec,
        *,
        d_model: int,
        heads: int,
        make_attention: MakeAttention,
        encoder_clusters: Callable[[], Clusters] | None,
        decoder_clusters: Callable[[], TokenByToken] | None,
        plain_encoder_layers: int,
        region_rows: int | None,
        **sizes: Unpack[TransformerSizes],
    ) -> None:
        super().__init__(inputs, d_model=d_model, heads=heads, make_attention=make_attention, **sizes)
        self.region_rows = region_rows
        self.reads_boxes = region_rows is not None  # a setting decides here
        if encoder_clusters is not None:
            layers = list(self.encoder)
            self.encoder = Stack[EncoderLayer](
                layer if index < plain_encoder_layers else ClusterEncoderLayer(layer, encoder_clusters())
                for index, layer in enumerate(layers)
            )
        if decoder_clusters is not None:
            self.decoder = Stack[DecoderLayer](ClusterDecoderLayer(layer, decoder_clusters()) for layer in self.decoder)

    @classmethod
    def build(cls, inputs: InputSpec, settings: AcfModel) -> Self:
        """Build the model of the settings."""
        d_model, heads, window = settings.d_model, settings.heads, settings.window
        region_rows = settings.region_rows if settings.layout == "regions" else None
        adaptive: Any = {
            "d_model": d_model,
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

        clusters: dict[str, Callable[[], Clusters] | None] = {
            "2d": grid,
            "1d": lambda: line(settings.sampling_rate),
            "none": None,
        }
        of_encoder = clusters[settings.encoder_clustering]
        of_decoder = (lambda: line(1)) if settings.decoder_clustering == "1d" else None
        clustered = {"encoder": of_encoder is not None, "decoder": of_decoder is not None, "cross": False}

        def attention(place: str) -> Attention:
            if clustered[place]:
                return ClusterAttention(d_model=d_model, heads=heads, reading=settings.reading)
            return MultiHeadAttention(d_model=d_model, heads=heads)

        sizes: Any = {name: getattr(settings, name) for name in TransformerSizes.__annotations__}
        return cls(
            inputs,
            d_model=d_model,
            heads=heads,
            make_attention=attention,
            encoder_clusters=of_encoder,
            decoder_clusters=of_decoder,
            plain_encoder_layers=settings.plain_encoder_layers,
            region_rows=region_rows,
            **sizes,
        )

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
