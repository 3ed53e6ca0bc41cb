"""What `snakemake --lint` finds is shown, but for what is meant."""

import re

from workflow.lint import remaining

from helpers.tiny_workspace import ROOT

REPORT = """Lints for snakefile rules/train.smk:
    * Mixed rules and functions in same snakefile.:
      Small functions.

Lints for rule train_xe (line 40, rules/train.smk):
    * Shell command directly uses variable RECAP from outside of the rule:
      It is recommended.
    * No log directive defined:
      Without a log directive, all output will be printed to the terminal.

Lints for rule save_provenance (line 75, Snakefile):
    * No log directive defined:
"""


def test_a_rule_without_a_log_is_found_and_what_is_meant_is_not():
    assert remaining(REPORT) == ["train_xe: No log directive defined"]


def test_every_rule_that_runs_a_command_writes_its_log():
    rules = "".join(path.read_text() for path in sorted((ROOT / "workflow" / "rules").glob("*.smk")))
    commands = re.findall(r'"\{(?:DETECTOR_)?RECAP\}(.*)', rules)
    assert len(commands) > 15
    assert all(command.startswith(" --log-file {log:q}") for command in commands)
