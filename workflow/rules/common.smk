"""Plan and paths: what the rules share. No science."""

import json
import re
import sys
from pathlib import Path
from shlex import quote

from recap.settings.datasets import PICTURES
from recap.settings.features import FEATURES
from recap.settings.language_models import LANGUAGE_MODEL
from recap.settings.vocabulary import HUB
from recap.plan import used_inputs
from recap.core.errors import RecapError
from recap.settings.metrics import METRICS
from recap.core.process.gpus import devices
from recap.plan.run_plan import RunPlan
from recap.settings.params import load_profile, refuse_other_scale
from recap.plan.run import Run, file_name, row_runs
from recap.plan.run_spec import evaluation_spec, execution, run_spec
from recap.plan.source import code_digest
from recap.plan.identities import EVALUATION, TRAINING, job_code
from recap.plan.identities import PICTURES as PICTURE_SOURCE
from recap.core.files.yaml_files import read_mapping
from recap.data.files.versions import entry_of, read_versions
from recap.models.check import check_models

from workflow.specs import SpecText, write_executions

# Jobs run in this very Python, so that the environment need not be on PATH. With -P no file of the working folder is
# taken for an installed module. `exec`: a job's command takes the place of its shell, so that signals reach it.
RECAP = f"exec {quote(sys.executable)} -P -m recap"

# Ctrl-C reaches jobs as the workflow's SIGTERM; as itself it would meet Python before it can say anything but a traceback.
shell.prefix("set -euo pipefail; trap '' INT; ")


UNUSABLE = re.compile(r"^[-.]|[/@{}\x00-\x1f]")  # in the names of parameter files


def refuse(sentence):
    """Stop with one sentence, as the `recap` commands do; Snakemake would add where its own code stood."""
    sys.exit(f"recap: {sentence}")


def uses_gpus(profile):
    """Return whether a profile's jobs use GPUs: where there are none, `auto` means the CPU."""
    device = profile.execution.device
    return device == "cuda" or (device == "auto" and bool(devices()))


def load_plan():
    """Return profile and plan, or stop with the one sentence that says what is wrong in which file."""
    values = {key: value for key, value in config.items() if key != "params_dir"}
    try:
        # Snakemake has read the profile already, but takes the last of two equal keys without a word.
        for file in workflow.configfiles:
            refuse_other_scale(config, read_mapping(Path(file)), file)
        profile = load_profile(values, f"profile {values.get('name', '(without a name)')}")
        plan = RunPlan(profile, Path(config.get("params_dir", "params")))
        check_models(plan, Path(f"work/{profile.name}/checked_models.json"))
    except RecapError as error:
        refuse(str(error))
    for section, name in sorted(plan.names()):
        if UNUSABLE.search(name):
            refuse(
                f"{section}/{name}.yaml: a name cannot begin with - or ., nor hold / @ {{ }}; it becomes part of paths"
            )
    if set("{}") & set(profile.inputs):
        refuse(f"inputs={profile.inputs}: Snakemake takes braces for wildcards; use a folder without them")
    for name in sorted({run.recipe for run in plan.scored()}):
        if plan.recipe(name).evaluation.split != "test":
            refuse(f"recipe {name!r}: evaluation.split is 'val', but tables are made of test scores; say test")
        wanted, found = plan.recipe(name).processes, len(devices())
        if uses_gpus(profile) and wanted > max(1, found):
            refuse(f"recipe {name!r}: {wanted} processes want a GPU each, but there are {found}; set `processes` lower")
    return profile, plan


PROFILE, PLAN = load_plan()
config["name"] = PROFILE.name  # with the scale, for captions of the report
SCORED = PLAN.scored()
TRAINED = PLAN.trained()
LABELS = PLAN.labels()
TABLE_IDS = {file_name(name): name for name in PLAN.tables}
FIGURE_IDS = {file_name(name): name for name in PLAN.figures}
R = f"results/{PROFILE.name}"
LOGS = f"logs/{PROFILE.name}"
WORK = f"work/{PROFILE.name}"
# How jobs are computed reaches them by a file that is no input of theirs, so that it makes nothing again.
EXECUTION = f"{WORK}/execution"
write_executions(PLAN, LABELS, Path(EXECUTION))
used_inputs.note(Path(WORK), PROFILE.inputs)
DEVICE = PROFILE.execution.device
RUN = "{dataset}/{subset}/{features}/{model}@{recipe}/seed-{seed}"
# Jobs that ask for a GPU share those of the machine, one each; on the CPU no job waits.
GPU = int(uses_gpus(PROFILE))
if "gpu" not in workflow.global_resources:  # --resources gpu=N says otherwise
    workflow.register_resource("gpu", max(1, len(devices())))

