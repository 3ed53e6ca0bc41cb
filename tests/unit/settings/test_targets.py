"""Settings name modules in strings, which no import contract sees:
each names something that is there."""

import pytest

from recap.settings.datasets import DATASETS
from recap.settings.features import FEATURES, FORMATS
from recap.settings.figures import FIGURES
from recap.settings.kinds import resolve
from recap.settings.metrics import METRICS
from recap.settings.models import EXPLAINED, MODELS, RELEASED

KEYS = ("reader", "extractor", "encoder", "implementation")  # of classes


def targets():
    """Every ``module:object`` of a registry, and of a class of settings."""
    for registry in (METRICS, FORMATS, RELEASED, EXPLAINED, DATASETS, FEATURES, MODELS, FIGURES):
        for name in registry.names():
            # Of the package alone: another test may have registered its own.
            if registry.target(name).startswith("recap."):
                yield registry.target(name)
                yield from filter(
                    None, (getattr(registry.classes().get(name), key, None) for key in KEYS)
                )


TARGETS = sorted(set(targets()))


def test_all_registries_are_looked_at():
    assert {target.split(".")[1] for target in TARGETS} >= {
        "data",
        "evaluation",
        "features",
        "metrics",
    }
    assert len(TARGETS) > 60


@pytest.mark.parametrize("target", TARGETS)
def test_a_name_of_a_module_and_an_object_is_that_of_something(target):
    assert resolve(target) is not None
