"""Plans of tables in a copy of the shipped parameters that a test may change."""

from datetime import date
from pathlib import Path

import yaml

from recap.core.documents import write_json
from recap.plan.costs import StepCost
from recap.plan.jobs import plan_jobs
from recap.plan.outside import missing_files
from recap.plan.resolve import resolve
from recap.settings import Profile

PARAMS = Path(__file__).resolve().parents[2] / "params"


def edited(params, file, **changes):
    """Change top-level keys of a file, which need not be there."""
    path = params / file
    path.parent.mkdir(parents=True, exist_ok=True)
    values = yaml.safe_load(path.read_text()) if path.exists() else {}
    path.write_text(yaml.safe_dump({**values, **changes}))


def planned(params, scale="scenes", tables=("xlan/t3",), **changes):
    """Plan tables at a scale."""
    return resolve(Profile(name="p", tables=list(tables), scale=scale, **changes), params)


def missing(plan):
    """Return the outside files that a plan still needs."""
    return missing_files(plan, plan_jobs(plan))


def measured_row(shape, **changes):
    """Return a step as `recap measure` would have measured it:
    half a second and two billion operations an image."""
    values = {
        "kind": shape.model.kind,
        "work": shape.work,
        "sizes": shape.sizes,
        "parameters": 1_000_000,
    }
    values |= {
        "vectors": shape.inputs.vectors,
        "tokens": shape.tokens,
        "images": 4,
        "gflop": 2.0,
        "saved_mb": 3.0,
    }
    values |= {"seconds": 0.5, "device": "cpu", "machine": "a core", "torch": "2.13.0"}
    return StepCost(**{**values, "measured_on": date(2026, 11, 24), **changes})


def measured_file(folder, rows, **changes):
    """Write a file of `recap measure` into a folder."""
    steps = [{"cost": each.model_dump(mode="json"), "compiled": False} for each in rows]
    write_json(
        folder / "measured.json", {"tiny": False, "machine": "a core", "steps": steps, **changes}
    )
    return folder / "measured.json"
