"""The jobs of plans as plain JSON; run as a program, it writes the golden file."""

import json
from collections import Counter
from pathlib import Path

import yaml

from recap.plan.job import spec_values
from recap.plan.jobs import plan_jobs
from recap.plan.profiles import named_plan, unchecked_plan
from recap.settings.params import profiles

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "jobs.json"


def tiny_jobs():
    """Return every job of the workflow tests' profile; digests of source move with the source."""
    folder = ROOT / "tests" / "workflow" / "params"
    config = yaml.safe_load((folder / "tiny.yaml").read_text())
    jobs = []
    for job in plan_jobs(unchecked_plan({**config, "params_dir": str(folder)})):
        jobs.append(
            {
                "rule": job.rule,
                "wildcards": job.wildcards,
                "inputs": job.inputs,
                "outputs": job.outputs,
                "spec": spec_values(job.spec),
                "params": job.params,
                "threads": job.threads,
            }
        )
    return json.loads(json.dumps(jobs))


def counts():
    """Return how many jobs of each rule every shipped profile has, at each of its scales."""
    found = {}
    params = ROOT / "params"
    for file in profiles(params):
        name = file.relative_to(params).as_posix()
        for scale in yaml.safe_load(file.read_text()).get("scales") or [None]:
            plan = named_plan(params, str(file), scale=scale)
            rules = Counter(job.rule for job in plan_jobs(plan))
            found[f"{name} {scale}" if scale else name] = dict(sorted(rules.items()))
    return found


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({"tiny": tiny_jobs(), "counts": counts()}, indent=1) + "\n")
