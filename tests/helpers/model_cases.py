"""What the contract tests feed to every registered model:
settings, inputs, images and captions, all tiny."""

import torch

from recap.models import base
from recap.models.images import Images, InputSpec, Stream
from recap.settings import Model
from recap.settings.models import MODELS
from recap.settings.params import validate

B, C, T, N, V = 3, 2, 6, 9, 11  # images, captions of each, tokens, vectors (a grid of 3 x 3), ids
PAD, BOS, EOS = 0, 1, 2
# Other settings than a kind's example that the contract tests run as well, as changes to it; a
# plug-in's class has its own in `variants`.
VARIANTS = {
    "acf": (
        {"encoder_clustering": "none", "decoder_clustering": "none"},
        {"encoder_clustering": "none"},
        {"encoder_clustering": "1d", "decoder_clustering": "none"},
        {"encoder_clustering": "1d", "sampling_rate": 4},
        {"sampling_rate": 1, "share_directions": False, "cluster_norm": False},
        {"stacking": "none", "box": "query_anchored"},
        {
            "stacking": "steps",
            "context": "inclusive_mean",
            "self_factor": True,
            "plain_encoder_layers": 1,
        },
        {"window": 1},
        {"window": 2, "encoder_clustering": "1d", "reading": "renormalize"},
        {"context": "previous", "encoder_clustering": "1d", "stacking": "steps"},
        {"reading": "renormalize"},
        {"reading": "double_softmax"},
        {"reading": "logit_scale"},
        {"layout": "regions", "region_rows": 2, "sampling_rate": 1},
        {"norm": "post", "layer_norm": "unbiased"},
    ),
    "aoanet": ({"refiner_layers": 0},),
    "fusion": (
        {"directions_per_quadrant": 0},
        {"second_geometry": "cells", "cell_positions": "angle", "add_norm": "none"},
        {
            "directions_per_quadrant": 3,
            "direction": "learned",
            "decoder_positions": True,
            "add_norm": "both",
        },
        {
            "position_site": "after",
            "geometry_weights": "layer",
            "plus_one": True,
            "gate_bias": True,
        },
    ),
    "joined_transformer": ({"norm": "post"},),
    "m2": (
        {"positions": "noise", "memory_init": "xavier"},
        {"encoder_layers": 2, "decoder_layers": 3},
    ),
    "transformer": ({"norm": "post"}, {"layer_norm": "unbiased"}, {"visual_positions": "grid"}),
    "up_down": ({"d_feature": 12, "word_activation": "relu"},),
    "visual_gpt": (
        {"gate": "paper"},
        {"normalized": True},
        {"gate_activation": "gelu"},
        {"fusion": "plain"},
        {"fusion": "meshed", "encoder": "memory"},
        {"fusion": "aoa"},
        {"fusion": "aoa_baseline", "encoder": "aoa_baseline"},
    ),
    "xlan": ({"encoder_layers": 0, "decoder_attention": "conventional"}, {"activation": "relu"}),
    # Other values of rap_scope break the contract on purpose;
    # tests/unit/papers/zodiac tests what they keep.
    "zodiac": (
        {"gate": "tanh"},
        {"gate": "none", "zeta": 0.0},
        {"gelu": False, "feed_forward_activation": "relu"},
    ),
}


def cases():
    """Return each kind's example and its variants, as (name, settings)."""
    result = []
    for kind, config in MODELS.classes().items():
        example = config.example()
        for changes in ({}, *config.variants, *VARIANTS.get(kind, ())):
            name = "-".join([kind, *(f"{key}={value}" for key, value in changes.items())])
            result.append((name, config.model_validate({**example.model_dump(), **changes})))
    return result


def inputs(config):
    return InputSpec(config.example_streams, V)


def build_model(config, inputs):
    """Build a model from its settings, or from a mapping of them."""
    return base.build_model(
        validate(Model, config, "model") if isinstance(config, dict) else config, inputs
    )


def built(config):
    """Return a model of float64 numbers in evaluation mode."""
    torch.manual_seed(0)
    return build_model(config, inputs(config)).double().eval()


def still(config):
    """Return the settings without dropout, whose keys all end in that word."""
    changes = {key: 0.0 for key in type(config).model_fields if key.endswith("dropout")}
    return type(config).model_validate({**config.model_dump(), **changes})


def random_images(config, count=B, *, seed=1, masked=True):
    """Return images whose second one has only three vectors
    in every stream, unless `masked` is False."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.ones(count, N, dtype=torch.bool)
    if masked:
        mask[1, 3:] = False
    streams = {}
    for name, width in config.example_streams.items():
        values = torch.randn(count, N, width, generator=generator, dtype=torch.float64)
        corners = torch.rand(count, N, 2, generator=generator, dtype=torch.float64) * 50
        sides = torch.rand(count, N, 2, generator=generator, dtype=torch.float64) * 50
        boxes = torch.cat([corners, corners + sides], -1)
        streams[name] = Stream(
            values, mask, boxes, torch.full((count, 2), 100.0, dtype=torch.float64)
        )
    return Images(streams)


def changed(images, change):
    """Return images whose streams are made by `change(stream)`."""
    return Images({name: change(stream) for name, stream in images.streams.items()})


def wider(images, more=2):
    """Return images with more vectors, which the mask hides."""

    def widen(stream):
        def longer(x, value):
            return torch.cat([x, torch.full((len(x), more, *x.shape[2:]), value, dtype=x.dtype)], 1)

        return Stream(
            longer(stream.values, 9),
            longer(stream.mask, False),
            longer(stream.boxes, 1),
            stream.sizes,
        )

    return changed(images, widen)


def random_tokens(count=B, *, length=T, captions=C, seed=1):
    return torch.randint(
        3, V, (count, captions, length), generator=torch.Generator().manual_seed(seed)
    )


def log_probabilities(model, images, tokens):
    """Teacher forcing."""
    return model.log_probabilities(model.decode(tokens, model.encode(images)))


def stepwise(model, images, tokens):
    """One token at a time."""
    state = model.start(model.encode(images)).reorder(
        torch.zeros(tokens.shape[:2], dtype=torch.long)
    )
    steps = []
    for token in tokens.unbind(-1):
        out, state = model.step(token, state)
        steps.append(out)
    return torch.stack(steps, 2)


class RandomStore:
    """Random vectors of each image in every stream of some settings,
    for trainings of `helpers.training`."""

    def __init__(self, config):
        self.config, self.sizes = config, config.example_streams

    def read(self, image_ids):
        each = [
            changed(random_images(self.config, 1, seed=image, masked=False), single)
            for image in image_ids
        ]
        return joined(each)


def single(stream):
    """Return a stream of float32 numbers."""
    return Stream(stream.values.float(), stream.mask, stream.boxes.float(), stream.sizes.float())


def joined(batches):
    """Return the images of several batches with equally many vectors as one."""
    streams = {}
    for name in batches[0].streams:
        parts = [tensors(images[name]) for images in batches]
        streams[name] = Stream(*(torch.cat(same) for same in zip(*parts, strict=True)))
    return Images(streams)


def tensors(stream):
    return stream.values, stream.mask, stream.boxes, stream.sizes
