"""Jobs that make captions, vocabularies, draws of subsets, and what describes a data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recap.plan.job import EntryPoints, Inputs, Job
from recap.plan.plan import Plan
from recap.plan.source import PICTURES as PICTURE_SOURCE
from recap.settings.base import HUB, NamesFiles
from recap.settings.datasets import PICTURES


def outside_files(plan: Plan, settings: NamesFiles) -> list[str]:
    """Return the outside files that settings name."""
    return [plan.files.outside(name) for name in settings.outside_files()]


def pictures(plan: Plan, dataset: str) -> list[str]:
    """Return folders or zips with the pictures of a data set."""
    sources = plan.settings.dataset(dataset).picture_sources()
    if not sources:
        return [plan.files.product(dataset, PICTURES)]
    return [plan.files.outside(name) for name in sources]


def corpus(plan: Plan, dataset: str) -> Inputs:
    """Return the captions of a data set as an input."""
    return {"corpus": [plan.files.of("corpus", dataset=dataset)["corpus"]]}


def texts(plan: Plan, dataset: str) -> Inputs:
    """Return the captions of a data set and its vocabulary as inputs."""
    vocabulary = plan.files.of("vocabulary", dataset=dataset)["vocabulary"]
    return {**corpus(plan, dataset), "vocabulary": [vocabulary]}


def data_jobs(plan: Plan) -> Iterator[Job]:
    """Yield the jobs of the data sets in use."""
    for name in plan.datasets:
        yield _corpus(plan, name)
    described = sorted({run.dataset for run in plan.scored})
    for name in described:
        yield _vocabulary(plan, name)
    for name in described:
        yield _card(plan, name)
    for run in [*plan.trained, *plan.scored]:
        yield Job(
            rule="subset",
            wildcards={"dataset": run.dataset, "subset": run.subset, "seed": str(run.seed)},
            inputs=corpus(plan, run.dataset),
            spec=plan.settings.subset(run.subset),
            code=EntryPoints(("recap.data.subsets:draw_subset",), PICTURE_SOURCE),
        )


def _corpus(plan: Plan, name: str) -> Job:
    dataset = plan.settings.dataset(name)
    outputs = {product: plan.files.product(name, product) for product in dataset.products}
    # A rule has one list of outputs,
    # so data sets whose readers write other files beside the corpus have a separate rule.
    words = ["with", *(Path(product).stem for product in dataset.products)]
    sources = outside_files(plan, dataset)
    return Job(
        rule="_".join(["corpus", *words]) if dataset.products else "corpus",
        wildcards={"dataset": name},
        inputs={"sources": sources},
        outputs=outputs | plan.files.of("corpus", dataset=name),
        # the vocabulary's settings are those of another job
        spec=dataset.model_dump(mode="json", exclude={"vocabulary"}),
        # Its own reader counts, those of other kinds do not.
        code=EntryPoints(("recap.data.corpus:build_corpus", dataset.reader)),
        outside=tuple(sources),
        named_by=f"datasets/{name}.yaml",
    )


def _vocabulary(plan: Plan, name: str) -> Job:
    vocabulary = plan.settings.dataset(name).vocabulary
    sources = outside_files(plan, vocabulary)
    hub = getattr(vocabulary, "tokenizer", "")
    return Job(
        rule="vocabulary",
        wildcards={"dataset": name},
        inputs={**corpus(plan, name), "tokenizer": sources},
        spec=vocabulary,
        code=EntryPoints(("recap.data.vocabulary:build_vocabulary",), PICTURE_SOURCE),
        outside=(*sources, hub) if hub.startswith(HUB) else tuple(sources),
        named_by=f"datasets/{name}.yaml",
    )


def _card(plan: Plan, name: str) -> Job:
    # What a reader says about what it left out, where it says something.
    has_counts = "counts.md" in plan.settings.dataset(name).products
    counts = [plan.files.product(name, "counts.md")] if has_counts else []
    return Job(
        rule="card",
        wildcards={"dataset": name},
        inputs={**corpus(plan, name), "counts": counts},
        code=EntryPoints(("recap.data.card:write_card",), PICTURE_SOURCE),
    )
