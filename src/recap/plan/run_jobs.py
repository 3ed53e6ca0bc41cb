"""Jobs that train models and score their captions, or captions that others made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from recap.core.documents import read_mapping
from recap.plan.data_jobs import corpus, outside_files, texts
from recap.plan.job import EntryPoints, Inputs, Job
from recap.plan.plan import Plan
from recap.plan.run import TEST, VAL, Run, ScoredFile, Submission
from recap.plan.source import CAPTIONING, EVALUATION, TRAINING, entry_points
from recap.plan.specs import evaluation_spec, execution, run_spec
from recap.settings import ModelConfig
from recap.settings.base import HUB
from recap.settings.metrics import METRICS
from recap.settings.models import LANGUAGE_MODEL
from recap.settings.recipes import RunSpec


def stores(plan: Plan, run: Run | ScoredFile) -> Inputs:
    """Return the stores that a run reads, one for each of its features, with their notes."""
    folder = plan.settings.same_pictures(run.dataset)
    names = run.features.split("+")
    notes = [plan.files.of("extractor", dataset=folder, features=each)["note"] for each in names]
    return {"features": [plan.files.store(folder, each) for each in names], "extractors": notes}


def checkpoint(plan: Plan, training: Run) -> str:
    """Return the weights of a training."""
    return plan.files.of(f"train_{training.stage}", **training.wildcards)["model"]


def scores_of(plan: Plan, scored: Run | ScoredFile) -> dict[str, str]:
    """Return what an evaluation leaves."""
    return plan.files.scores(scored.path)


def is_scored(plan: Plan, scored: Run | ScoredFile) -> bool:
    """Return whether the scores of a run are there."""
    return all(Path(file).is_file() for file in scores_of(plan, scored).values())


@dataclass(frozen=True)
class PretrainedWeights:
    """The pretrained weights that a model begins with."""

    files: list[str]  #: as a training reads them; none from the hub
    outside: tuple[str, ...] = ()  #: outside files, or the name of the hub, that its settings name
    language_model: str | None = None  #: a small one of this name makes them


def pretrained(plan: Plan, dataset: str, model: ModelConfig) -> PretrainedWeights:
    """Return the weights that a model begins with, if any."""
    source = model.pretrained_weights()
    if source is None:
        return PretrainedWeights([])
    if source.startswith(HUB):
        return PretrainedWeights([], (source,))
    if source.startswith(LANGUAGE_MODEL):
        name = source.removeprefix(LANGUAGE_MODEL)
        names = {"dataset": dataset, "language_model": name}
        return PretrainedWeights([plan.files.of("language_model", **names)["weights"]], (), name)
    file = plan.files.outside(source)
    return PretrainedWeights([file], (file,))


def training_jobs(plan: Plan) -> Iterator[Job]:
    """Yield the trainings of a plan, with those of language models that they begin with."""
    for run in plan.trained:
        weights = pretrained(plan, run.dataset, plan.settings.model(run.model))
        if weights.language_model:
            yield language_model_job(plan, run.dataset, weights.language_model)
    for run in plan.trained:
        yield training_job(plan, run, run_spec(plan, run))


def language_model_job(plan: Plan, dataset: str, name: str) -> Job:
    """Return the training of a small language model on a data set's words."""
    settings = plan.settings.language_model(name)
    files = outside_files(plan, settings)
    return Job(
        rule="language_model",
        wildcards={"dataset": dataset, "language_model": name},
        inputs={**texts(plan, dataset), "texts": files},
        spec=settings,
        code=EntryPoints(("recap.training.language_model",)),
        params={"state": f"{plan.files.work}/language_models/{dataset}/{name}"},
        threads=2,
        gpus=plan.gpus,
        outside=tuple(files),
        named_by=f"language_models/{name}.yaml",
    )


def training_job(plan: Plan, run: Run, spec: RunSpec) -> Job:
    """Return one stage of the training of a run, by its spec."""
    recipe = plan.settings.recipe(run.recipe)
    outside: tuple[str, ...] = ()
    if run.stage == "xe":
        weights = pretrained(plan, run.dataset, spec.model_settings)
        outside = weights.outside
        begins: Inputs = {"weights": weights.files}
    else:
        begins = {"init": [checkpoint(plan, plan.first_stage(run))]}
    return Job(
        rule=f"train_{run.stage}",
        wildcards=run.wildcards,
        inputs={
            **texts(plan, run.dataset),
            "subset": [plan.files.of("subset", **run.wildcards)["subset"]],
            **stores(plan, run),
            **begins,
        },
        spec=spec,
        code=entry_points(TRAINING, spec.model_settings.kind),
        # The full state survives a killed job, which declared outputs would not:
        # the same command resumes from it.
        params={"state": f"{plan.files.work}/{run.path}"},
        # of all its processes, which torchrun starts
        threads=recipe.processes * execution(plan, run.recipe).threads,
        gpus=recipe.processes * plan.gpus,
        outside=outside,
        named_by=f"models/{run.model}.yaml",
    )


