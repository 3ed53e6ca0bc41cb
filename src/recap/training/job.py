"""One training stage as a job: from files to a run folder."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file

from recap.core.atomic import atomic_path, write_json, write_text
from recap.core.config import CrossEntropy, SelfCritical, Stage
from recap.core.device import select_device
from recap.core.errors import DataError, TrainingError
from recap.core.git import commit
from recap.core.manifests import sha256_file, source_digest, value_hash
from recap.core.params import validate
from recap.core.seeding import derived_seed
from recap.data.corpus import Corpus
from recap.data.subsample import read_subset
from recap.data.vocabulary import AnyVocabulary, load_vocabulary
from recap.features.resident import ResidentFeatures
from recap.features.store import FeatureStore
from recap.metrics.cider_d import CiderD
from recap.models.base import Captioner
from recap.models.registry import build_model
from recap.training.batches import CaptionBatches
from recap.training.compiled import compile_passes
from recap.training.cross_entropy import CrossEntropyObjective
from recap.training.decode_split import decode_images
from recap.training.distributed import Group, join
from recap.training.loop import Counters, Objective, Training
from recap.training.self_critical import SelfCriticalObjective

# What a trained weight depends on beside its files; a saved state of other code is not continued.
SOURCES = (
    "core/seeding",
    "data/bpe",
    "data/special",
    "data/vocabulary",
    "decoding",
    "features/layout",
    "features/resident",
    "features/store",
    "layers",
    "metrics/cider_d",
    "metrics/hashed",
    "metrics/bleu_ids",
    "models",
    *(
        f"training/{name}"
        for name in (
            "batches",
            "compiled",
            "cross_entropy",
            "decode_split",
            "distributed",
            "job",
            "loop",
            "optim",
            "self_critical",
        )
    ),
)
STAGES: dict[str, type[Stage]] = {"xe": CrossEntropy, "scst": SelfCritical}


def train(
    *,
    stage: str,
    spec: dict[str, Any],
    corpus: Path,
    vocabulary: Path,
    subset: Path,
    features: Path,
    init: Path | None,
    state: Path,
    out: Path,
) -> None:
    """Train one stage and write `config.yaml`, `model.safetensors`, `history.csv` and `training.json` into `out`.

    Args:
        stage: xe or scst.
        spec: names and settings, see docs/architecture.md.
        corpus, vocabulary, subset, features: the files that went in.
        init: run folder whose weights are the start (scst: the xe run), or None.
        state: folder for the resumable state.
        out: the run folder.

    Raises:
        RecapError: something is missing, broken or does not fit; the sentence says what.
    """
    settings = validate(STAGES[stage], spec["stage_config"], f"stage {stage}")
    group = join(select_device(spec["device"]))
    device = group.device
    torch.set_num_threads(spec["threads"])
    if device.type == "cuda":  # the CPU's are deterministic, and asking takes three seconds
        torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(derived_seed(spec["seed"], "weights", stage))
    words, store = load_vocabulary(vocabulary), FeatureStore(features)
    table = Corpus.read(corpus)
    captions = training_captions(table, words, read_subset(subset))
    validation = split_captions(table, words, "val")
    store.require([*captions, *validation])
    model = build_model(spec["model_config"], feature_size=store.dim, vocabulary_size=len(words)).to(device)
    if init is not None:
        load_weights(model, init / "model.safetensors")
    made_from = {
        "stage": stage,
        "spec": spec,
        "vocabulary_hash": words.hash,
        "subset_hash": read_subset(subset)["hash"],
        "feature_hash": store.feature_hash,
        "init_sha256": sha256_file(init / "model.safetensors") if init else None,
        "code": source_digest(*SOURCES),
        **({"processes": group.size} if group.size > 1 else {}),
    }
    if group.size > 1:  # the weights are the same in all processes, dropout and samples are not
        torch.manual_seed(derived_seed(spec["seed"], "rank", stage, group.rank))
    training = Training(
        model=model,
        objective=_objective(model, settings, captions, words.max_length + 1),
        batches=CaptionBatches(
            store=ResidentFeatures(store, sorted(captions), device) if settings.resident_features else store,
            captions=captions,
            images_per_batch=settings.images_per_batch,
            seed=spec["seed"],
        ),
        validate=validator(model, settings, store, validation, words.max_length + 1, group),
        stage=settings,
        d_model=spec["model_config"]["d_model"],
        device=device,
        state=state,
        identity=value_hash(made_from),
        name=f"{spec['model']} seed {spec['seed']} {stage}",
        group=group,
    )
    model.recompute = settings.recompute
    if settings.compile:
        compile_passes(model)
    counters = training.run()
    if group.first:
        _write_run(out, made_from, counters, training.best_weights, model, device)
    group.leave()


def training_captions(corpus: Corpus, words: AnyVocabulary, subset: dict[str, Any]) -> dict[int, list[list[int]]]:
    """Return the subset's captions as word ids, by image."""
    ids = subset["caption_ids"]
    captions: dict[int, list[list[int]]] = {}
    for image, tokens in zip(corpus.image_ids_of(ids), corpus.token_lists(ids), strict=True):
        captions.setdefault(image, []).append(words.encode(tokens))
    return captions


