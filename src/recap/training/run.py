"""One training stage of a run: from files to a run folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from recap.core.device import precision_here, prepare_gpu, select_device
from recap.core.documents import read_json, write_json
from recap.core.errors import ConfigError
from recap.core.files import exclusive
from recap.core.hashing import derived_seed, sha256_file
from recap.core.log import log
from recap.data.corpus import Corpus
from recap.data.subsets import read_subset
from recap.data.vocabulary import AnyVocabulary, CaptionIds, load_vocabulary
from recap.evaluation.decode import decode_candidates
from recap.metrics.rewards import CiderD, caption_units
from recap.models.base import Captioner, build_model
from recap.models.compiled import compile_passes, is_compiled
from recap.nn.fast import fast
from recap.plan.source import TRAINING, job_code
from recap.runs.folder import check_inputs, load_weights, write_run
from recap.runs.inputs import (
    FeatureSources,
    ReadsImages,
    check_vectors,
    pretrained_file,
    split_captions,
)
from recap.settings import (
    CrossEntropy,
    DecodingSettings,
    Execution,
    ExecutionFile,
    SelfCritical,
    Stage,
)
from recap.settings.recipes import RunSpec
from recap.training.batches import Batch, CaptionBatches
from recap.training.distributed import Group, init_group
from recap.training.loop import Objective, OptimizerStep, Training
from recap.training.objectives import CrossEntropyObjective, Logged, SelfCriticalObjective

OVERFIT_STEPS = 100
VALIDATED = 50  # images of a training that is cut short
PRECISION = "precision.json"  # in the state folder: what `auto` was decided to be
SAVING_SECONDS = 60.0  # what the training of a workflow that was killed may take to save its state


def train(
    *, spec: RunSpec, execution: Execution, state: Path, out: Path, init: Path | None, **files: Any
) -> None:
    """Train one stage and write `config.yaml`, `model.safetensors`,
    `history.csv` and `training.json` into `out`.

    `init` is a run folder whose weights are the start (scst: the xe run); `files` are those of
    `read_inputs`.
    """
    group = init_group(select_device(execution.device))
    # One training at a time works in a state folder: two would save into each other's state.
    lock = exclusive(state / "lock", wait_seconds=SAVING_SECONDS, what=f"the state folder {state}")
    with lock if group.is_main else nullcontext():
        group.barrier()  # until the state is ours
        spec = with_precision(spec, group, state)
        inputs = read_inputs(spec, group, init=init, **files)
        training = build_training(spec, execution, inputs, group, state=state, init=init)
        finish(training, execution, out)
        group.destroy()


def try_out(
    *, spec: RunSpec, execution: ExecutionFile, out: Path, init: Path | None, **files: Any
) -> list[int]:
    """Train for a few steps, as the execution says, and write into `out` what `train` does.

    It starts anew, validates few images, and its `config.yaml` says that it was short. Images that
    it has seen or was validated with are returned.
    """
    group = init_group(select_device(execution.device))
    steps = execution.max_steps or OVERFIT_STEPS
    one_batch = execution.overfit_one_batch
    losses: list[float] = []  # of each step
    with TemporaryDirectory() as state:
        spec = with_precision(with_stage(spec, epochs=1), group, Path(state))
        inputs = read_inputs(spec, group, init=init, **files)
        validation = CaptionIds.of(dict(islice(inputs.validation.items(), VALIDATED)))
        inputs = replace(inputs, validation=validation)
        training = build_training(spec, execution, inputs, group, state=Path(state), init=init)
        training.identity["settings"] |= {"max_steps": steps, "overfit_one_batch": one_batch}
        training.batches.cut(steps, one_batch=one_batch)
        objective = training.step.objective

        def recorded(batch: Batch, epoch: int) -> Logged:
            logged = objective(batch, epoch)
            losses.append(logged.loss.item())
            return logged

        training.step.objective = recorded
        finish(training, execution, out)
    if group.is_main:
        log.info(
            f"{training.name}: loss {losses[0]:.4f} at step 1, {losses[-1]:.4f} at step "
            f"{len(losses)}"
        )
    group.destroy()
    return training.batches.order(0)[0] if one_batch else list(validation)


@dataclass(frozen=True)
class Inputs:
    """What a training reads: captions of the images as token ids, and their features."""

    vocabulary: AnyVocabulary
    sources: FeatureSources
    captions: CaptionIds
    validation: CaptionIds
    weights: Path | None  # pretrained weights of a part of the model
    hashes: dict[str, Any]  # of all of it


def read_inputs(
    spec: RunSpec,
    group: Group,
    *,
    corpus: Path,
    vocabulary: Path,
    subset: Path,
    features: Sequence[Path],  # stores of the same images
    init: Path | None,
    weights: Path | None = None,
) -> Inputs:
    """Read the files of a training, and refuse those that do not fit the model or each other."""
    if init is not None:  # its weights have the pretrained ones in them
        weights = None
    else:
        weights = pretrained_file(spec.model_settings.pretrained_weights(), weights)
    loaded = load_vocabulary(vocabulary)
    sources = FeatureSources(features)
    chosen = read_subset(subset)
    if group.is_main:  # one of several processes says it
        check_vectors(spec.model_settings, features[0])
        if init is not None:
            check_inputs(init, vocabulary, loaded, sources.stores, other_pictures=True)
    table = Corpus.read(corpus)
    captions = split_captions(table, loaded, "train", chosen["caption_ids"])
    validation = split_captions(table, loaded, "val")
    sources.require([*captions, *validation])
    hashes = {
        "vocabulary_hash": loaded.hash,
        "subset_hash": chosen["hash"],
        "feature_hash": sources.hash_of([*captions, *validation]),
        "features_made_by": sources.extractor_hash,
        "init_sha256": sha256_file(init / "model.safetensors") if init else None,
    }
    # named only where there are some, so that finished runs of other models stay valid
    if weights is not None:
        hashes["weights_sha256"] = sha256_file(weights)
    return Inputs(loaded, sources, captions, validation, weights, hashes)


def build_training(  # noqa: C901
    spec: RunSpec,
    execution: Execution,
    inputs: Inputs,
    group: Group,
    *,
    state: Path,
    init: Path | None,
) -> Training:
    """Build the model, its objective and its batches."""
    on_gpu = group.device.type == "cuda"
    name = f"{spec.model}@{spec.recipe} seed {spec.seed} {spec.stage}"
    stage = spec.stage_settings
    max_length = inputs.vocabulary.max_length + 1  # with the end token
    torch.set_num_threads(execution.threads)
    if on_gpu:  # the CPU's are deterministic, and asking takes three seconds
        prepare_gpu(tf32=execution.tf32)
    torch.manual_seed(derived_seed(spec.seed, "weights", spec.stage))
    of_model = replace(inputs.sources.input_spec(inputs.vocabulary), weights=inputs.weights)
    model = build_model(spec.model_settings, of_model).to(group.device)
    model.activation_checkpointing = execution.activation_checkpointing
    inputs.sources.choose([model], of_model)
    if init is not None:
        load_weights(model, init / "model.safetensors")
    if execution.compile is True or (execution.compile == "auto" and on_gpu):
        compile_passes(model)
    validate = validator(
        model, stage, inputs.sources, inputs.validation, max_length, inputs.vocabulary, group, name
    )
    if group.size > 1:  # the weights are the same in all processes, dropout and samples are not
        torch.manual_seed(derived_seed(spec.seed, "rank", spec.stage, group.rank))
    objective: Objective
    if isinstance(stage, SelfCritical):
        objective = SelfCriticalObjective(
            model,
            stage,
            references=inputs.captions,
            max_length=max_length,
            vocabulary=inputs.vocabulary,
        )
    else:
        assert isinstance(stage, CrossEntropy)
        if stage.truncate_to_words and group.size > 1:
            raise ConfigError(
                "xe.truncate_to_words: looks at the whole batch; train with one process"
            )
        objective = CrossEntropyObjective(model, stage, inputs.vocabulary)
    batches = CaptionBatches(
        features=inputs.sources,
        captions=inputs.captions,
        images_per_batch=stage.images_per_batch,
        most=stage.steps_per_epoch,
        seed=spec.seed,
        pin=on_gpu,
    )

    # All that the weights depend on. Whoever started torchrun by hand may have asked for other
    # processes than the spec has; without fast paths dropout draws other random numbers.
    source = job_code(TRAINING, spec.model_settings.kind)
    settings = spec.model_dump(mode="json")
    if group.size > 1:
        settings["processes"] = group.size
    if not fast():
        settings["fast"] = False
    step = OptimizerStep(
        model=model,
        objective=objective,
        stage=stage,
        d_model=spec.model_settings.noam_width,
        group=group,
    )
    return Training(
        step=step,
        state=state,
        batches=batches,
        validate=validate,
        identity={"settings": settings, "inputs": inputs.hashes, "source": source},
        name=name,
        checkpoint_minutes=execution.checkpoint_minutes,
        trained=init is not None,
    )


def finish(training: Training, execution: Execution, out: Path) -> None:
    """Train to the end and write the run folder."""
    counters = training.run()
    if not training.group.is_main:
        return
    if counters.best_epoch == 0:  # self-critical training can break a model
        log.warning(
            f"{training.name}: no epoch was better than the weights it began with (validation "
            f"CIDEr-D {counters.best:.4f}), so these are its result; lower the learning "
            "rate, or try other samples"
        )
    settings = training.identity["settings"]
    write_run(
        out,
        made_from={
            "stage": settings["stage"],
            "spec": settings,
            **training.identity["inputs"],
            "code": training.identity["source"],
        },
        execution=execution.model_copy(update={"compile": is_compiled(training.model)}),
        counters=counters,
        weights=training.best_weights,
        model=training.model,
        device=training.group.device,
    )


def with_stage(spec: RunSpec, **changes: Any) -> RunSpec:
    """Return a spec with other settings of its stage."""
    return spec.model_copy(
        update={"stage_settings": spec.stage_settings.model_copy(update=changes)}
    )


def with_precision(spec: RunSpec, group: Group, state: Path) -> RunSpec:
    """Return the spec with a precision that is known:
    that of the first of several processes, and of a saved state."""
    if spec.stage_settings.precision != "auto":
        return spec
    chosen = "auto"
    if group.is_main:
        path = state / PRECISION
        settings = spec.model_dump(mode="json")
        noted = read_json(path) if path.exists() else {}
        chosen = precision_here("auto", group.device)
        # A training that continues on another processor keeps what it began with.
        if noted.get("spec") == settings:
            chosen = noted["chosen"]
        write_json(path, {"spec": settings, "chosen": chosen})
    (chosen,) = group.broadcast_from_main([chosen])
    return with_stage(spec, precision=chosen)


def validator(
    model: Captioner,
    stage: Stage,
    features: ReadsImages,
    references: CaptionIds,
    max_length: int,
    vocabulary: AnyVocabulary | None,
    group: Group,
    name: str,
) -> Callable[[], float]:
    """Return a function that decodes this process's validation images:
    their CIDEr-D over the count of all images."""
    if len(references) == 1:
        log.warning(
            f"{name}: CIDEr-D of one validation image is always 0 and can choose no epoch; give "
            "more images"
        )
    scored, units = caption_units(references, vocabulary)
    scorer = CiderD(scored)
    images = group.shard(sorted(references))
    decoding = DecodingSettings(beam=stage.validation_beam, max_length=max_length)

    def validate() -> float:
        candidates = decode_candidates(
            model, features, images, decoding, device=group.device, name=f"{name}, validation"
        )
        captions = [units(candidates[image][0].tokens) for image in images]
        return scorer.score(images, captions).sum().item() / len(references)

    return validate