def evaluation_jobs(plan: Plan) -> Iterator[Job]:
    """Yield what scores captions: of runs, of files and released weights, and for COCO's server."""
    for run in plan.scored:
        yield _evaluation(plan, run)
    for scored in plan.scored_files:
        yield _released(plan, scored) if scored.released else _captions(plan, scored)
    for each in plan.submissions:
        yield from _submission(plan, each)


def _products(plan: Plan, dataset: str, metrics: Iterable[str]) -> Inputs:
    """Return what metrics read beside the corpus."""
    files = []
    for metric in metrics:
        files += [plan.files.product(dataset, name) for name in METRICS.get(metric).products]
    return {"products": files}


def _models(plan: Plan, run: Run) -> Inputs:
    """Return the weights of a run, or those of an ensemble's members."""
    return {"model": [checkpoint(plan, plan.training_of(part)) for part in run.parts()]}


def _evaluation(plan: Plan, run: Run) -> Job:
    metrics = plan.settings.recipe(run.recipe).evaluation.metrics
    return Job(
        rule="evaluate_ensemble" if run.members else "evaluate",
        wildcards=run.wildcards | {"stage": run.stage},
        inputs={
            **_products(plan, run.dataset, metrics),
            **texts(plan, run.dataset),
            **stores(plan, run),
            **_models(plan, run),
        },
        spec=evaluation_spec(plan, run.recipe),
        code=entry_points(EVALUATION, plan.settings.model(run.model).kind, metrics=metrics),
        threads=execution(plan, run.recipe).threads,
        gpus=plan.gpus,
    )


def _captions(plan: Plan, scored: ScoredFile) -> Job:
    """Return the scoring of a file of captions."""
    files = [plan.files.outside(file) for file in scored.files]
    return Job(
        rule="score_file",
        wildcards={"outside": scored.path},
        inputs={
            **_products(plan, scored.dataset, scored.metrics),
            "captions": files,
            **corpus(plan, scored.dataset),
        },
        code=entry_points("recap.evaluation.caption_file:score_file", metrics=scored.metrics),
        params={"metrics": list(scored.metrics), "dataset": scored.dataset},
        outside=tuple(files),
        named_by=f"tables/{scored.table}.yaml",
    )


def _released(plan: Plan, scored: ScoredFile) -> Job:
    """Return the decoding and scoring of a folder of released weights."""
    folder = plan.files.outside(str(scored.released))
    files = [plan.files.outside(file) for file in scored.files]
    config = Path(folder, "config.yaml")
    kinds = []
    if config.is_file():  # else it is missing, and no job begins
        kinds.append(read_mapping(config)["spec"]["model_settings"]["kind"])
    return Job(
        rule="score_released",
        wildcards={"outside": scored.path},
        inputs={
            **_products(plan, scored.dataset, scored.metrics),
            "released": files,
            **corpus(plan, scored.dataset),
            **stores(plan, scored),
        },
        spec=evaluation_spec(plan, scored.recipe),
        code=entry_points(EVALUATION, *kinds, metrics=scored.metrics),
        params={"recipe": scored.recipe, "model": folder},
        threads=execution(plan, scored.recipe).threads,
        gpus=plan.gpus,
        outside=tuple(files),
        named_by=f"tables/{scored.table}.yaml",
    )


def _submission(plan: Plan, sent: Submission) -> Iterator[Job]:
    """Yield what COCO's server is sent of a run: its captions of both parts, and their zip."""
    run = sent.run
    captions: Inputs = {}
    for name, part in (("val", VAL), ("test", TEST)):
        shown = sent.shown(part)
        wildcards = {"run": run.path, "part": part}
        captions[name] = [plan.files.of("server_captions", **wildcards)["captions"]]
        yield Job(
            rule="server_captions",
            wildcards=wildcards,
            inputs={
                **texts(plan, run.dataset),
                **corpus(plan, shown.dataset),
                **stores(plan, shown),
                **_models(plan, run),
            },
            spec=evaluation_spec(plan, run.recipe),
            code=entry_points(CAPTIONING, plan.settings.model(run.model).kind),
            params={
                "execution": f"{plan.files.work}/execution/{run.recipe}.yaml",
                "partial": _partial(plan, shown),
            },
            threads=execution(plan, run.recipe).threads,
            gpus=plan.gpus,
        )
    yield Job(
        rule="submission",
        wildcards={"algorithm": sent.algorithm},
        inputs=captions,
        code=EntryPoints(("recap.share.coco_server:write_submission",)),
        params={"partial": _partial(plan, run) or _partial(plan, sent.test)},
    )


def _partial(plan: Plan, run: Run) -> str:
    """Return the option that allows a part of COCO, where the data set is one."""
    return "--partial" if getattr(plan.settings.dataset(run.dataset), "partial", False) else ""