def split_captions(corpus: Corpus, words: AnyVocabulary, split: str) -> dict[int, list[list[int]]]:
    """Return all captions of a split as word ids, by image."""
    ids = corpus.caption_ids(split)
    if not ids:
        raise DataError(f"{corpus.dataset}: the split {split!r} has no images; training needs it to choose its weights")
    captions: dict[int, list[list[int]]] = {}
    for image, tokens in zip(corpus.image_ids_of(ids), corpus.token_lists(ids), strict=True):
        captions.setdefault(image, []).append(words.encode(tokens))
    return captions


def load_weights(model: Captioner, path: Path) -> None:
    """Load a model's tensors; every name and shape must fit.

    Raises:
        TrainingError: the file is missing, broken or of another model.
    """
    if not path.exists():
        raise TrainingError(f"{path}: no such weights; run the stage that makes them first")
    try:
        model.load_state_dict(load_file(path))
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise TrainingError(f"{path}: these weights do not fit the model ({first}); train it again") from error


def _objective(model: Captioner, settings: Stage, captions: dict[int, list[list[int]]], max_length: int) -> Objective:
    if isinstance(settings, SelfCritical):
        return SelfCriticalObjective(model, settings, references=captions, max_length=max_length)
    assert isinstance(settings, CrossEntropy)
    return CrossEntropyObjective(model, settings)


def validator(
    model: Captioner,
    settings: Stage,
    store: FeatureStore,
    references: dict[int, list[list[int]]],
    max_length: int,
    group: Group,
) -> Callable[[], float]:
    """Return a function that decodes the validation images and returns their mean CIDEr-D (end token not counted).

    Each process decodes its share of the images; its number is the share's sum over the count of all images.
    """
    scorer, images = CiderD(references), group.share(sorted(references))

    def validate_model() -> float:
        captions = decode_images(
            model,
            store,
            images,
            beam=settings.validation_beam,
            max_length=max_length,
            length_penalty=0.0,
            batch_size=50,
            device=group.device,
            name="validation",
        )
        return float(scorer.score(images, [captions[image] for image in images]).sum() / len(references))

    return validate_model


def _write_run(
    out: Path, made_from: dict[str, Any], counters: Counters, weights: Path, model: Captioner, device: torch.device
) -> None:
    """Write the run folder; the weights come last but one so that a whole folder has them all."""
    spec = made_from["spec"]
    columns = list(counters.history[0])
    rows = io.StringIO()
    writer = csv.DictWriter(rows, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _short(value) for key, value in line.items()} for line in counters.history)
    write_text(out / "config.yaml", yaml.safe_dump(made_from, sort_keys=True))
    write_text(out / "history.csv", rows.getvalue())
    with atomic_path(out / "model.safetensors") as temporary:
        shutil.copyfile(weights, temporary)
    names = ("dataset", "subset", "features", "model", "recipe", "seed")
    write_json(
        out / "training.json",
        {
            **{name: spec[name] for name in names},
            "stage": made_from["stage"],
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "epochs": counters.epoch,
            "steps": counters.step,
            "best_epoch": counters.best_epoch,
            "best_val_cider_d": counters.best,
            "seconds": round(counters.seconds, 1),
            "device": str(device),
            "threads": spec["threads"],
            "feature_hash": made_from["feature_hash"],
            "config_hash": value_hash(spec),
            "git_commit": commit(),
            "torch": torch.__version__,
        },
    )


def _short(value: float) -> float | str:
    """Print floats with enough digits to plot and compare, integers as they are."""
    return f"{value:.8g}" if isinstance(value, float) else value
