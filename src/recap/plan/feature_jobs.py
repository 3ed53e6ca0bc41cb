"""Jobs that make feature stores, and the notes on which runs depend in place of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from recap.plan.data_jobs import corpus, outside_files, pictures
from recap.plan.job import EntryPoints, Inputs, Job, outputs_of
from recap.plan.plan import Plan
from recap.plan.run import VAL
from recap.plan.source import PICTURES as PICTURE_SOURCE
from recap.plan.stores import Store, used_stores


def feature_jobs(plan: Plan) -> Iterator[Job]:
    """Yield the jobs of the feature stores in use."""
    for store in used_stores(plan):
        yield from _store_jobs(plan, store)


def _store_jobs(plan: Plan, store: Store) -> Iterator[Job]:
    """Yield the jobs of a store: training of its extractor, its images, its note, the store."""
    files = plan.files
    settings = store.settings
    names = {"dataset": store.dataset, "features": store.features}
    reader = store.readers[0]  # the first of the data sets that read a store stands for all
    # What decides the values of a store.
    spec = settings.model_dump(mode="json", exclude=set(settings.EXECUTION))
    code = EntryPoints(tuple(settings.targets()))
    trained = []
    if settings.trained_on_boxes():
        trained.append(files.of("pretrain", **names)["backbone"])
        yield Job(
            rule="pretrain",
            wildcards=names,
            inputs={
                "boxes": [files.product(reader, "boxes.json")],
                "images": pictures(plan, reader),
            },
            spec=spec,
            code=EntryPoints(("recap.features.training:pretrain",)),
            threads=2,
            gpus=plan.gpus,
        )
    yield _used_images(plan, store)
    notes = []
    for name in settings.input_features().values():
        notes.append(files.of("extractor", **{**names, "features": name})["note"])
    weights = outside_files(plan, settings)
    made_from: Inputs = {
        **corpus(plan, reader),  # says which pictures there are
        "images": pictures(plan, reader) if settings.from_pictures else [],
        # What is imported, or weights neither random nor from the hub.
        "weights": weights,
        "trained": trained,
        "stores": notes,
        "products": [files.product(reader, name) for name in settings.products()],
    }
    # The note stands for the store, which is another file whenever it grows.
    yield Job(rule="extractor", wildcards=names, inputs=made_from, spec=spec, code=code)
    read: Inputs = {"used": [files.of("used_images", **names)["used"]]}
    for key in ("boxes", "cells"):
        source = settings.input_features().get(key)
        read[key] = [files.store(store.dataset, source)] if source else []
    hub = settings.hub()
    yield from _extraction(
        plan,
        Job(
            rule="detector_features" if settings.needs_detectron2 else "features",
            wildcards=names,
            inputs=made_from | read,
            spec=spec,
            code=code,
            threads=2,
            gpus=plan.gpus if settings.from_pictures else 0,
            outside=(*weights, hub) if hub else tuple(weights),
            named_by=f"features/{store.features}.yaml",
        ),
    )


def _used_images(plan: Plan, store: Store) -> Job:
    """Return the job that lists what features are made of: the images that some run reads."""
    # The whole training split is the same with every seed: the first stands for all.
    draws: dict[tuple[str, str, int | None], str] = {}
    for run in store.trainings:
        whole = plan.settings.subset(run.subset).fraction == 1
        draw = plan.files.of("subset", **run.wildcards)["subset"]
        draws.setdefault((run.dataset, run.subset, None if whole else run.seed), draw)
    corpora = [plan.files.of("corpus", dataset=each)["corpus"] for each in store.readers]
    return Job(
        rule="used_images",
        wildcards={"dataset": store.dataset, "features": store.features},
        inputs={"corpora": sorted(corpora), "subsets": sorted(draws.values())},
        code=EntryPoints(("recap.data.subsets:write_used",), PICTURE_SOURCE),
        params={"parts": [VAL] if store.sent else []},
    )


def _extraction(plan: Plan, job: Job) -> Iterator[Job]:
    """Yield the job that makes a store, or one for each of its parts and one that merges them."""
    files = plan.files
    own = f"{job.wildcards['dataset']}/{job.wildcards['features']}"
    # What survives a killed job and the start of another, which declared outputs would not:
    # finished shards, and the store under a second name, from which it grows.
    survives = {"shards": f"{files.work}/shards/{own}", "kept": f"{files.work}/stores/{own}.h5"}
    store = files.store(**job.wildcards)
    job = replace(job, params={**survives, "out": store})
    number = plan.profile.execution.extraction_parts
    if number == 1:
        yield job
        return
    parts = []
    for part in range(1, number + 1):
        wildcards = {**job.wildcards, "part": str(part)}
        outputs = files.of("features", **wildcards)
        parts.append(replace(job, wildcards=wildcards, outputs=outputs, outside=()))
    yield from parts
    yield Job(
        rule="merge_features",
        wildcards=job.wildcards,
        inputs={"parts": outputs_of(parts)},
        params=survives,
        outside=job.outside,
        named_by=job.named_by,
    )
