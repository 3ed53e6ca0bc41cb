"""The Transformer as one would write it today in plain torch,
beside ours: cross-entropy step and beam search.

Fused attention, fused Adam, an image encoded once, keys and values of its regions projected once
for its captions, captions padded to the longest; a static cache of keys and values, all beams of
all images in one batch.

`OMP_NUM_THREADS=1 python -m benchmarks.modern --images 5 --rounds 7`: CPU seconds, ratio modern /
ours within rounds. With `--repeat` the encoded image is repeated for each caption or beam and then
projected, as most code does.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from benchmarks.beam import search
from benchmarks.figures import clocks, machine, show
from benchmarks.plain import BOS, EOS, PAD
from benchmarks.shapes import FEATURES, LENGTH, WORDS, batch, models
from benchmarks.step import learner
from recap.settings import CrossEntropy
from recap.training.objectives import CrossEntropyObjective
from recap.training.optim import build_optimizer

WIDTH, HEADS, HIDDEN, LAYERS, BEAM = 512, 8, 2048, 6, 5


class Attention(nn.Module):
    """Multi-head attention by torch's fused kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.output = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.key_value = nn.Linear(WIDTH, 2 * WIDTH)

    def project(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """[B, N, D] -> keys and values [B, H, N, K]."""
        key, value = self.key_value(source).unflatten(-1, (2, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return key, value

    def forward(self, x: Tensor, key: Tensor, value: Tensor, causal: bool = False) -> Tensor:
        """[R, T, D], keys and values [R, H, N, K] -> [R, T, D]."""
        query = self.query(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        out = scaled_dot_product_attention(query, key, value, is_causal=causal)
        return self.output(out.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """A pre-norm layer of encoder or decoder."""

    def __init__(self, crosses: bool) -> None:
        super().__init__()
        self.attention, self.cross = Attention(), Attention() if crosses else None
        self.feed_forward = nn.Sequential(
            nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Dropout(0.1), nn.Linear(HIDDEN, WIDTH)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, image: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Whole sequences."""
        y = self.norms[0](x)
        x = x + self.dropout(
            self.attention(y, *self.attention.project(y), causal=self.cross is not None)
        )
        return self.rest(x, image)

    def step(self, x: Tensor, image: tuple[Tensor, Tensor], cache: Tensor, place: int) -> Tensor:
        """One word [R, 1, D]; its key and value go into the cache [2, R, H, T, K]."""
        y = self.norms[0](x)
        for part, new in zip(cache, self.attention.project(y), strict=True):
            part[:, :, place] = new[:, :, 0]
        return self.rest(x + self.attention(y, *cache[:, :, :, : place + 1]), image)

    def rest(self, x: Tensor, image: tuple[Tensor, Tensor] | None) -> Tensor:
        """Cross-attention and feed-forward part."""
        if self.cross is not None and image is not None:
            x = x + self.dropout(self.cross(self.norms[1](x), *image))
        return x + self.dropout(self.feed_forward(self.norms[2](x)))


class Modern(nn.Module):
    """6+6 layers of width 512."""

    def __init__(self, *, repeats: bool) -> None:
        super().__init__()
        self.repeats = repeats
        self.features = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Dropout(0.5))
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH)
        self.encoder = nn.ModuleList(Layer(crosses=False) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(Layer(crosses=True) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.dropout, self.output = nn.Dropout(0.1), nn.Linear(WIDTH, WORDS)

    def image(self, features: Tensor, times: int) -> list[tuple[Tensor, Tensor]]:
        """Encode images [B, N, F] once -> each decoder layer's keys
        and values [B * times, H, N, K]."""
        x = self.features(features)
        for layer in self.encoder:
            x = layer(x)
        x = self.norms[0](x)
        if self.repeats:
            x, times = x.repeat_interleave(times, 0), 1
        pairs = [layer.cross.project(x) for layer in self.decoder]
        return [
            (key.repeat_interleave(times, 0), value.repeat_interleave(times, 0))
            for key, value in pairs
        ]

    def embed(self, words: Tensor, first: int = 0) -> Tensor:
        """Words [R, T] that begin at a place -> [R, T, D]."""
        places = torch.arange(first, first + words.shape[1])
        return self.dropout(self.words(words) * math.sqrt(WIDTH) + self.places(places))

    def forward(self, features: Tensor, captions: Tensor) -> Tensor:
        """Loss of captions [B, C, T + 1]."""
        image, rows = self.image(features, captions.shape[1]), captions.flatten(0, 1)
        x = self.embed(rows[:, :-1])
        for layer, pair in zip(self.decoder, image, strict=True):
            x = layer(x, pair)
        scores = self.output(self.norms[1](x))
        return cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten(), ignore_index=PAD)

    @torch.inference_mode()
    def search(self, features: Tensor) -> Tensor:
        """Beam search to the full length -> words [B, BEAM, T]."""
        images = len(features)
        image, rows = self.image(features, BEAM), images * BEAM
        cache = torch.zeros(LAYERS, 2, rows, HEADS, LENGTH, WIDTH // HEADS)
        words, totals = torch.full((rows, 1), BOS), torch.zeros(images, BEAM)
        totals[:, 1:] = -math.inf  # all beams begin alike
        first = torch.arange(images)[:, None] * BEAM
        for place in range(LENGTH):
            x = self.embed(words[:, -1:], place)
            for layer, pair, past in zip(self.decoder, image, cache, strict=True):
                x = layer.step(x, pair, past, place)
            scores = self.output(self.norms[1](x[:, 0])).log_softmax(-1).view(images, BEAM, WORDS)
            scores = scores.masked_fill((words[:, -1] == EOS).view(images, BEAM, 1), -math.inf)
            totals, best = (totals[..., None] + scores).flatten(1).topk(BEAM)
            parents = (first + best // WORDS).flatten()
            words = torch.cat([words[parents], (best % WORDS).view(-1, 1)], 1)
            cache = cache[:, :, parents]
        return words[:, 1:].view(images, BEAM, -1)


def step(images: int, modern: Modern) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return our cross-entropy step and the modern one."""
    data, stage = batch(images), CrossEntropy(epochs=1, learning_rate=1e-5)
    model = models("transformer")[0]
    objective = CrossEntropyObjective(model, stage)
    ours = learner(
        model, build_optimizer(model.parameters(), stage), stage, lambda: objective(data).loss
    )
    adam = torch.optim.Adam(modern.parameters(), lr=1e-5, fused=True)
    features = data.images.main.values
    return ours, learner(modern, adam, stage, lambda: modern(features, data.tokens))  # type: ignore[type-var]


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeat", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    images = arguments.images
    torch.manual_seed(0)
    modern, features = Modern(repeats=arguments.repeat), batch(images).images.main.values
    searches = (
        search(models("transformer")[0].eval(), images=images),
        lambda: modern.eval().search(features),
    )
    for name, (ours, theirs) in {"xe": step(images, modern), "beam": searches}.items():
        times = [(clocks(ours)[1], clocks(theirs)[1]) for _ in range(arguments.rounds + 1)][1:]
        ratios = sorted(their / our for our, their in times)
        seconds = [round(statistics.median(column), 3) for column in zip(*times, strict=True)]
        found = [round(x, 2) for x in (statistics.median(ratios), ratios[0], ratios[-1])]
        figure = {
            "name": f"modern.{name}",
            "images": images,
            "repeat": arguments.repeat,
            "cpu_seconds": seconds,
            "ratio": found,
        }
        show(figure | {"processor": torch.backends.cpu.get_cpu_capability()} | machine())


if __name__ == "__main__":
    main()
