"""One training stage as a job: from files to a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from recap.core.config import CrossEntropy, SelfCritical, Stage
from recap.core.config.models import source_module
from recap.core.device import select_device
from recap.core.files.lock import exclusive
from recap.core.log import log
from recap.core.manifests import sha256_file, value_hash
from recap.core.params import validate
from recap.core.process.stop import Stop
from recap.core.seeding import derived_seed
from recap.core.source import code_digest
from recap.data.corpus.corpus import Corpus
from recap.data.subsets.subsample import read_subset
from recap.data.vocabulary.words import load_vocabulary
from recap.models.base import Captioner
from recap.models.registry import build_model, model_config
from recap.runs.counters import Counters
from recap.runs.folder import write_run
from recap.runs.inputs import FeatureSources
from recap.runs.resident import ResidentFeatures
from recap.runs.saved import load_weights
from recap.training.batches import CaptionBatches
from recap.training.captions import split_captions, training_captions
from recap.training.compiled import compile_passes
from recap.training.distributed import Group, init_group
from recap.training.loop import Objective, Training
from recap.training.objectives.cross_entropy import CrossEntropyObjective
from recap.training.objectives.self_critical import SelfCriticalObjective
from recap.training.validation import validator

_SAVING_SECONDS = 60.0  # what the training of a workflow that was killed may take to save its state
STAGES: dict[str, type[Stage]] = {"xe": CrossEntropy, "scst": SelfCritical}


def train(
    *,
    stage: str,
    spec: dict[str, Any],
    corpus: Path,
    vocabulary: Path,
    subset: Path,
    features: Sequence[Path],
    init: Path | None,
    state: Path,
    out: Path,
) -> None:
    """Train one stage and write `config.yaml`, `model.safetensors`, `history.csv` and `training.json` into `out`.

    Args:
        stage: xe or scst.
        spec: names and settings, see docs/architecture.md.
        corpus, vocabulary, subset: the files that went in.
        features: one or several feature stores of the same images.
        init: run folder whose weights are the start (scst: the xe run), or None.
        state: folder for the resumable state.
        out: the run folder.

    Raises:
        RecapError: something is missing, broken or does not fit; the sentence says what.
    """
    settings = validate(STAGES[stage], spec["stage_config"], f"stage {stage}")
    name = f"{spec['model']}@{spec['recipe']} seed {spec['seed']} {stage}"
    group = init_group(select_device(spec["device"]))
    with Stop(name), _claimed(state, group):
        group.barrier()  # until the state is ours
        _prepare(spec, stage, group)
        words, sources, chosen = load_vocabulary(vocabulary), FeatureSources(features), read_subset(subset)
        table = Corpus.read(corpus)
        captions, validation = training_captions(table, words, chosen), split_captions(table, words, "val")
        sources.require([*captions, *validation])
        inputs, config = sources.input_spec(words), model_config(spec["model_config"])
        model = build_model(config, inputs).to(group.device)
        sources.choose([model], inputs)
        if init is not None:
            load_weights(model, init / "model.safetensors")
        made_from = {
            "stage": stage,
            "spec": spec,
            "vocabulary_hash": words.hash,
            "subset_hash": chosen["hash"],
            "feature_hash": sources.feature_hash,
            "init_sha256": sha256_file(init / "model.safetensors") if init else None,
            "code": _code(config.kind),
            **({"processes": group.size} if group.size > 1 else {}),
        }
        if group.size > 1:  # the weights are the same in all processes, dropout and samples are not
            torch.manual_seed(derived_seed(spec["seed"], "rank", stage, group.rank))
        longest = words.max_length + 1  # with the end token
        training = Training(
            model=model,
            objective=_objective(model, settings, captions, longest),
            batches=_batches(settings, sources, captions, spec["seed"], group.device),
            validate=validator(model, settings, sources, validation, longest, group, name),
            stage=settings,
            d_model=config.noam_width,
            device=group.device,
            state=state,
            identity=value_hash(made_from),
            name=name,
            group=group,
            trained=init is not None,
        )
        model.recompute = settings.recompute
        if settings.compile:
            compile_passes(model)
        counters = training.run()
        if group.is_main:
            warn_if_no_better(name, counters)
            write_run(out, made_from, counters, training.best_weights, model, group.device)
        group.destroy()


def _claimed(state: Path, group: Group) -> AbstractContextManager[None]:
    """Let one training at a time work in a state folder: two would save into each other's state."""
    if not group.is_main:
        return nullcontext()
    return exclusive(state / "lock", wait_seconds=_SAVING_SECONDS, what=f"the state folder {state}")


def warn_if_no_better(name: str, counters: Counters) -> None:
    """Say so if a stage ends with the weights it began with; self-critical training can break a model."""
    if counters.best_epoch == 0:
        log.warning(
            f"{name}: no epoch was better than the weights it began with (validation CIDEr-D "
            f"{counters.best:.4f}), so these are its result; lower its learning rate, or try other samples or betas"
        )


def _prepare(spec: dict[str, Any], stage: str, group: Group) -> None:
    """Set threads, determinism and the seed of the first weights."""
    torch.set_num_threads(spec["threads"])
    if group.device.type == "cuda":  # the CPU's are deterministic, and asking takes three seconds
        torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(derived_seed(spec["seed"], "weights", stage))


def _code(kind: str) -> str:
    """Return the digest of all that training a kind of model runs; a saved state of other code is not continued."""
    return code_digest("training/job", source_module(kind))


def _objective(model: Captioner, settings: Stage, captions: dict[int, list[list[int]]], max_length: int) -> Objective:
    if isinstance(settings, SelfCritical):
        return SelfCriticalObjective(model, settings, references=captions, max_length=max_length)
    assert isinstance(settings, CrossEntropy)
    return CrossEntropyObjective(model, settings)


def _batches(
    settings: Stage, sources: FeatureSources, captions: dict[int, list[list[int]]], seed: int, device: torch.device
) -> CaptionBatches:
    return CaptionBatches(
        features=ResidentFeatures(sources, sorted(captions), device) if settings.resident_features else sources,
        captions=captions,
        images_per_batch=settings.images_per_batch,
        seed=seed,
    )
