"""Captions of the test split by beam search, their scores, and what COCO's server is sent."""

from recap.core.errors import RecapError
from recap.core.log import log
from recap.data.files.download import Transfer
from recap.metrics.spice import SPICE_MODELS, install_spice_models, spice_models_missing
from recap.plan.jobs import released_code
from recap.plan.paths import SCORE_FILES
from recap.plan.run import TEST, VAL, results_name
from recap.plan.source import CAPTIONING, EVALUATION
from recap.settings.metrics import METRICS

from workflow.plan import due_jobs

ENSEMBLE = f"{RUN.removesuffix('seed-{seed}')}ensemble-{{seeds}}"
# By the folders of their scores: files of captions, and released weights, that rows of tables name.
SCORED_FILES = {each.path: each for each in PLAN.scored_files() if each.captions}
RELEASED = {each.path: each for each in PLAN.scored_files() if each.released}
SENT = {each.run.path: each for each in PLAN.submissions()}
SUBMISSIONS = {each.algorithm: each for each in PLAN.submissions()}
SUBMISSION = f"{REPORTS}/server/{{algorithm}}"
SERVER_CAPTIONS = f"{R}/scores/{{run}}/captions.{{part}}.json"


def install_spice():
    """Fetch SPICE's models where the profile allows it and an evaluation needs them."""
    # They belong to the environment, so no rule makes them.
    # That SPICE is not run is said now and not after weeks.
    due = [job for job in due_jobs(workflow) if job.rule in ("evaluate", "evaluate_ensemble")]
    wanted = any("SPICE" in PLAN.recipe(job.wildcards["recipe"]).evaluation.metrics for job in due)
    if wanted and PROFILE.fetch and set(SPICE_MODELS) <= LISTED.keys() and spice_models_missing():
        try:
            install_spice_models(LISTED, into=Path(PROFILE.inputs), transfer=Transfer())
        except RecapError as error:
            log.error(f"recap: SPICE will not run: {error}")


def score_files(run):
    return {name.partition(".")[0]: f"{R}/scores/{run}/{name}" for name in SCORE_FILES}


def metric_products(dataset, metrics):
    """Return what metrics read beside the corpus."""
    return [
        PATHS.of_dataset(dataset, name)
        for metric in metrics
        for name in METRICS.get(metric).products
    ]


def as_evaluated(recipe):
    return as_json(evaluation_spec(PLAN, recipe).model_dump(mode="json"))


def kind_of(model):
    return PLAN.get("models", model).kind


def model_files(run):
    """Return the weights of a run, or those of an ensemble's members."""
    return [PATHS.weights(PLAN.weights(part)) for part in run.parts()]


def scored_run(w):
    """Return the run that is scored, of one seed or of an ensemble of several."""
    seeds = [int(seed) for seed in (w.get("seeds") or w.seed).split("+")]
    return run_named(w, seed=seeds[0], members=tuple(seeds) if w.get("seeds") else ())


# What decides the scores of a run, beside its files.
EVALUATED = {
    "spec": lambda w: as_evaluated(w.recipe),
    "code": lambda w: job_code(
        EVALUATION, kind_of(w.model), metrics=PLAN.recipe(w.recipe).evaluation.metrics
    ),
}


def partly(*runs):
    """Return the option that allows a part of COCO, where a data set is one."""
    return (
        "--partial"
        if any(PLAN.spec("datasets", run.dataset).get("partial") for run in runs)
        else ""
    )


rule evaluate:
    input:
        lambda w: metric_products(w.dataset, PLAN.recipe(w.recipe).evaluation.metrics),
        corpus=CORPUS,
        vocabulary=VOCABULARY,
        features=lambda w: may_grow(
            PATHS.features(w), PATHS.scores(scored_run(w))[0], EVALUATED.values(), w
        ),
        extractors=lambda w: PATHS.features(w, EXTRACTOR),
        model=lambda w: model_files(scored_run(w)),
    output:
        **score_files(f"{RUN}/{{stage}}"),
    log:
        f"{LOGS}/evaluate/{RUN}/{{stage}}.log",
    threads: lambda w: execution(PLAN, w.recipe).threads
    resources:
        gpu=GPU,
    params:
        **EVALUATED,
        model=folders("model"),
        out=subpath(output.metrics, parent=True),
    shell:
        "{RECAP} --log-file {log:q} evaluate --spec {params.spec.file:q}"
        " --execution {EXECUTION:q}/{wildcards.recipe:q}.yaml --corpus {input.corpus:q}"
        " --vocabulary {input.vocabulary:q} --features {input.features:q} --model {params.model:q}"
        " --out {params.out:q}"


use rule evaluate as evaluate_ensemble with:
    output:
        **score_files(f"{ENSEMBLE}/{{stage}}"),
    log:
        f"{LOGS}/evaluate/{ENSEMBLE}/{{stage}}.log",


