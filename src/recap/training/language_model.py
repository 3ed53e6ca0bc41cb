"""Trains a small GPT-2 on texts without pictures, for captioners that begin with its weights.

Resumes exactly.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from recap.core import checksums
from recap.core.device import select_device
from recap.core.documents import write_json
from recap.core.errors import TrainingError
from recap.core.files import exclusive
from recap.core.hashing import derived_seed, generator, value_hash
from recap.core.log import log
from recap.data.caption_files import texts_outside
from recap.data.vocabulary import PAD, UNK, load_vocabulary
from recap.models.gpt2 import LanguageModel
from recap.nn.rows import PackedIndex
from recap.plan.source import code_digest
from recap.runs.folder import read_weights
from recap.runs.pretrained import save_language_model
from recap.settings.models import LanguageModel as Settings
from recap.settings.recipes import CosineSchedule, CrossEntropy
from recap.training.batches import Batch, CaptionBatches
from recap.training.distributed import Group
from recap.training.loop import Metric, OptimizerStep, Training
from recap.training.objectives import Logged

NAME = "language model"
PERPLEXITY = Metric("perplexity", "perplexity", sign=-1)


def pretrain_language_model(
    *,
    spec: Settings,
    corpus: Path,
    vocabulary: Path,
    inputs: Path,
    device: str,
    threads: int,
    state: Path,
    out: Path,
) -> None:
    """Train a language model on texts without the data set's captions.

    Write its weights, and beside them a report.
    """
    torch.set_num_threads(threads)
    loaded = load_vocabulary(vocabulary)
    group = Group(device=select_device(device))
    texts = texts_outside(spec, corpus=corpus, inputs=inputs)
    longest = spec.positions - 1  # positions are those of <bos> and the words; <eos> is never read
    ids = [loaded.encode(tokens)[:longest] for tokens in texts.tokens]
    order = generator(spec.seed, "validation texts").permutation(len(ids)).tolist()
    if len(ids) <= spec.validation_texts:
        raise TrainingError(f"{len(ids)} texts leave none to train on; lower validation_texts")

    def batches(part: list[int]) -> CaptionBatches:
        """Each text is the one caption of an "image" without features."""
        return CaptionBatches(
            features=None,
            captions={place: [ids[index]] for place, index in enumerate(part)},
            images_per_batch=spec.texts_per_batch,
            seed=spec.seed,
            label="texts",
        )

    validation = batches(order[: spec.validation_texts])
    training = batches(order[spec.validation_texts :])
    trained = len(ids) - spec.validation_texts
    log.info(
        f"{NAME}: {trained} training and {spec.validation_texts} validation texts of {texts.read} "
        f"that were read; {texts.in_corpus} were left out because the data set has them, "
        "duplicates and empty ones, too"
    )
    torch.manual_seed(derived_seed(spec.seed, "weights"))
    sizes = spec.model_dump(
        include={"d_model", "heads", "d_feed_forward", "layers", "positions", "dropout"}
    )
    model = LanguageModel(vocabulary_size=len(loaded), **sizes).to(group.device)
    stage = CrossEntropy(
        epochs=spec.epochs,
        schedule=CosineSchedule(learning_rate=spec.learning_rate, warmup=spec.warmup),
        images_per_batch=spec.texts_per_batch,
        optimizer="adamw",
        epsilon=1e-8,
        weight_decay=spec.weight_decay,
        clip_norm=spec.clip_norm,
        clip_value=None,
        precision=spec.precision,
    )

    def objective(batch: Batch, epoch: int) -> Logged:
        model.train()
        losses = token_losses(model, batch.tokens)
        return Logged(losses.mean(), len(losses))

    parts = torch.arange(spec.validation_texts).split(spec.texts_per_batch)

    @torch.no_grad()
    def perplexity() -> float:
        """Return exp of the mean cross-entropy of a token of the validation texts."""
        model.eval()
        losses = []
        for part in parts:
            tokens = validation.batch(part.tolist()).tokens
            losses.append(token_losses(model, tokens.to(group.device)))
        return math.exp(torch.cat(losses).double().mean().item())

    with exclusive(state / "lock", wait_seconds=60.0, what=f"the state folder {state}"):
        loop = Training(
            step=OptimizerStep(
                model=model, objective=objective, stage=stage, d_model=spec.d_model, group=group
            ),
            state=state,
            batches=training,
            validate=perplexity,
            identity={
                "settings": spec.model_dump(mode="json"),
                "inputs": {"vocabulary_hash": loaded.hash, "texts_hash": value_hash(ids)},
                "source": code_digest("recap.training.language_model"),
            },
            name=NAME,
            metric=PERPLEXITY,
        )
        history = loop.run().history
        model.load_state_dict(read_weights(loop.best_weights))
    save_language_model(out, model.decoder, loaded.hash, heads=spec.heads)
    report = out.with_suffix(".json")
    reported = []
    for line in history:
        reported.append({key: line[key] for key in ("epoch", "loss", "perplexity")})
    write_json(
        report,
        {
            "texts_read": texts.read,
            "texts_in_the_data_set": texts.in_corpus,
            "training_texts": trained,
            "validation_texts": spec.validation_texts,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "vocabulary_hash": loaded.hash,
            "perplexity": -loop.progress.best,
            "history": reported,
        },
    )
    checksums.record(report)


def token_losses(model: LanguageModel, tokens: Tensor) -> Tensor:
    """Cross-entropy of each token of texts [B, 1, T + 1] and of their ends, [R].

    Words without an id are read, but never predicted: a captioner does not say them.
    """
    inputs, targets = tokens[:, 0, :-1], tokens[..., 1:]
    real = targets != PAD  # [B, 1, T]
    hidden = model(inputs, PackedIndex(real))
    packed = targets[real]
    has_id = packed != UNK
    return cross_entropy(model.logits(hidden[has_id]).float(), packed[has_id], reduction="none")
