"""Captions of the test split by beam search, and their scores per image and per corpus."""

from recap.core.errors import RecapError
from recap.core.log import log
from recap.data.files.download import Transfer
from recap.metrics.spice import SPICE_MODELS, install_spice_models, spice_models_missing
from recap.plan import jobs
from recap.plan.identities import job_code
from recap.plan.run_spec import evaluation_spec, execution
from recap.settings.metrics import METRICS

from workflow.plan import due_jobs


def evaluate_spec(wildcards):
    """Return how a run's captions are decoded and scored."""
    return as_json(evaluation_spec(PLAN, wildcards.recipe).model_dump(mode="json"))


def evaluation_code(wildcards):
    """Return the digest of decoding with a model and of the metrics that its recipe asks for."""
    return jobs.evaluation_code(PLAN, wildcards.model, wildcards.recipe)


def products(wildcards):
    """Return what the metrics of a run read beside the corpus."""
    metrics = map(METRICS.get, PLAN.recipe(wildcards.recipe).evaluation.metrics)
    return [PATHS.of_dataset(wildcards.dataset, name) for metric in metrics for name in metric.products]


def install_spice():
    """Fetch SPICE's models where the profile allows it and an evaluation that is due asks for SPICE.

    They belong to the environment, so no rule makes them, and they are there before the first job. Without them SPICE
    is not run, which is said now and not after weeks.
    """
    due = [job for job in due_jobs(workflow) if job.rule in ("evaluate", "evaluate_ensemble")]
    recipes = {job.wildcards["recipe"] for job in due}
    asked = any("SPICE" in PLAN.recipe(recipe).evaluation.metrics for recipe in recipes)
    if asked and PROFILE.fetch and set(SPICE_MODELS) <= LISTED.keys() and spice_models_missing():
        try:
            install_spice_models(LISTED, into=Path(PROFILE.inputs), transfer=Transfer())
        except RecapError as error:
            log.error(f"recap: SPICE will not run: {error}")


def scored_weights(wildcards):
    """Return the weights that a scored run of one seed uses."""
    return PATHS.weights(PLAN.weights(run_named(wildcards)))


def scored_run(wildcards):
    """Return the run that is scored, of one seed or of an ensemble of several."""
    seeds = [int(seed) for seed in (wildcards.get("seeds") or wildcards.seed).split("+")]
    return run_named(wildcards, seed=seeds[0], members=tuple(seeds) if wildcards.get("seeds") else ())


rule evaluate:
    input:
        products,
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        vocabulary=f"{R}/data/{{dataset}}/vocabulary.json",
        features=growing_features,
        extractors=PATHS.extractors,
        model=scored_weights,
    output:
        captions=f"{R}/scores/{RUN}/{{stage}}/captions.test.json",
        scores=f"{R}/scores/{RUN}/{{stage}}/scores.test.parquet",
        metrics=f"{R}/scores/{RUN}/{{stage}}/metrics.json",
    log:
        f"{LOGS}/evaluate/{RUN}/{{stage}}.log",
    threads: lambda wildcards: execution(PLAN, wildcards.recipe).threads
    resources:
        **limits(lambda wildcards: NEEDS.evaluation(scored_run(wildcards))),
        gpu=GPU,
    params:
        spec=evaluate_spec,
        code=evaluation_code,
        model=subpath(input.model, parent=True),
        out=subpath(output.metrics, parent=True),
    shell:
        "{RECAP} --log-file {log:q}"
        " evaluate --spec {params.spec.file:q} --execution {EXECUTION:q}/{wildcards.recipe:q}.yaml"
        " --corpus {input.corpus:q} --vocabulary {input.vocabulary:q}"
        " --features {input.features:q} --model {params.model:q} --out {params.out:q}"


SCORED_FILES = {each.path: each for each in PLAN.scored_files() if each.captions}
RELEASED = {each.path: each for each in PLAN.scored_files() if each.released}


def scored_file(wildcards):
    """Return the file of captions that a row of a table names."""
    return SCORED_FILES[wildcards.outside]


def released(wildcards):
    """Return the released weights that a row of a table names."""
    return RELEASED[wildcards.outside]


def released_like(wildcards):
    """Return a run of the baseline's recipe in the same table, which needs as much."""
    runs = PLAN.table_runs(released(wildcards).table)
    return next(run for run in runs if run.recipe == released(wildcards).recipe)