LANGUAGE_MODEL_FILE = f"{R}/features/{{dataset}}/{{language_model}}.language_model.safetensors"


wildcard_constraints:
    dataset="[^/@]+",
    subset="[^/@]+",
    features="[^/@]+",
    language_model="[^/@]+",
    model="[^/@]+",
    recipe="[^/@]+",
    seed="-?[0-9]+",
    seeds="[-+0-9]+",
    stage="xe|scst",
    table="[^/]+",
    study="[^/]+",


def as_json(value):
    """Return a spec as a parameter that Snakemake compares; its ``file``, written now, is what the command is given."""
    return SpecText.written(value, Path(WORK) / "specs")


def plain(settings):
    """Return settings as plain values."""
    return settings.model_dump(mode="json")


def model_code(start):
    """Return the function that gives the digest of a job that starts at a module and runs one kind of model."""
    return lambda wildcards: job_code(start, PLAN.get("models", wildcards.model).kind)


def one_of(names):
    """Return the regular expression that matches these names and nothing else."""
    return "|".join(map(re.escape, names)) or "(?!)"


def table_id(wildcards):
    """Return the table whose files have a name: ``xlan/t3`` for ``xlan_t3``."""
    return TABLE_IDS[wildcards.table]


def as_run(wildcards, **changes):
    """Return the run that wildcards name."""
    parts = {key: wildcards[key] for key in ("dataset", "subset", "features", "model", "recipe")}
    return Run(**{**parts, "seed": int(wildcards.get("seed", 0)), "stage": wildcards.get("stage", ""), **changes})


def weights_file(run):
    """Return the weights that a scored run of one seed uses."""
    return f"{R}/runs/{PLAN.weights(run).path}/model.safetensors"


def corpus_file(run):
    return f"{R}/data/{run.dataset}/corpus.parquet"


def vocabulary_file(run):
    return f"{R}/data/{run.dataset}/vocabulary.json"


def card_file(run):
    return f"{R}/data/{run.dataset}/card.md"


def subset_file(run):
    return f"{R}/data/{run.dataset}/subsets/{run.subset}/seed-{run.seed}.json"


def features_files(run):
    """Return the stores of a run, one for each of its features; wildcards of a run will do, too."""
    return [f"{R}/features/{run.dataset}/{name}.h5" for name in PLAN.feature_names(run.features)]


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
    """Return the outside files that the corpus of a data set is made from."""
    return list(map(outside, PLAN.get("datasets", name).outside_files()))


def tokenizer_inputs(name):
    """Return the outside files of a data set's byte pairs: none for words and for the hub."""
    return list(map(outside, PLAN.get("datasets", name).vocabulary.outside_files()))


def dataset_images(name):
    """Return folders or zips with the pictures of a data set."""
    sources = PLAN.get("datasets", name).picture_sources()
    return list(map(outside, sources)) or [f"{R}/data/{name}/{PICTURES}"]


def weights_inputs(name):
    """Return the outside files of features: what is imported, or weights that are neither random nor from the hub."""
    return list(map(outside, PLAN.get("features", name).outside_files()))


def pretrained_weights(run):
    """Return the file of weights that a run's model begins with, if any: of a language model, or an outside file."""
    source = PLAN.get("models", run.model).pretrained_weights()
    if source is None or source.startswith(HUB):
        return []
    if source.startswith(LANGUAGE_MODEL):
        name = source.removeprefix(LANGUAGE_MODEL)
        return [LANGUAGE_MODEL_FILE.format(dataset=run.dataset, language_model=name)]
    return [outside(source)]


