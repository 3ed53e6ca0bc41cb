"""One training stage as a job: from files to a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NotRequired, TypedDict, Unpack

import torch

from recap.core.device import precision_here, prepare_gpu, select_device
from recap.core.documents import read_json, write_json
from recap.core.errors import ConfigError
from recap.core.files import exclusive
from recap.core.hashing import derived_seed, sha256_file, value_hash
from recap.core.log import log
from recap.data.caption_ids import CaptionIds
from recap.data.corpus import Corpus
from recap.data.subsets import read_subset
from recap.data.vocabulary import AnyVocabulary, load_vocabulary
from recap.models.base import Captioner
from recap.models.registry import build_model
from recap.nn.fast import fast
from recap.plan.identities import TRAINING, job_code
from recap.runs.folder import Counters, load_weights, write_run
from recap.runs.inputs import FeatureSources, GpuFeatures, pretrained_file, split_captions
from recap.settings import CrossEntropy, Execution, RunSpec, SelfCritical, Stage
from recap.training.batches import CaptionBatches
from recap.training.checkpoint import Identity
from recap.training.compiled import compile_passes
from recap.training.distributed import Group, init_group
from recap.training.loop import Training
from recap.training.objectives.cross_entropy import CrossEntropyObjective
from recap.training.objectives.self_critical import SelfCriticalObjective
from recap.training.step import Objective, OptimizerStep
from recap.training.validation import validator

_PRECISION = "precision.json"  # in the state folder: what `auto` was decided to be
_SAVING_SECONDS = 60.0  # what the training of a workflow that was killed may take to save its state


@dataclass(frozen=True)
class Inputs:
    """What a training reads: the captions of its images as token ids, their features, and the hash of each file.

    It begins with the weights of a run, `init`, with pretrained ones of a part of the model, `weights`, or with none.
    """

    vocabulary: AnyVocabulary
    features: FeatureSources
    captions: CaptionIds
    validation: CaptionIds
    init: Path | None
    hashes: dict[str, str | None]
    weights: Path | None = None

    @property
    def max_length(self) -> int:
        """Tokens of the longest caption, with the end token."""
        return self.vocabulary.max_length + 1


class TrainingFiles(TypedDict):
    """The files that go into a training: of the data set, and feature stores of the same images.

    It may begin with the weights of a run folder, `init` (scst: the xe run), or with pretrained ones, `weights`.
    """

    corpus: Path
    vocabulary: Path
    subset: Path
    features: Sequence[Path]
    init: Path | None
    weights: NotRequired[Path | None]


def train(*, spec: RunSpec, execution: Execution, state: Path, out: Path, **files: Unpack[TrainingFiles]) -> None:
    """Train one stage and write `config.yaml`, `model.safetensors`, `history.csv` and `training.json` into `out`."""
    group = init_group(select_device(execution.device))
    with _claimed(state, group):
        group.barrier()  # until the state is ours
        inputs = load_inputs(spec, execution, group, **files)
        training = build_training(spec, execution, inputs, state, group)
        counters = training.run()
        finish(spec, execution, inputs, training, counters, out)
        group.destroy()


def run_name(spec: RunSpec) -> str:
    """Return the name of a run in messages."""
    return f"{spec.model}@{spec.recipe} seed {spec.seed} {spec.stage}"


def load_inputs(
    spec: RunSpec,
    execution: Execution,
    group: Group,
    *,
    corpus: Path,
    vocabulary: Path,
    subset: Path,
    features: Sequence[Path],
    init: Path | None,
    weights: Path | None = None,
) -> Inputs:
    """Set threads, determinism and the seed of the first weights; read the files, which must fit together."""
    torch.set_num_threads(execution.threads)
    if group.device.type == "cuda":  # the CPU's are deterministic, and asking takes three seconds
        prepare_gpu(tf32=execution.tf32)
    torch.manual_seed(derived_seed(spec.seed, "weights", spec.stage))
    weights = None if init else pretrained_file(spec.model_settings.pretrained_weights(), weights)
    vocab, sources, chosen = load_vocabulary(vocabulary), FeatureSources(features), read_subset(subset)
    table = Corpus.read(corpus)
    captions = split_captions(table, vocab, "train", chosen["caption_ids"])
    validation = split_captions(table, vocab, "val")
    sources.require([*captions, *validation])
    hashes = {
        "vocabulary_hash": vocab.hash,
        "subset_hash": chosen["hash"],
        "feature_hash": sources.hash_of([*captions, *validation]),
        "features_made_by": sources.made_by,
        "init_sha256": sha256_file(init / "model.safetensors") if init else None,
    }
    if weights is not None:  # named only where there are some, so that finished runs of other models stay valid
        hashes["weights_sha256"] = sha256_file(weights)
    return Inputs(vocab, sources, captions, validation, init, hashes, weights)


def build_training(spec: RunSpec, execution: Execution, inputs: Inputs, state: Path, group: Group) -> Training:
    """Build the model and what trains it; the random numbers are those that `load_inputs` seeded."""
    name = run_name(spec)
    streams = replace(inputs.features.input_spec(inputs.vocabulary), weights=inputs.weights)
    model = build_model(spec.model_settings, streams).to(group.device)
    inputs.features.choose([model], streams)
    if inputs.init is not None:
        load_weights(model, inputs.init / "model.safetensors")
    if group.size > 1:  # the weights are the same in all processes, dropout and samples are not
        torch.manual_seed(derived_seed(spec.seed, "rank", spec.stage, group.rank))
    objective = _objective(model, spec.stage_settings, inputs, group)
    features: FeatureSources | GpuFeatures = inputs.features
    on_gpu = group.device.type == "cuda"
    if on_gpu and execution.features_in_memory:
        features = GpuFeatures(inputs.features, list(inputs.captions), group.device)
    batches = CaptionBatches(
        features=features,
        captions=inputs.captions,
        images_per_batch=spec.stage_settings.images_per_batch,
        seed=spec.seed,
        pin=on_gpu and not execution.features_in_memory,  # those are on the GPU already
    )
    spec = with_precision(spec, group, state)
    settings = spec.stage_settings
    step = OptimizerStep(
        model=model,
        objective=objective,
        stage=settings,
        d_model=spec.model_settings.noam_width,
        group=group,
        state=state,
    )
    training = Training(
        step=step,
        batches=batches,
        validate=validator(model, settings, inputs.features, inputs.validation, inputs.max_length, group, name),
        identity=identity(spec, inputs, group),
        name=name,
        checkpoint_minutes=execution.checkpoint_minutes,
        keep_state=execution.keep_state,
        trained=inputs.init is not None,
    )
    model.activation_checkpointing = execution.activation_checkpointing
    if execution.compile:
        compile_passes(model)
    return training


def finish(
    spec: RunSpec, execution: Execution, inputs: Inputs, training: Training, counters: Counters, out: Path
) -> None:
    """Write the run folder; of several processes the first does."""
    if training.group.is_main:
        warn_if_no_better(training.name, counters)
        settings, source = training.identity["settings"], training.identity["source"]
        write_run(
            out,
            made_from={"stage": spec.stage, "spec": settings, **inputs.hashes, "code": source},
            execution=execution,
            counters=counters,
            weights=training.best_weights,
            model=training.model,
            device=training.group.device,
        )


def identity(spec: RunSpec, inputs: Inputs, group: Group) -> Identity:
    """Return all that the weights depend on: a saved state of anything else is not continued."""
    # Whoever started torchrun by hand may have asked for other processes than the spec has.
    processes = {"processes": group.size} if group.size > 1 else {}
    plain = {} if fast() else {"fast": False}  # dropout then draws other random numbers
    source = job_code(TRAINING, spec.model_settings.kind)
    return {
        "settings": {**spec.model_dump(mode="json"), **processes, **plain},
        "inputs": inputs.hashes,
        "source": source,
    }


def with_precision(spec: RunSpec, group: Group, state: Path) -> RunSpec:
    """Return the spec with a precision that is known: that of the first of several processes, and of a saved state."""
    path, asked = state / _PRECISION, spec.stage_settings.precision
    if asked != "auto":
        return spec
    chosen: str = asked
    if group.is_main:
        key = value_hash(spec.model_dump(mode="json"))
        known = read_json(path) if path.exists() else {}
        # A training that continues on another processor keeps what it began with.
        chosen = known["chosen"] if known.get("asked") == key else precision_here(asked, group.device)
        write_json(path, {"asked": key, "chosen": chosen})
    (chosen,) = group.of_main([chosen])
    settings = spec.stage_settings.model_copy(update={"precision": chosen})
    return spec.model_copy(update={"stage_settings": settings})


def _claimed(state: Path, group: Group) -> AbstractContextManager[None]:
    """Let one training at a time work in a state folder: two would save into each other's state."""
    if not group.is_main:
        return nullcontext()
    return exclusive(state / "lock", wait_seconds=_SAVING_SECONDS, what=f"the state folder {state}")