rule score_file:
    input:
        lambda wildcards: [
            PATHS.of_dataset(scored_file(wildcards).dataset, name)
            for metric in scored_file(wildcards).metrics
            for name in METRICS.get(metric).products
        ],
        captions=lambda wildcards: PATHS.outside(scored_file(wildcards).captions),
        corpus=lambda wildcards: PATHS.of_dataset(scored_file(wildcards).dataset, "corpus.parquet"),
    output:
        captions=f"{R}/scores/{{outside}}/captions.test.json",
        scores=f"{R}/scores/{{outside}}/scores.test.parquet",
        metrics=f"{R}/scores/{{outside}}/metrics.json",
    log:
        f"{LOGS}/score_file/{{outside}}.log",
    wildcard_constraints:
        outside=one_of(SCORED_FILES),
    params:
        metrics=lambda wildcards: list(scored_file(wildcards).metrics),
        dataset=lambda wildcards: scored_file(wildcards).dataset,
        code=lambda wildcards: job_code(
            "recap.evaluation.caption_file:score_file", metrics=scored_file(wildcards).metrics
        ),
        out=subpath(output.metrics, parent=True),
    shell:
        "{RECAP} --log-file {log:q}"
        " score {input.captions:q} --dataset {params.dataset:q} --corpus {input.corpus:q}"
        " --metrics {params.metrics:q} --out {params.out:q} > /dev/null"


rule score_released:
    input:
        lambda wildcards: [
            PATHS.of_dataset(released(wildcards).dataset, name)
            for metric in released(wildcards).metrics
            for name in METRICS.get(metric).products
        ],
        lambda wildcards: [PATHS.outside(file) for file in released(wildcards).files],
        corpus=lambda wildcards: PATHS.of_dataset(released(wildcards).dataset, "corpus.parquet"),
        features=lambda wildcards: may_grow(PATHS.features(released(wildcards))),
        extractors=lambda wildcards: PATHS.extractors(released(wildcards)),
    output:
        captions=f"{R}/scores/{{outside}}/captions.test.json",
        scores=f"{R}/scores/{{outside}}/scores.test.parquet",
        metrics=f"{R}/scores/{{outside}}/metrics.json",
    log:
        f"{LOGS}/score_released/{{outside}}.log",
    wildcard_constraints:
        outside=one_of(RELEASED),
    threads: lambda wildcards: execution(PLAN, released(wildcards).recipe).threads
    resources:
        **limits(lambda wildcards: NEEDS.evaluation(released_like(wildcards))),
        gpu=GPU,
    params:
        spec=lambda wildcards: as_json(evaluation_spec(PLAN, released(wildcards).recipe).model_dump(mode="json")),
        code=lambda wildcards: jobs.released_code(
            released(wildcards), Path(PATHS.outside(released(wildcards).released))
        ),
        recipe=lambda wildcards: released(wildcards).recipe,
        model=lambda wildcards: PATHS.outside(released(wildcards).released),
        out=subpath(output.metrics, parent=True),
    shell:
        "{RECAP} --log-file {log:q}"
        " evaluate --spec {params.spec.file:q} --execution {EXECUTION:q}/{params.recipe:q}.yaml"
        " --corpus {input.corpus:q} --vocabulary {params.model:q}/vocabulary.json"
        " --features {input.features:q} --model {params.model:q} --out {params.out:q}"


ENSEMBLE_RUN = f"{RUN.removesuffix('seed-{seed}')}ensemble-{{seeds}}/{{stage}}"
ENSEMBLE = f"{R}/scores/{ENSEMBLE_RUN}"


def members(wildcards):
    """Return the weights of an ensemble's members."""
    runs = [run_named(wildcards, seed=int(seed)) for seed in wildcards.seeds.split("+")]
    return [PATHS.weights(PLAN.weights(run)) for run in runs]


use rule evaluate as evaluate_ensemble with:
    input:
        products,
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        vocabulary=f"{R}/data/{{dataset}}/vocabulary.json",
        features=growing_features,
        extractors=PATHS.extractors,
        model=members,
    output:
        captions=f"{ENSEMBLE}/captions.test.json",
        scores=f"{ENSEMBLE}/scores.test.parquet",
        metrics=f"{ENSEMBLE}/metrics.json",
    log:
        f"{LOGS}/evaluate/{ENSEMBLE_RUN}.log",
    params:
        spec=evaluate_spec,
        code=evaluation_code,
        model=lambda wildcards, input: [str(Path(file).parent) for file in input.model],
        out=subpath(output.metrics, parent=True),
