"""Grid and paths: what the rules share. No science."""

import json
import sys
from dataclasses import replace
from pathlib import Path

from recap.core.errors import RecapError
from recap.core.grid import Grid, row_runs
from recap.core.params import load_profile
from recap.core.source import code_digest

# Jobs run in this very Python, so that the environment need not be on PATH.
RECAP = f"{sys.executable} -m recap"


def refuse(sentence):
    """Stop with one sentence, as the `recap` commands do; Snakemake would add where its own code stood."""
    sys.exit(f"recap: {sentence}")


def load_grid():
    """Return profile and grid, or stop with the one sentence that says what is wrong in which file."""
    values = {key: value for key, value in config.items() if key != "params_dir"}
    try:
        profile = load_profile(values, f"profile {values.get('name', '(without a name)')}")
        grid = Grid(profile, Path(config.get("params_dir", "params")))
    except RecapError as error:
        refuse(str(error))
    for name in sorted({run.recipe for run in grid.scored()}):
        if grid.recipe(name).evaluation.split != "test":
            refuse(f"recipe {name!r}: evaluation.split is 'val', but tables are made of test scores; say test")
    return profile, grid


PROFILE, GRID = load_grid()
SCORED = GRID.scored()
R = f"results/{PROFILE.name}"
WORK = f"work/{PROFILE.name}"
RUN = "{dataset}/{subset}/{features}/{model}@{recipe}/seed-{seed}"
# Asking for a GPU makes jobs wait for each other; without one in the machine, `auto` means the CPU and nobody waits.
GPU = int(PROFILE.device == "cuda" or (PROFILE.device == "auto" and any(Path("/dev").glob("nvidia[0-9]*"))))

# Modules that make or read pictures and captions: what they do reaches later jobs as a file, not as code.
MAKERS = ["data/images", "data/karpathy", "data/scenes"]


wildcard_constraints:
    dataset="[^/@]+",
    subset="[^/@]+",
    features="[^/@]+",
    model="[^/@]+",
    recipe="[^/@]+",
    seed="-?[0-9]+",
    seeds="[-+0-9]+",
    stage="xe|scst",
    table="[^/]+",


def as_json(value):
    """Return a spec as the command line takes it; sorted, so that equal specs are equal parameters."""
    return json.dumps(value, sort_keys=True)


def model_code(start):
    """Return the function that gives the digest of a job that starts at a module and runs one kind of model.

    The registry imports every kind, so it is left out: a new architecture retrains none of the others.
    """

    def digest(wildcards):
        kind = GRID.get("models", wildcards.model).kind
        without = [*MAKERS, "models/registry", *(["training/job"] if start != "training/job" else [])]
        return code_digest(start, f"models/{kind}", without=without)

    return digest


def of_kind(kind):
    """Return the constraint of the wildcard `dataset` to the data sets of one kind."""
    names = [name for name in GRID.datasets() if GRID.get("datasets", name).kind == kind]
    return "|".join(names) or "(?!)"


def table_runs(name):
    """Return the scored runs of a table."""
    return sorted({run for row in GRID.tables[name].rows for run in row_runs(row, PROFILE.seeds)})


def trained_runs():
    """Return every training stage in use: a scored run and, for SCST, the cross-entropy run it starts from."""
    scored = {part for run in SCORED for part in run.parts()}
    first = {replace(run, stage="xe") for run in scored}
    return sorted(first | scored)


def corpus_file(run):
    return f"{R}/data/{run.dataset}/corpus.parquet"


def vocabulary_file(run):
    return f"{R}/data/{run.dataset}/vocabulary.json"


def subset_file(run):
    return f"{R}/data/{run.dataset}/subsets/{run.subset}/seed-{run.seed}.json"


def features_file(run):
    return f"{R}/features/{run.dataset}/{run.features}.h5"


RUN_FILES = ["config.yaml", "model.safetensors", "history.csv", "training.json"]
SCORE_FILES = ["captions.test.json", "scores.test.parquet", "metrics.json"]


def run_files(run):
    return [f"{R}/runs/{run.path}/{name}" for name in RUN_FILES]


def score_files(run):
    return [f"{R}/scores/{run.path}/{name}" for name in SCORE_FILES]


def outside(name):
    """Return the path of a file that the profile's `inputs` folder must hold."""
    return str(Path(PROFILE.inputs) / name)


def dataset_inputs(name):
    """Return the outside files of a data set: none for the built-in one."""
    dataset = GRID.get("datasets", name)
    return [] if dataset.kind == "scenes" else [outside(file) for file in [dataset.annotations, *dataset.images]]


def dataset_images(name):
    """Return folders or zips with the pictures of a data set."""
    dataset = GRID.get("datasets", name)
    built_in = dataset.kind == "scenes"
    return [f"{R}/data/{name}/images.zip"] if built_in else [outside(file) for file in dataset.images]


def weights_inputs(name):
    """Return the outside weights of a feature extractor: none if they are random or come from the hub."""
    weights = GRID.get("features", name).weights
    return [] if weights in ("pretrained", "random", "boxes") else [outside(weights)]


def refuse_missing_inputs():
    """Stop before the first job if an outside file is missing that something still to be made needs."""
    needs = {(f"{R}/data/{name}/corpus.parquet", "datasets", name): dataset_inputs(name) for name in GRID.datasets()}
    for run in SCORED:
        needs[features_file(run), "features", run.features] = weights_inputs(run.features)
    for (product, section, name), files in needs.items():
        for file in files:
            if not Path(product).exists() and not Path(file).exists():
                refuse(
                    f"{file}: no such file or folder; {section}/{name}.yaml names it: "
                    f"put it there, or say where your files are with --config inputs=FOLDER"
                )


TRAINED = trained_runs()
refuse_missing_inputs()
