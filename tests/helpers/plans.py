"""Plans of tables in a copy of the shipped parameters that a test may change."""

from pathlib import Path

import yaml

from recap.plan.run_plan import RunPlan
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
    return RunPlan(Profile(name="p", tables=list(tables), scale=scale, **changes), params)