def warn_if_no_better(name: str, counters: Counters) -> None:
    """Say so if a stage ends with the weights it began with; self-critical training can break a model."""
    spreads = {line["reward_sd"] for line in counters.history if "reward_sd" in line}
    if spreads == {0.0}:
        log.warning(
            f"{name}: in each step all samples had one reward, so nothing was learned; of one training image CIDEr-D "
            "is always 0, train on more"
        )
    elif counters.best_epoch == 0:
        log.warning(
            f"{name}: no epoch was better than the weights it began with (validation CIDEr-D "
            f"{counters.best:.4f}), so these are its result; lower its learning rate, or try other samples or betas"
        )


def _objective(model: Captioner, settings: Stage, inputs: Inputs, group: Group) -> Objective:
    if isinstance(settings, SelfCritical):
        return SelfCriticalObjective(model, settings, references=inputs.captions, max_length=inputs.max_length)
    assert isinstance(settings, CrossEntropy)
    if settings.truncate_to_words and group.size > 1:
        raise ConfigError("xe.truncate_to_words: cuts at the most words of a whole batch; train with one process")
    begins_word = _begins_word(inputs.vocabulary) if settings.truncate_to_words else None
    return CrossEntropyObjective(model, settings, begins_word)


def _begins_word(vocabulary: AnyVocabulary) -> torch.Tensor:
    """Return which byte pairs begin a word."""
    found = getattr(vocabulary, "begins_word", None)
    if found is None:
        raise ConfigError("xe.truncate_to_words: the vocabulary has words, not byte pairs; leave it out")
    return torch.tensor(found)
