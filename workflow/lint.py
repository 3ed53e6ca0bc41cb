"""`snakemake --lint` without what is meant: prints the rest and ends with 1 if there is any.

python -m workflow.lint [CONFIGFILE]
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# The beginning of a lint's title -> why it is meant.
MEANT = {
    "Specify a conda environment or container": "requirements/lock.txt pins one environment for all jobs",
    "Shell command directly uses variable": "they hold for a whole run; as params they would rerun finished jobs",
    "Mixed rules and functions in same snakefile": "a function stands beside the only rules that use it",
    "Param ": "commands take folders that hold files of many rules",
}
WITHOUT_LOG = {"save_provenance"}  # runs no command


def remaining(report: dict[str, Any]) -> Iterator[str]:
    """Yield the lints of a report that are not meant, each with the place it is about."""
    for entry in [*report.get("snakefiles", []), *report.get("rules", [])]:
        place = entry["for"]
        for lint in entry["lints"]:
            if lint["title"].startswith(tuple(MEANT)):
                continue
            if lint["title"].startswith("No log directive") and place.get("rule") in WITHOUT_LOG:
                continue
            yield f"{place.get('rule') or place.get('snakefile')}: {lint['title']}"


def main(configfile: str = "params/demo.yaml") -> None:
    """Lint the workflow of one profile."""
    command = [sys.executable, "-m", "snakemake", "--lint", "json", "--snakefile", str(ROOT / "Snakefile")]
    done = subprocess.run([*command, "--configfile", configfile], capture_output=True, text=True)
    try:
        report = json.loads(done.stdout or "{}")
    except ValueError:
        sys.exit(f"{done.stdout}{done.stderr}")
    if done.returncode and not report:
        sys.exit(done.stderr)
    found = list(remaining(report))
    print("\n".join(found) or "workflow: nothing to correct")
    sys.exit(bool(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
