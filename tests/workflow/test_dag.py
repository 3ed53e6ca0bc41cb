"""What the workflow plans, and how it refuses: no job runs here."""

import json
import re
import subprocess
import sys

import pytest

from helpers.tiny_workspace import counts
from recap.plan import records

ONE_OF_EACH = {
    "corpus_with_images_boxes",
    "figure_tiny_alignment",
    "figure_tiny_clusters",
    "figure_tiny_gate_functions",
    "card",
    "vocabulary",
    "features",
    "used_images",
    "extractor",
    "statistics",
    "table",
    "samples",
    "summary",
    "report_page",
    "curves",
    "publish",
}
# The jobs of a feature store: which images, what makes it, and itself.
STORE = {"used_images": 1, "extractor": 1, "features": 1}


def test_equal_work_is_planned_once(workspace):
    planned = workspace.planned(config=("seeds=[1, 2, 3]",))
    assert {rule for rule, jobs in planned.items() if jobs == 1} == ONE_OF_EACH | {
        "track_init",
        "all",
    }
    rest = {rule: jobs for rule, jobs in planned.items() if jobs > 1}
    assert rest == {"subset": 3, "train_xe": 6, "train_scst": 3, "evaluate": 6}


def test_a_home_that_cannot_be_written_is_not_needed(workspace, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/proc/none")
    assert workspace.planned("data_all")["vocabulary"] == 1


@pytest.mark.parametrize(
    "file, old, new, sentence",
    [
        (
            "tables/tiny.yaml",
            "model: zodiac",
            "model: zodiak",
            "params: there is no 'zodiak' in models; did you mean 'zodiac'? (asked for by row "
            "'zodiac' of",
        ),
        (
            "recipes/short.yaml",
            "beam: 2",
            "split: val",
            "evaluation.split is 'val', but tables have test",
        ),
        (
            "tiny.yaml",
            "[tiny]",
            "[photos]",
            "inputs/captions.json: no such file or folder; datasets/tiny_photos.yaml",
        ),
    ],
)
def test_a_mistake_is_one_sentence_before_any_job(workspace, file, old, new, sentence):
    workspace.change(file, old, new)
    done = workspace.snakemake(config=("inputs=inputs",))
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "recap: " in line]
    # Missing outside files have a line each before the sentence that refuses.
    lines = [line for line in lines if "recap: missing: " not in line]
    assert len(lines) == 1
    assert sentence in lines[0]
    assert "Traceback" not in done.stderr
    assert not (workspace.folder / "results").exists()


def test_a_claim_of_a_row_that_is_nowhere_is_refused_before_any_job(workspace):
    check = {"table": "tiny", "row": "zodiak", "against": "transformer"}
    claims = [{"id": "mine.c1", "sentence": "s", "where": "1", "checks": [check]}]
    (workspace.folder / "params" / "mine").mkdir()
    (workspace.folder / "params" / "mine" / "claims.yaml").write_text(
        json.dumps({"claims": claims})
    )
    done = workspace.snakemake("--dry-run", config=("inputs=inputs",))
    (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("recap: ")]
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert all(
        part in sentence for part in ("params/mine/claims.yaml", "mine.c1", "'zodiak'", "'zodiac'")
    )


@pytest.mark.parametrize(
    "old, new, sentence",
    [
        (
            ", zodiac: tiny/zodiac",
            "",
            "setup 'tiny' has no row for system 'zodiac'; name it in `rows`",
        ),
        (
            "responses: simulated",
            "responses: people\ncontact: Ada",
            "inputs/people: no responses to study tiny",
        ),
    ],
)
def test_a_study_that_cannot_be_made_is_refused_before_any_job(workspace, old, new, sentence):
    workspace.change("studies/tiny.yaml", old, new)
    done = workspace.snakemake(config=("inputs=inputs", "studies=[tiny]"))
    assert done.returncode == 1 and sentence in done.stderr and "Traceback" not in done.stderr
    assert not (workspace.folder / "results").exists()


def test_a_study_without_responses_stops_at_its_forms_and_takes_those_of_people_when_they_are_there(
    workspace,
):
    workspace.change("studies/tiny.yaml", "responses: simulated", "responses: null\ncontact: Ada")
    planned = workspace.planned(config=("studies=[tiny]",))
    assert planned["study_sheets"] == 1 and not {
        "study_simulate",
        "study_import",
        "study_analysis",
    } & set(planned)
    workspace.change("studies/tiny.yaml", "responses: null", "responses: people")
    (workspace.folder / "inputs" / "people").mkdir(parents=True)
    (workspace.folder / "inputs" / "people" / "response-001.json").write_text("{}")
    planned = workspace.planned(config=("inputs=inputs", "studies=[tiny]"))
    assert (
        planned["study_import"] == planned["study_analysis"] == 1
        and "study_simulate" not in planned
    )


def test_outside_files_are_found_by_parameter(workspace):
    photos = workspace.folder / "elsewhere"
    (photos / "photos").mkdir(parents=True)
    (photos / "captions.json").write_text("{}")
    workspace.change("tiny.yaml", "[tiny]", "[photos]")
    planned = workspace.planned("features_all", config=(f"inputs={photos}",))
    assert planned == {"corpus": 1, "subset": 1, **STORE, "features_all": 1}
    # A hint for `recap caption`, which needs the same weights.
    assert records.noted_inputs(workspace.folder / "results" / "tiny") == photos


