"""The one report of a profile: `recap report make` makes it at any other time, too."""

from recap.plan.source import code_digest

REPORT_FILE = f"{REPORTS}/report.html"


def report_profile(wildcards):
    """Return the profile as the command that makes its report reads it, without how jobs are computed here."""
    here = {"execution", "inputs", "fetch", "keep_archives"}
    return as_json(PROFILE.model_dump(mode="json", exclude=here))


# Not its PDF: that is made where LaTeX is installed, and a machine without it has nothing to do.
rule report_page:
    input:
        reader_files(),
        expand(f"{R}/statistics/{{table}}.json", table=TABLE_IDS),
        [file for file in study_files() if Path(file).name == "table.html"],
        [f"{R}/runs/{run.path}/training.json" for run in TRAINED],
    output:
        REPORT_FILE,
    log:
        f"{LOGS}/report_page.log",
    params:
        profile=report_profile,
        code=code_digest("recap.profile_report.make"),
    shell:
        "{RECAP} --log-file {log:q}"
        " report make {params.profile.file:q} --params {PLAN.params:q} --inputs {PROFILE.inputs:q} > /dev/null"