def text_inputs(name):
    """Return the outside files of a language model's texts."""
    return list(map(outside, PLAN.get("language_models", name).outside_files()))


def boxes_of(name):
    """Return the name of the features whose boxes these features cut out, or None."""
    boxes = PLAN.get("features", name).boxes_from()
    if boxes is not None and not PLAN.get("features", boxes).has_boxes:
        kinds = " or ".join(kind for kind, settings in FEATURES.classes().items() if settings.has_boxes)
        refuse(f"features/{name}.yaml: {boxes!r} has no boxes; name features of kind {kinds}")
    return boxes


def cells_of(name):
    """Return the name of the features whose grid these features pool, or None."""
    return PLAN.get("features", name).cells_from()


def used_features():
    """Return the features of all rows, and those whose boxes or cells others of them are made from."""
    named = {name for run in SCORED for name in PLAN.feature_names(run.features)}
    return sorted(named | set(filter(None, (of(name) for of in (boxes_of, cells_of) for name in named))))


def missing_inputs():
    """Return the outside files that are missing and that something still to be made needs, with who names them."""
    needs = {(f"{R}/data/{name}/corpus.parquet", "datasets", name): dataset_inputs(name) for name in PLAN.datasets()}
    for name in PLAN.datasets():
        needs[f"{R}/data/{name}/vocabulary.json", "datasets", name] = tokenizer_inputs(name)
    for run in SCORED:
        used = PLAN.feature_names(run.features)
        for name in filter(None, [*used, *map(boxes_of, used), *map(cells_of, used)]):
            needs[f"{R}/features/{run.dataset}/{name}.h5", "features", name] = weights_inputs(name)
        for file in pretrained_weights(run):
            if file.startswith(f"{R}/"):
                name = PLAN.get("models", run.model).pretrained_weights().removeprefix(LANGUAGE_MODEL)
                needs[file, "language_models", name] = text_inputs(name)
            else:
                needs[weights_file(run), "models", run.model] = [file]
    return {
        file: f"{section}/{name}.yaml"
        for (product, section, name), files in needs.items()
        for file in files
        if not Path(product).exists() and not Path(file).exists()
    }


def files_to_fetch():
    """Return the missing outside files that `fetch` may bring; stop before the first job if another is missing."""
    files = outside_files()
    found = {}
    for path, named_by in missing_inputs().items():
        place = Path(path)
        name = place.relative_to(PROFILE.inputs) if place.is_relative_to(PROFILE.inputs) else place
        entry = entry_of(name.as_posix(), files)
        if PROFILE.fetch and entry is not None and entry.urls:
            found[path] = entry.name
            continue
        known, origin = "", ""
        if entry is not None and entry.urls:
            known = f", or have it fetched with --config fetch=true inputs={PROFILE.inputs}"
        elif entry is not None:
            origin = f" ({entry.note})"
        refuse(
            f"{path}: no such file or folder; {named_by} names it: "
            f"put it there{origin}, or say where your files are with --config inputs=FOLDER{known}"
        )
    return found


def hub_weights():
    """Return the backbones whose weights come from the HuggingFace hub for features that are still to be made."""
    stores = {
        name: f"{R}/features/{run.dataset}/{name}.h5" for run in SCORED for name in PLAN.feature_names(run.features)
    }
    due = [PLAN.get("features", name) for name, store in sorted(stores.items()) if not Path(store).exists()]
    return sorted({settings.backbone for settings in due if getattr(settings, "weights", None) == "pretrained"})


def outside_files():
    """Return the names in the list of outside files; parameters without a list have none."""
    return read_versions(VERSIONS) if VERSIONS.exists() else {}


VERSIONS = Path(config.get("params_dir", "params")) / "data_versions.csv"
TO_FETCH = files_to_fetch()
if TO_FETCH:
    print(f"recap: to be fetched from the network: {', '.join(TO_FETCH)}", file=sys.stderr)
if hub_weights():
    print(
        f"recap: to be fetched from the HuggingFace hub, unless they are in its cache: weights of {', '.join(hub_weights())}",
        file=sys.stderr,
    )
