"""One training stage of a run: from files to a run folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
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
from recap.training.loop import BEST, STATE, Objective, OptimizerStep, Training
from recap.training.objectives import CrossEntropyObjective, Logged, SelfCriticalObjective

OVERFIT_STEPS = 100
VALIDATED = 50  # images of a training that is cut short
PRECISION = "precision.json"  # in the state folder: what `auto` was decided to be
SAVING_SECONDS = 60.0  # what the training of a workflow that was killed may take to save its state


def train(  # noqa: C901
    *,
    spec: RunSpec,
    execution: Execution,
    state: Path,
    out: Path,
    corpus: Path,
    vocabulary: Path,
    subset: Path,
    features: Sequence[Path],  # stores of the same images
    init: Path | None,  # a run folder whose weights are the start (scst: the xe run)
    weights: Path | None = None,  # pretrained weights of a part of the model
) -> list[int] | None:
    """Train one stage and write `config.yaml`, `model.safetensors`,
    `history.csv` and `training.json` into `out`.

    A training that the execution cuts short starts anew, validates few images, and its
    `config.yaml` says that it was short; images that it has seen or was validated with are
    returned.
    """
    group = init_group(select_device(execution.device))
    on_gpu = group.device.type == "cuda"
    name = f"{spec.model}@{spec.recipe} seed {spec.seed} {spec.stage}"
    cut = execution if isinstance(execution, ExecutionFile) and execution.is_short else None
    # One training at a time works in a state folder: two would save into each other's state.
    lock = exclusive(state / "lock", wait_seconds=SAVING_SECONDS, what=f"the state folder {state}")
    with lock if group.is_main else nullcontext():
        if cut and group.is_main:
            for file in (STATE, BEST, PRECISION):
                (state / file).unlink(missing_ok=True)
        group.barrier()  # until the state is ours
        spec = with_precision(spec, group, state)
        torch.set_num_threads(execution.threads)
        if on_gpu:  # the CPU's are deterministic, and asking takes three seconds
            prepare_gpu(tf32=execution.tf32)
        torch.manual_seed(derived_seed(spec.seed, "weights", spec.stage))

        # What is read: captions of the images as token ids, and their features.
        weights = (
            None if init else pretrained_file(spec.model_settings.pretrained_weights(), weights)
        )
        words = load_vocabulary(vocabulary)
        sources = FeatureSources(features)
        chosen = read_subset(subset)
        if group.is_main:  # one of several processes says it
            check_vectors(spec.model_settings, features[0])
            if init is not None:
                check_inputs(init, vocabulary, words, sources.stores, other_pictures=True)
        table = Corpus.read(corpus)
        captions = split_captions(table, words, "train", chosen["caption_ids"])
        validation = split_captions(table, words, "val")
        sources.require([*captions, *validation])
        hashes = {
            "vocabulary_hash": words.hash,
            "subset_hash": chosen["hash"],
            "feature_hash": sources.hash_of([*captions, *validation]),
            "features_made_by": sources.made_by,
            "init_sha256": sha256_file(init / "model.safetensors") if init else None,
        }
        # named only where there are some, so that finished runs of other models stay valid
        if weights is not None:
            hashes["weights_sha256"] = sha256_file(weights)
        del table, chosen  # the training needs their memory

        # What is trained. A training that is cut short is one epoch of few batches.
        if cut:
            spec = with_stage(spec, epochs=1)
            validation = CaptionIds.of(dict(islice(validation.items(), VALIDATED)))
        stage, max_length = spec.stage_settings, words.max_length + 1  # with the end token
        inputs = replace(sources.input_spec(words), weights=weights)
        model = build_model(spec.model_settings, inputs).to(group.device)
        model.activation_checkpointing = execution.activation_checkpointing
        sources.choose([model], inputs)
        if init is not None:
            load_weights(model, init / "model.safetensors")
        if execution.compile is True or (execution.compile == "auto" and on_gpu):
            compile_passes(model)
        validate = validator(model, stage, sources, validation, max_length, words, group, name)
        if group.size > 1:  # the weights are the same in all processes, dropout and samples are not
            torch.manual_seed(derived_seed(spec.seed, "rank", spec.stage, group.rank))
        objective: Objective
        if isinstance(stage, SelfCritical):
            objective = SelfCriticalObjective(
                model, stage, references=captions, max_length=max_length, vocabulary=words
            )
        else:
            assert isinstance(stage, CrossEntropy)
            if stage.truncate_to_words and group.size > 1:
                raise ConfigError(
                    "xe.truncate_to_words: looks at the whole batch; train with one process"
                )
            objective = CrossEntropyObjective(model, stage, words)
        batches = CaptionBatches(
            features=sources,
            captions=captions,
            images_per_batch=stage.images_per_batch,
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
        losses: list[float] = []  # of each step, of a training that is cut short
        if cut:
            steps, one_batch = cut.max_steps or OVERFIT_STEPS, cut.overfit_one_batch
            settings |= {"max_steps": steps, "overfit_one_batch": one_batch}
            batches.cut(steps, one_batch=one_batch)

        def recorded(batch: Batch, epoch: int) -> Logged:
            logged = objective(batch, epoch)
            losses.append(logged.loss.item())
            return logged

        step = OptimizerStep(
            model=model,
            objective=recorded if cut else objective,
            stage=stage,
            d_model=spec.model_settings.noam_width,
            group=group,
        )
        training = Training(
            step=step,
            state=state,
            batches=batches,
            validate=validate,
            identity={"settings": settings, "inputs": hashes, "source": source},
            name=name,
            checkpoint_minutes=execution.checkpoint_minutes,
            trained=init is not None,
        )
        counters = training.run()
        if group.is_main:
            if counters.best_epoch == 0:  # self-critical training can break a model
                log.warning(
                    f"{name}: no epoch was better than the weights it began with (validation "
                    f"CIDEr-D {counters.best:.4f}), so these are its result; lower the learning "
                    "rate, or try other samples"
                )
            write_run(
                out,
                made_from={"stage": spec.stage, "spec": settings, **hashes, "code": source},
                execution=execution.model_copy(update={"compile": is_compiled(model)}),
                counters=counters,
                weights=training.best_weights,
                model=model,
                device=group.device,
            )
            if cut:
                log.info(
                    f"{name}: loss {losses[0]:.4f} at step 1, {losses[-1]:.4f} at step "
                    f"{len(losses)}"
                )
        group.destroy()
    if not cut:
        return None
    return batches.order(0)[0] if cut.overfit_one_batch else list(validation)


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
        path, settings = state / PRECISION, spec.model_dump(mode="json")
        noted = read_json(path) if path.exists() else {}
        # A training that continues on another processor keeps what it began with.
        chosen = (
            noted["chosen"]
            if noted.get("spec") == settings
            else precision_here("auto", group.device)
        )
        write_json(path, {"spec": settings, "chosen": chosen})
    (chosen,) = group.of_main([chosen])
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
    scorer, images = CiderD(scored), group.shard(sorted(references))
    decoding = DecodingSettings(beam=stage.validation_beam, max_length=max_length)

    def validate() -> float:
        candidates = decode_candidates(
            model, features, images, decoding, device=group.device, name=f"{name}, validation"
        )
        captions = [units(candidates[image][0].tokens) for image in images]
        return float(scorer.score(images, captions).sum() / len(references))

    return validate
