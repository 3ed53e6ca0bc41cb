"""Plays trainings, searches and extractions on a GPU
that computes nothing, and writes down what happened.

Run in a process of its own with the guard preloaded. Argument: the file to write, JSON: name of a
scene -> `Played`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from helpers import backbones
from helpers.distributed_worker import train
from helpers.fake_cuda.mode import playing
from helpers.model_cases import BOS, EOS, PAD, RandomStore, built, changed, random_images, single
from helpers.training import V, training
from recap.core.errors import first_line
from recap.data.vocabulary import BANNED
from recap.decoding.sampling import sample
from recap.decoding.step import DecodingBatch, with_banned_tokens
from recap.evaluation.decode import decode_candidates
from recap.features.grid import Backbone
from recap.models.ensemble import Ensemble
from recap.runs.folder import Counters
from recap.settings import CrossEntropy, DecodingSettings, SelfCritical
from recap.settings.models import MODELS
from recap.training.distributed import Group
from recap.training.objectives import CrossEntropyObjective

GPU = torch.device("cuda")
IDS = [0, 1, 2, 3, 4]
WORDS = 6
USUAL = {"epochs": 1, "learning_rate": 0.01, "images_per_batch": 5}
STAGES = {
    "cross-entropy": CrossEntropy(
        **USUAL, optimizer="adam", clip_norm=1.0, label_smoothing=0.1, weight_average=0.9
    ),
    "cross-entropy in bf16": CrossEntropy(
        **USUAL,
        optimizer="radam",
        precision="bf16",
        scheduled_sampling={"interval": 1, "increment": 0.3},
    ),
    "self-critical": SelfCritical(**USUAL, optimizer="adamw", clip_norm=1.0, baseline="greedy"),
    "self-critical in bf16": SelfCritical(
        **USUAL, precision="bf16", sampling="beam", samples=3, dropout=True, loss_over="positions"
    ),
}


def trained(stage, config, *, checkpointing=False, change=lambda loop: None):
    """Take one step."""
    loop = training(Path(), stage=stage, config=config, store=RandomStore(config), device="cuda")
    loop.model.activation_checkpointing = checkpointing
    loop.batches.pin = True
    change(loop)
    (batch,) = loop.batches.read([IDS])
    loop.step(batch, Counters(epoch=1), steps=1)
    if loop.average is not None:
        loop.average.update(1)


def shallow(kind):
    """Return a kind's example with one layer where it has two."""
    example = MODELS.classes()[kind].example()
    layers = {
        name: 1
        for name in ("encoder_layers", "decoder_layers", "refiner_layers")
        if getattr(example, name, 0)
    }
    return type(example).model_validate({**example.model_dump(), **layers})


def model_of(config):
    return built(config).float().to(GPU)


def decoded(config, beam, **settings):
    """Search captions as a validation does."""
    found = DecodingSettings(beam=beam, max_length=WORDS, **settings)
    decode_candidates(model_of(config), RandomStore(config), IDS, found, device=GPU, name="played")


def sampled(config):
    model = model_of(config)
    images = changed(random_images(config), single).to(GPU)
    batch = DecodingBatch(len(images), BOS, EOS, PAD, GPU)
    with torch.no_grad():
        state = model.start(model.encode(images))
        sample(with_banned_tokens(model.step, BANNED), state, batch, max_length=WORDS, samples=2)


def ensemble(kinds):
    configs = [shallow(kind) for kind in kinds]
    models = Ensemble([model_of(config) for config in configs])
    search = DecodingSettings(
        beam=3, max_length=WORDS, length_penalty=0.5, rules={"no_repeated_ngram": 2}
    )
    decode_candidates(models, RandomStore(configs[0]), IDS, search, device=GPU, name="played")


def cut_to_words(config):
    """Byte pairs, whose captions are cut on the GPU."""

    def with_byte_pairs(loop):
        stage = CrossEntropy(**USUAL, truncate_to_words=True)
        loop.step.objective = CrossEntropyObjective(
            loop.model, stage, SimpleNamespace(begins_word=[True] * V)
        )

    trained(STAGES["cross-entropy"], config, change=with_byte_pairs)


def grid(backbone):
    """Two batches of pictures."""
    net = Backbone(backbones.spec(backbone=backbone), weights=None, device=GPU)
    for _ in range(2):
        net.rows(torch.zeros(2, 64, 64, 3, dtype=torch.uint8))


def of_two_processes(rank):
    """Train one epoch as one of two processes, validate and save;
    the second has no image in the last batch.

    Neither knows what the other says, so that none may save when its own clock says so.
    """
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=2)
    try:
        with tempfile.TemporaryDirectory() as folder:
            train(Path(folder), Group(rank, 2, GPU), epochs="1", stage="scst", minutes=60)
    finally:
        dist.destroy_process_group()


def wrong(fault):
    """Plant a fault into a step."""

    def change(loop):
        plain = loop.step.objective

        def objective(batch, epoch):
            logged = plain(batch, epoch)
            return replace(logged, loss=fault(logged.loss))

        loop.step.objective = objective

    trained(STAGES["cross-entropy"], shallow("transformer"), change=change)


def scenes():
    """Return name -> function without arguments."""
    result = {}
    for kind in MODELS.classes():
        config = shallow(kind)
        for name, stage in STAGES.items():
            result[f"{name}, {kind}"] = partial(
                trained, stage, config, checkpointing="bf16" in name
            )
    for rank in (0, 1):
        result[f"process {rank} of two"] = partial(of_two_processes, rank)
    transformer = shallow("transformer")
    result["beam search"] = partial(decoded, transformer, 3)
    result["greedy search"] = partial(decoded, transformer, 1)
    result["samples"] = partial(sampled, transformer)
    result["search that sets captions aside"] = partial(
        decoded, transformer, 3, finished="set_aside"
    )
    result["cross-entropy, cut to words"] = partial(cut_to_words, transformer)
    result["ensemble"] = partial(ensemble, ("transformer", "xlan"))
    for backbone in ("test_resnet", "test_vit"):
        result[f"grid, {backbone}"] = partial(grid, backbone)
    result["fault: copied to the CPU"] = partial(wrong, lambda loss: loss.cpu().to(GPU))
    result["fault: made without a device"] = partial(
        wrong, lambda loss: (loss + torch.zeros(3)).mean()
    )
    result["fault: a number read"] = partial(wrong, lambda loss: loss * loss.item())
    return result


def played(scene):
    """Play a scene; an error is noted."""
    with playing() as gpu:
        try:
            scene()
        except Exception as error:
            gpu.played.error = f"{type(error).__name__}: {first_line(error)}"
            traceback.print_exc()
    return asdict(gpu.played)


if __name__ == "__main__":
    torch.set_num_threads(1)
    notes = {name: played(scene) for name, scene in scenes().items()}
    Path(sys.argv[1]).write_text(json.dumps(notes), encoding="utf-8")
