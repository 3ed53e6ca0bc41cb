"""The whole released ZoDIAC model, evaluated plainly:
our model with `rap_scope: as_released` gives its numbers.

This evaluation is written apart from ours, from a description of the released code: every caption
is a row with a copy of its image, masks are those of that code, nothing is cached, packed or
shared.
"""

import math

import pytest
import torch
from torch.nn.functional import gelu

from helpers.golden import close
from helpers.model_cases import (
    PAD,
    T,
    built,
    log_probabilities,
    random_images,
    random_tokens,
    stepwise,
)
from recap.nn.rows import PackedIndex
from recap.settings.models import MODELS

EXAMPLE = MODELS.classes()["zodiac"].example()
RELEASED = {"rap_scope": "as_released", "layer_norm": "unbiased"}
GATES = {"sigmoid": torch.sigmoid, "tanh": torch.tanh}


class Released:
    """The forward pass of the released model on parameters of ours."""

    def __init__(self, model, gate, heads):
        self.p, self.gate, self.heads = dict(model.state_dict()), GATES[gate], heads
        self.layers = {side: len(getattr(model, side)) for side in ("encoder", "decoder")}

    def linear(self, name, x):
        return x @ self.p[f"{name}.weight"].T + self.p[f"{name}.bias"]

    def norm(self, name, x):
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.p[f"{name}.weight"] * (x - mean) / (std + 1e-6) + self.p[f"{name}.bias"]

    def attention(self, name, query, source, mask):
        """Rows [R, T, D] and [R, N, D]; mask as the code passes it, [R or 1, 1, T or 1, N]."""

        def heads(part, x):
            projected = self.linear(f"{name}.{part}", gelu(x))
            return gelu(
                projected.view(len(x), -1, self.heads, projected.shape[-1] // self.heads).transpose(
                    1, 2
                )
            )

        q1, q2 = heads("query", query), heads("intensity_query", query)
        k, v = heads("key", source), heads("value", source)
        scores = gelu(q1 @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])).masked_fill(
            mask == 0, -1e9
        )
        intensity = gelu(q2 @ v.transpose(-2, -1) / math.sqrt(v.shape[-1]))
        pool = (intensity * mask).sum() / mask.sum()
        out = scores.softmax(-1) @ v * (1 + self.gate(pool))
        return self.linear(f"{name}.output", out.transpose(1, 2).flatten(2))

    def feed_forward(self, name, x):
        return self.linear(f"{name}.outer", self.linear(f"{name}.inner", x))

    def encode(self, features, mask):
        x = torch.relu(self.linear("feature_embedding", features)) * mask[..., None]
        mask = mask[:, None, None].double()
        for layer in range(self.layers["encoder"]):
            name = f"encoder.{layer}"
            y = self.norm(f"{name}.around_attention.norm", x)
            x = x + self.attention(f"{name}.attention", y, y, mask)
            x = x + self.feed_forward(
                f"{name}.feed_forward", self.norm(f"{name}.around_feed_forward.norm", x)
            )
        return self.norm("encoder_norm", x)

    def decode(self, tokens, mask, memory, image_mask):
        width = memory.shape[-1]
        place = torch.arange(tokens.shape[1]).float()[:, None]
        rate = torch.arange(0, width, 2).float()
        angles = place * torch.exp(rate * -(math.log(10000.0) / width))
        table = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        x = self.p["word_embedding.weight"][tokens] * math.sqrt(width) + table.double()
        for layer in range(self.layers["decoder"]):
            name = f"decoder.{layer}"
            y = self.norm(f"{name}.around_attention.norm", x)
            x = x + self.attention(f"{name}.attention", y, y, mask)
            y = self.norm(f"{name}.around_cross.norm", x)
            x = x + self.attention(f"{name}.cross", y, memory, image_mask[:, None, None].double())
            x = x + self.feed_forward(
                f"{name}.feed_forward", self.norm(f"{name}.around_feed_forward.norm", x)
            )
        return self.linear("output", self.norm("decoder_norm", x)).log_softmax(-1)

    def rows(self, images, tokens):
        """Repeat what belongs to an image for each of its captions."""
        values, mask = images.main.values, images.main.mask
        each = [x.repeat_interleave(tokens.shape[1], 0) for x in (values, mask)]
        return *each, tokens.flatten(0, 1)

    def teacher_forced(self, images, tokens):
        values, image_mask, rows = self.rows(images, tokens)
        words = rows != PAD
        words[:, 0] = True
        mask = (words[:, None, None] & torch.ones(T, T, dtype=torch.bool).tril()).double()
        return self.decode(rows, mask, self.encode(values, image_mask), image_mask).unflatten(
            0, tokens.shape[:2]
        )

    def stepwise(self, images, tokens):
        values, image_mask, rows = self.rows(images, tokens)
        memory = self.encode(values, image_mask)
        steps = []
        for length in range(1, tokens.shape[-1] + 1):
            mask = torch.ones(1, 1, length, length).tril().double()
            steps.append(self.decode(rows[:, :length], mask, memory, image_mask)[:, -1])
        return torch.stack(steps, 1).unflatten(0, tokens.shape[:2])


@pytest.fixture(params=["sigmoid", "tanh"])
def pair(request):
    config = EXAMPLE.model_copy(update={**RELEASED, "gate": request.param})
    model = built(config)
    with torch.no_grad():
        for parameter in model.parameters():
            # biases and norms, which begin at 0 and 1, count too
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model, Released(model, request.param, config.heads)


@torch.no_grad()
@pytest.mark.parametrize("masked", [True, False], ids=["padded images", "whole images"])
def test_teacher_forcing_gives_the_released_numbers(pair, masked):
    model, released = pair
    images, tokens = random_images(EXAMPLE, masked=masked), random_tokens()
    tokens[1, 0, 3:], tokens[2, 1, 5:] = PAD, PAD
    found = log_probabilities(model, images, tokens)
    expected = released.teacher_forced(images, tokens)
    close(found[tokens != PAD], expected[tokens != PAD])


@torch.no_grad()
@pytest.mark.parametrize("masked", [True, False], ids=["padded images", "whole images"])
def test_decoding_gives_the_released_numbers(pair, masked):
    model, released = pair
    images, tokens = random_images(EXAMPLE, masked=masked), random_tokens()
    close(stepwise(model, images, tokens), released.stepwise(images, tokens))


@torch.no_grad()
def test_what_training_reads_gives_the_released_numbers(pair):
    model, released = pair
    images, tokens = random_images(EXAMPLE), random_tokens()
    tokens[0, 0, 4:], tokens[1, 1, 2:] = PAD, PAD
    words = tokens != PAD
    hidden = model.decode_words(tokens, PackedIndex(words), model.encode(images))
    close(model.log_probabilities(hidden), released.teacher_forced(images, tokens)[words])
