"""`snakemake --lint` without what is meant: prints the rest and ends with 1 if there is any.

python -m workflow.lint [CONFIGFILE]
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The beginning of a lint's title -> why it is meant.
MEANT = {
    "Specify a conda environment or container": "requirements/lock.txt pins one environment for all jobs",
    "Shell command directly uses variable": "they hold for a whole run; as params they would rerun finished jobs",
    "Mixed rules and functions in same snakefile": "a function is beside the only rules that use it",
    "Param ": "commands take folders that hold files of many rules",
}
WITHOUT_LOG = {"save_provenance"}  # runs no command


def remaining(report: str) -> list[str]:
    """Return the lints of a report that are not meant, each with the rule or file that it is about."""
    found, place = [], ""
    for line in report.splitlines():
        if heading := re.match(r"Lints for (?:rule|snakefile) (\S+)", line):
            place = heading[1]
        elif lint := re.match(r"    \* (.*):$", line):
            without_log = lint[1].startswith("No log directive") and place in WITHOUT_LOG
            if not without_log and not lint[1].startswith(tuple(MEANT)):
                found.append(f"{place}: {lint[1]}")
    return found


def main(configfile: str = "params/demo.yaml") -> None:
    """Lint the workflow of one profile."""
    command = [sys.executable, "-P", "-m", "snakemake", "--lint", "--snakefile", str(ROOT / "Snakefile")]
    done = subprocess.run([*command, "--configfile", configfile], capture_output=True, text=True)
    report = done.stdout + done.stderr
    # Snakemake ends with 1 for lints and for a workflow that it cannot read.
    if done.returncode and "Lints for " not in report:
        sys.exit(report)
    found = remaining(report)
    print("\n".join(found) or "workflow: nothing to correct")
    sys.exit(bool(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
