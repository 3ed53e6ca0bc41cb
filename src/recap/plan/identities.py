"""What decides whether a finished run reruns: specs of parameter files, and digests of the source of jobs.

`tests/golden/identities.json` holds them, so a change shows which runs it retrains before it retrains any.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from recap.core.hashing import value_hash
from recap.plan.source import code_digest
from recap.settings import Strict
from recap.settings.metrics import METRICS
from recap.settings.models import model_configs, model_source
from recap.settings.params import load_named, names

TRAINING, EVALUATION = "recap.training.job:train", "recap.evaluation.job:evaluate"
CAPTIONING = "recap.evaluation.job:caption_part"
# Imported by jobs, but not part of what they compute: pictures reach them as features.
PICTURES = ("recap.data.files.images",)
_OF_RUNS = ("datasets", "subsets", "features", "language_models", "models", "recipes")


def job_code(start: str, *kinds: str, metrics: Sequence[str] = ()) -> str:
    """Return the digest of a job that starts at a definition and runs some kinds of models, and metrics.

    A new architecture, or a changed one, leaves the jobs of all others as they are.
    """
    models = (target for kind in kinds for target in model_source(kind))
    return code_digest(start, *models, *map(METRICS.target, metrics), without=PICTURES)


def identities(params: Path) -> dict[str, Any]:
    """Return the identities of a folder of parameter files, as plain values.

    Returns:
        ``parameters``: section and name -> hash of what the file says, complete with defaults; ``source``: kind of
        model -> digest of what its training and its evaluation run; ``metrics``: metric -> digest of what it runs;
        ``neutral``: key -> the default with which no hash holds it.
    """
    return {
        "parameters": {
            f"{section}/{name}": value_hash(load_named(params, section, name).model_dump(mode="json"))
            for section in _OF_RUNS
            for name in names(params, section)
        },
        "source": {
            kind: {"training": job_code(TRAINING, kind), "evaluation": job_code(EVALUATION, kind)}
            for kind in sorted(model_configs())
        },
        "metrics": {name: code_digest(METRICS.target(name)) for name in sorted(METRICS.names())},
        "neutral": neutral_keys(),
    }


def neutral_keys() -> dict[str, Any]:
    """Return the default of every neutral key: ``Recipe.processes`` -> 1."""
    import_module("recap.settings.specs")  # its classes have such keys, too
    return {
        f"{kind.__name__}.{name}": field.get_default(call_default_factory=True)
        for kind in sorted(_below(Strict), key=lambda kind: kind.__name__)
        for name, field in kind.model_fields.items()
        if field.exclude_if is not None and name in kind.__annotations__
    }


def _below(kind: type[BaseModel]) -> set[type[BaseModel]]:
    """Return all classes that inherit from a class."""
    return {each for child in kind.__subclasses__() for each in (child, *_below(child))}