def inputs_of_row(workspace, row, *options):
    """Return the jobs that `recap train --row` has Snakemake run
    for its inputs, and what both print."""
    code = "import sys; from recap.cli import main, train\n"
    code += "whole = train._snakemake\n"
    code += "train._snakemake = lambda *words: whole(*words, '--dry-run') or 1\n"
    code += "main(sys.argv[1:])"
    words = [sys.executable, "-c", code, "train", "--row", row, *options]
    done = subprocess.run(words, cwd=workspace.folder, capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    return counts(done.stdout + done.stderr) if "Job stats" in done.stderr else {}, done.stderr


def test_a_row_needs_the_inputs_of_its_rule_and_nothing_of_other_rows(workspace):
    workspace.change(
        "tables/tiny.yaml",
        "features: tiny_grid, model: zodiac",
        "features: tiny_imported, model: zodiac",
    )
    workspace.change("tables/tiny.yaml", "{kind: clusters, count: 1}, ", "")  # of both rows
    data = {"corpus_with_images_boxes": 1, "vocabulary": 1, "subset": 1}
    planned, _ = inputs_of_row(workspace, "tiny/transformer", "--stage", "xe")
    assert planned == {**data, **STORE}
    planned, _ = inputs_of_row(workspace, "tiny/transformer")
    assert planned == {**data, **STORE, "train_xe": 1}
    planned, printed = inputs_of_row(workspace, "tiny/zodiac", "--inputs", "in")
    assert not planned
    assert (
        "recap: in/regions.tsv: no such file or folder; features/tiny_imported.yaml names it"
        in printed
    )
    (workspace.folder / "in").mkdir()
    (workspace.folder / "in" / "regions.tsv").write_text("")
    planned, _ = inputs_of_row(
        workspace, "tiny/zodiac", "--inputs", "in", "--profile", "params/tiny.yaml"
    )
    assert planned == {**data, **STORE}


def spec(workspace, job):
    """Return the spec that the command of a job is given."""
    return json.loads((workspace.folder / re.search(r"--spec (\S+)", job).group(1)).read_text())


def test_a_recipe_of_two_processes_asks_for_both_and_says_so_to_the_training_alone(
    workspace, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    workspace.change("recipes/other.yaml", "base: short", "base: short\nprocesses: 2")
    words = ("--printshellcmds", "--quiet", "host", "--cores", "2")
    said = workspace.snakemake(
        "train_all", "--dry-run", *words, config=("execution={device: cuda}",)
    ).stdout
    jobs = [job for job in said.split("rule ")[1:] if job.startswith("train_xe")]
    together = [job for job in jobs if "model=zodiac" in job]
    alone = [job for job in jobs if "model=transformer" in job]
    assert len(together) == len(alone) == 1
    assert (
        spec(workspace, together[0])["processes"] == 2
        and "gpu=2" in together[0]
        and "threads: 2" in together[0]
    )
    assert (
        "processes" not in spec(workspace, alone[0])
        and "gpu=1" in alone[0]
        and " threads: " not in alone[0]
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    done = workspace.snakemake("--dry-run", config=("execution={device: auto}",))
    assert (
        "recap: recipe 'other': 2 processes want a GPU each of 1; set `processes` lower"
        in done.stderr
    )


def test_how_jobs_are_computed_reaches_them_by_a_file_that_nothing_follows(workspace):
    words = ("train_all", "--printshellcmds", "--quiet", "host")
    before = workspace.dry_run(*words)
    file = workspace.folder / "work/tiny/execution/short.yaml"
    assert "device: cpu\nthreads: 1\n" in file.read_text()
    after = workspace.dry_run(*words, config=("execution={threads: 2, compile: true}",))
    assert "threads: 2\ntf32: true\ncompile: true\n" in file.read_text()
    commands = [
        sorted(line for line in said.splitlines() if " train --spec " in line)
        for said in (before, after)
    ]
    assert len(commands[0]) == 3 and commands[0] == commands[1]
    assert all("--spec work/tiny/specs/" in line and "{" not in line for line in commands[0])


def test_a_model_that_begins_with_a_language_model_has_it_trained_first(workspace):
    folder = workspace.folder / "params"
    (folder / "language_models").mkdir(exist_ok=True)
    sizes = {"d_model": 16, "heads": 2, "d_feed_forward": 24, "positions": 24}
    written = {"texts": ["texts/others.txt"], "layers": 2, **sizes}
    (folder / "language_models" / "others.yaml").write_text(json.dumps(written))
    model = {"kind": "visual_gpt", "decoder_layers": 2, "weights": "language_model:others", **sizes}
    (folder / "models" / "visual_gpt.yaml").write_text(json.dumps(model))
    workspace.change("tables/tiny.yaml", "model: zodiac", "model: visual_gpt")
    done = workspace.snakemake("--dry-run", config=("inputs=inputs",))
    assert (
        "inputs/texts/others.txt: no such file or folder; language_models/others.yaml names it"
        in done.stderr
    )
    (workspace.folder / "inputs" / "texts").mkdir(parents=True)
    (workspace.folder / "inputs" / "texts" / "others.txt").write_text("a dog")
    assert workspace.planned("train_all", config=("inputs=inputs",))["language_model"] == 1
    assert workspace.planned("features_all", config=("inputs=inputs",))["language_model"] == 1
