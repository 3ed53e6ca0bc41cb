"""Models are built without memory before the first job."""

import subprocess
import sys

import pytest
import yaml

from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.models.check import check_models
from recap.plan.resolve import resolve
from recap.settings import Profile

pytestmark = pytest.mark.seconds


def planned(tmp_path, **model):
    row = {"dataset": "d", "features": "f", "model": "m", "recipe": "r", "stage": "xe"}
    files = {
        "datasets/d": {"kind": "scenes"},
        "subsets/full": {"fraction": 1.0, "unit": "pair"},
        "features/f": {"kind": "grid", "backbone": "resnet18", "weights": "random"},
        "models/m": {"kind": "zodiac", "d_model": 32, "heads": 4, **model},
        "recipes/r": {"xe": {"epochs": 1, "learning_rate": 0.1}},
        "tables/t": {
            "title": "t",
            "columns": ["CIDEr"],
            "baseline": "a",
            "rows": [{"id": "a", "label": "A", **row}],
        },
    }
    for name, values in files.items():
        path = tmp_path / "params" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(values))
    return resolve(Profile(name="p", tables=["t"], seeds=[1]), tmp_path / "params")


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ({"heads": 5}, ["d_model 32", "5 heads"]),
        (
            {"d_model": 30, "heads": 2, "kind": "transformer", "visual_positions": "grid"},
            ["visual_positions: ", "d_model", "4", "30"],
        ),
    ],
)
def test_what_a_builder_refuses_is_refused_with_file_and_key(tmp_path, model, named):
    with refused(ConfigError, "params/models/m.yaml", *named, "row 'a' of table 't'"):
        planned(tmp_path, **model)


def test_a_known_model_is_not_built_again(tmp_path, monkeypatch):
    known = tmp_path / "work" / "known.json"
    check_models(planned(tmp_path), known)
    monkeypatch.setattr(
        "recap.models.base.build_model", lambda *_, **__: pytest.fail("built again")
    )
    check_models(planned(tmp_path), known)
    with pytest.raises(pytest.fail.Exception, match="built again"):
        check_models(planned(tmp_path, d_model=64), known)


def test_models_of_any_size_take_no_memory(tmp_path):
    check_models(planned(tmp_path, d_model=2**14, heads=8, d_feed_forward=2**14))


def test_a_workflow_imports_torch_for_changed_models_alone():
    code = "import sys, recap.models.check; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