rule score_file:
    input:
        lambda w: metric_products(SCORED_FILES[w.outside].dataset, SCORED_FILES[w.outside].metrics),
        captions=lambda w: PATHS.outside(SCORED_FILES[w.outside].captions),
        corpus=lambda w: PATHS.of_dataset(SCORED_FILES[w.outside], "corpus.parquet"),
    output:
        **score_files("{outside}"),
    log:
        f"{LOGS}/score_file/{{outside}}.log",
    wildcard_constraints:
        outside=one_of(SCORED_FILES),
    params:
        metrics=lambda w: list(SCORED_FILES[w.outside].metrics),
        dataset=lambda w: SCORED_FILES[w.outside].dataset,
        code=lambda w: job_code(
            "recap.evaluation.caption_file:score_file", metrics=SCORED_FILES[w.outside].metrics
        ),
        out=subpath(output.metrics, parent=True),
    shell:
        "{RECAP} --log-file {log:q} score {input.captions:q} --dataset {params.dataset:q}"
        " --corpus {input.corpus:q} --metrics {params.metrics:q} --out {params.out:q} > /dev/null"


rule score_released:
    input:
        lambda w: metric_products(RELEASED[w.outside].dataset, RELEASED[w.outside].metrics),
        lambda w: [PATHS.outside(file) for file in RELEASED[w.outside].files],
        corpus=lambda w: PATHS.of_dataset(RELEASED[w.outside], "corpus.parquet"),
        features=lambda w: may_grow(PATHS.features(RELEASED[w.outside])),
        extractors=lambda w: PATHS.features(RELEASED[w.outside], EXTRACTOR),
    output:
        **score_files("{outside}"),
    log:
        f"{LOGS}/score_released/{{outside}}.log",
    wildcard_constraints:
        outside=one_of(RELEASED),
    threads: lambda w: execution(PLAN, RELEASED[w.outside].recipe).threads
    resources:
        gpu=GPU,
    params:
        spec=lambda w: as_evaluated(RELEASED[w.outside].recipe),
        code=lambda w: released_code(
            RELEASED[w.outside], Path(PATHS.outside(RELEASED[w.outside].released))
        ),
        recipe=lambda w: RELEASED[w.outside].recipe,
        model=lambda w: PATHS.outside(RELEASED[w.outside].released),
        out=subpath(output.metrics, parent=True),
    shell:
        "{RECAP} --log-file {log:q} evaluate --spec {params.spec.file:q}"
        " --execution {EXECUTION:q}/{params.recipe:q}.yaml --corpus {input.corpus:q}"
        " --vocabulary {params.model:q}/vocabulary.json --features {input.features:q}"
        " --model {params.model:q} --out {params.out:q}"


rule server_captions:
    input:
        corpus=lambda w: PATHS.of_dataset(SENT[w.run].shown(w.part), "corpus.parquet"),
        vocabulary=lambda w: PATHS.of_dataset(SENT[w.run].run, "vocabulary.json"),
        features=lambda w: may_grow(PATHS.features(SENT[w.run].shown(w.part))),
        extractors=lambda w: PATHS.features(SENT[w.run].shown(w.part), EXTRACTOR),
        model=lambda w: model_files(SENT[w.run].run),
    output:
        SERVER_CAPTIONS,
    log:
        f"{LOGS}/server_captions/{{run}}/{{part}}.log",
    wildcard_constraints:
        run=one_of(SENT),
        part=one_of([VAL, TEST]),
    threads: lambda w: execution(PLAN, SENT[w.run].run.recipe).threads
    resources:
        gpu=GPU,
    params:
        spec=lambda w: as_evaluated(SENT[w.run].run.recipe),
        code=lambda w: job_code(CAPTIONING, kind_of(SENT[w.run].run.model)),
        execution=lambda w: f"{EXECUTION}/{SENT[w.run].run.recipe}.yaml",
        partial=lambda w: partly(SENT[w.run].shown(w.part)),
        model=folders("model"),
    shell:
        "{RECAP} --log-file {log:q} export captions --spec {params.spec.file:q}"
        " --execution {params.execution:q} --part {wildcards.part:q} {params.partial}"
        " --corpus {input.corpus:q} --vocabulary {input.vocabulary:q} --features {input.features:q}"
        " --model {params.model:q} --out {output:q}"


rule submission:
    input:
        val=lambda w: SERVER_CAPTIONS.format(run=SUBMISSIONS[w.algorithm].run.path, part=VAL),
        test=lambda w: SERVER_CAPTIONS.format(run=SUBMISSIONS[w.algorithm].run.path, part=TEST),
    output:
        zip=f"{SUBMISSION}/{{algorithm}}.zip",
        files=[f"{SUBMISSION}/{results_name(part, '{algorithm}')}" for part in (VAL, TEST)],
    log:
        f"{LOGS}/submission/{{algorithm}}.log",
    wildcard_constraints:
        algorithm=one_of(SUBMISSIONS),
    params:
        code=code_digest("recap.share.coco_server:write_submission"),
        partial=lambda w: partly(SUBMISSIONS[w.algorithm].run, SUBMISSIONS[w.algorithm].test),
    shell:
        "{RECAP} --log-file {log:q} export coco-server --val {input.val:q} --test {input.test:q}"
        " --algorithm {wildcards.algorithm:q} {params.partial} --out {output.zip:q} > /dev/null"
