"""What the files of a profile are made from: all that it makes, and the outside files that are missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from recap.plan.paths import Paths
from recap.plan.run import Run
from recap.plan.run_plan import RunPlan
from recap.plan.shared_stores import store_folder
from recap.settings import ModelConfig
from recap.settings.base import HUB
from recap.settings.datasets import WebPictures
from recap.settings.models import LANGUAGE_MODEL


def data_files(paths: Paths) -> list[str]:
    """Return corpora, packed pictures, cards, vocabularies and subsets of all runs."""
    runs = paths.plan.scored()
    files = {file(run) for run in runs for file in (paths.corpus, paths.card, paths.vocabulary, paths.subset)}
    files |= {paths.corpus(run) for run in paths.plan.shown()}
    pictures = {file for dataset in paths.plan.datasets() for file in paths.images(dataset)}
    return sorted(files | {file for file in pictures if file.startswith(f"{paths.results}/")})


def used_features(paths: Paths) -> list[str]:
    """Return the features of all rows, and those whose boxes or cells others of them are made from."""
    return sorted({run.features for run in used_stores(paths.plan)})


def feature_files(paths: Paths) -> list[str]:
    """Return the stores of all runs, those that they are made from, their notes, and weights that are trained first."""
    stores = used_stores(paths.plan)
    kinds = (paths.store, paths.used_images, paths.extractor)
    files = {file(run.dataset, run.features) for run in stores for file in kinds}
    trained = (file for run in stores for file in paths.trained_backbone(run))
    return sorted(files.union(trained, language_model_files(paths)))


def language_model_files(paths: Paths) -> list[str]:
    """Return the language models of all runs, with their reports."""
    pretrained = {file for run in paths.plan.scored() for file in paths.pretrained(run)}
    files = {file for file in pretrained if file.startswith(f"{paths.results}/")}
    return sorted(files | {str(Path(file).with_suffix(".json")) for file in files})


def missing_inputs(paths: Paths, model: ModelConfig | None = None) -> dict[str, str]:
    """Return the outside files that are missing and that something still to be made needs, with who names them.

    Args:
        paths: of the plan.
        model: settings in place of those of the planned runs, which are about to be trained in this process.
    """
    plan = paths.plan
    needs: dict[tuple[str, str, str], list[str]] = {}  # product, section and name of a parameter file -> outside files
    for name in plan.datasets():
        needs[paths.of_dataset(name, "corpus.parquet"), "datasets", name] = paths.outside_files("datasets", name)
    for name in plan.datasets():
        needs[paths.of_dataset(name, "vocabulary.json"), "datasets", name] = paths.tokenizer(name)
    for store in used_stores(plan):
        product = paths.store(store.dataset, store.features)
        needs[product, "features", store.features] = paths.outside_files("features", store.features)
    for run in (part for scored in plan.scored() for part in scored.parts()):
        source = (model or plan.get("models", run.model)).pretrained_weights() or ""
        for file in paths.pretrained(run, model):
            if source.startswith(LANGUAGE_MODEL):
                name = source.removeprefix(LANGUAGE_MODEL)
                needs[file, "language_models", name] = paths.outside_files("language_models", name)
            else:
                product = file if model else paths.weights(plan.weights(run))
                needs[product, "models", run.model] = [file]
    for figure in plan.model_figures:
        texts = [paths.outside(name) for name in figure.settings.texts()]
        needs.update({(paths.figure(file), "tables", figure.table): texts for file in figure.files})
    for each in plan.scored_files():
        needs[paths.outside_scores(each)[-1], "tables", each.table] = [paths.outside(file) for file in each.files]
    return {
        file: f"{section}/{name}.yaml"
        for (product, section, name), files in needs.items()
        for file in files
        if not Path(product).exists() and not Path(file).exists()
    }


def hub_files(paths: Paths, model: ModelConfig | None = None) -> dict[str, str]:
    """Return what jobs that are due load from the HuggingFace hub, unless its cache has it, with who names it.

    Args:
        paths: of the plan.
        model: settings in place of those of the planned runs, which are about to be trained in this process.

    Returns:
        ``hub:OWNER/NAME``, with ``@REVISION`` where one is pinned -> the parameter file.
    """
    plan = paths.plan
    needs: dict[tuple[str, str, str], str | None] = {}  # product, section and name of a parameter file -> from the hub
    for store in used_stores(plan):
        settings = plan.get("features", store.features)
        needs[paths.store(store.dataset, store.features), "features", store.features] = settings.hub()
    for name in plan.datasets():
        rule = plan.get("datasets", name).vocabulary
        needs[paths.of_dataset(name, "vocabulary.json"), "datasets", name] = getattr(rule, "tokenizer", None)
    for run in (part for scored in plan.scored() for part in scored.parts()):
        source = (model or plan.get("models", run.model)).pretrained_weights()
        needs["" if model else paths.weights(plan.weights(run)), "models", run.model] = source
    return {
        name: f"{section}/{file}.yaml"
        for (product, section, file), name in needs.items()
        if name and name.startswith(HUB) and not Path(product).is_file()
    }


def pictures_to_fetch(paths: Paths) -> dict[str, WebPictures]:
    """Return what pictures are fetched from the open web, by the path of the list that says which, of all data sets."""
    found = [paths.plan.get("datasets", name).web_pictures() for name in paths.plan.datasets()]
    return {
        paths.outside(file): replace(pictures, tsv=paths.outside(pictures.tsv))
        for each in found
        for file, pictures in each.items()
    }


def used_stores(plan: RunPlan) -> list[Run]:
    """Return a run for each feature store: those of the scored runs, and those that these are made from.

    Its data set is the one whose name the folder of the store has.
    """
    todo = [replace(run, features=name) for run in plan.shown() for name in plan.feature_names(run.features)]
    stores: dict[tuple[str, str], Run] = {}
    while todo:
        run = todo.pop(0)
        folder = store_folder(plan, run.dataset, run.features)
        if (folder, run.features) not in stores:
            stores[folder, run.features] = replace(run, dataset=folder)
            settings = plan.get("features", run.features)
            todo += [replace(run, features=name) for name in (settings.boxes_from(), settings.cells_from()) if name]
    return list(stores.values())
