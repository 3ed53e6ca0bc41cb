"""What COCO's caption server is sent: captions of val2014 and of test2014, whose references it alone has."""

from recap.plan.jobs import captioning_code
from recap.plan.run_spec import evaluation_spec, execution
from recap.plan.source import code_digest
from recap.plan.submissions import TEST, VAL, results_name

SENT = {each.run.path: each for each in PLAN.submissions()}
SUBMISSIONS = {each.algorithm: each for each in PLAN.submissions()}
CAPTIONS = f"{R}/scores/{{run}}/captions.{{part}}.json"
SUBMISSION = f"{PATHS.submission('{algorithm}')}/{{algorithm}}.zip"


def server_files():
    """Return what the server is sent of all rows."""
    return [file for each in SUBMISSIONS.values() for file in PATHS.submission_files(each)]


def sent_run(wildcards):
    """Return the scored run whose captions are sent."""
    return SENT[wildcards.run].run


def shown_run(wildcards):
    """Return the run with data set and features of the pictures that it captions."""
    return SENT[wildcards.run].shown(wildcards.part)


def sent_weights(wildcards):
    """Return the weights of a run, or those of an ensemble's members."""
    return [PATHS.weights(PLAN.weights(run)) for run in sent_run(wildcards).parts()]


def partly(dataset):
    """Return the option that allows a part of COCO, where a data set is one."""
    return "--partial" if PLAN.spec("datasets", dataset).get("partial") else ""


def partly_sent(wildcards):
    """Return the same for a submission."""
    submission = SUBMISSIONS[wildcards.algorithm]
    return partly(submission.run.dataset) or partly(submission.test.dataset)


rule server_captions:
    input:
        corpus=lambda wildcards: PATHS.corpus(shown_run(wildcards)),
        vocabulary=lambda wildcards: PATHS.vocabulary(sent_run(wildcards)),
        features=lambda wildcards: may_grow(PATHS.features(shown_run(wildcards))),
        extractors=lambda wildcards: PATHS.extractors(shown_run(wildcards)),
        model=sent_weights,
    output:
        CAPTIONS,
    log:
        f"{LOGS}/server_captions/{{run}}/{{part}}.log",
    wildcard_constraints:
        run=one_of(SENT),
        part=one_of([VAL, TEST]),
    threads: lambda wildcards: execution(PLAN, sent_run(wildcards).recipe).threads
    resources:
        **limits(lambda wildcards: NEEDS.submission(SENT[wildcards.run])),
        gpu=GPU,
    params:
        spec=lambda wildcards: as_json(evaluation_spec(PLAN, sent_run(wildcards).recipe).model_dump(mode="json")),
        code=lambda wildcards: captioning_code(PLAN, sent_run(wildcards).model),
        execution=lambda wildcards: f"{EXECUTION}/{sent_run(wildcards).recipe}.yaml",
        partial=lambda wildcards: partly(shown_run(wildcards).dataset),
        model=lambda wildcards, input: [str(Path(file).parent) for file in input.model],
    shell:
        "{RECAP} --log-file {log:q}"
        " export captions --spec {params.spec.file:q} --execution {params.execution:q} --part {wildcards.part:q}"
        " {params.partial} --corpus {input.corpus:q} --vocabulary {input.vocabulary:q} --features {input.features:q}"
        " --model {params.model:q} --out {output:q}"


rule submission:
    input:
        val=lambda wildcards: PATHS.captions_of(SUBMISSIONS[wildcards.algorithm].run, VAL),
        test=lambda wildcards: PATHS.captions_of(SUBMISSIONS[wildcards.algorithm].run, TEST),
    output:
        zip=SUBMISSION,
        files=[f"{PATHS.submission('{algorithm}')}/{results_name(part, '{algorithm}')}" for part in (VAL, TEST)],
    log:
        f"{LOGS}/submission/{{algorithm}}.log",
    wildcard_constraints:
        algorithm=one_of(SUBMISSIONS),
    params:
        code=code_digest("recap.share.coco_server:write_submission"),
        partial=partly_sent,
    shell:
        "{RECAP} --log-file {log:q}"
        " export coco-server --val {input.val:q} --test {input.test:q} --algorithm {wildcards.algorithm:q}"
        " {params.partial} --out {output.zip:q} > /dev/null"
