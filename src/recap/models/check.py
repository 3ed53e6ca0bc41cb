"""Whether the models of a profile can be built, found out before the first job."""

from __future__ import annotations

from pathlib import Path

from recap.core.errors import ConfigError, RecapError, first_line
from recap.core.files.json_files import read_json, write_json
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.plan.identities import job_code
from recap.plan.run_plan import RunPlan
from recap.settings import ModelConfig

# Of the right order; what is built on the meta device takes no memory.
FEATURE_SIZE, VOCABULARY_SIZE = 2048, 10_000


def check_models(plan: RunPlan, known: Path | None = None) -> None:
    """Build every model of a plan without memory.

    What was built before is kept in a JSON file, `known`, so that torch is imported for changed models alone.

    Raises:
        ConfigError: a builder refuses; the sentence names the file.
    """
    seen = _known(known) if known is not None and known.exists() else set()
    named = {name: plan.get("models", name) for name in sorted({run.model for run in plan.scored()})}
    hashes = {
        name: value_hash([config.model_dump(mode="json"), job_code("recap.models.registry", config.kind)])
        for name, config in named.items()
    }
    new = [name for name in named if hashes[name] not in seen]
    for name in new:
        _build(named[name], plan.source("models", name))
    if new and known is not None:
        write_json(known, sorted(hashes.values()))


def _known(file: Path) -> set[str]:
    try:
        return set(read_json(file, list[str]))
    except RecapError as error:
        log.info(f"{error} (done now)")
        return set()


def _build(config: ModelConfig, source: str) -> None:
    import torch

    from recap.models.images import InputSpec
    from recap.models.registry import build_model

    try:
        with torch.device("meta"):
            build_model(config, InputSpec(dict.fromkeys(config.example_streams, FEATURE_SIZE), VOCABULARY_SIZE))
    except RecapError as error:
        raise ConfigError(f"{source}: {error}") from error
    except (RuntimeError, TypeError, ArithmeticError) as error:
        raise ConfigError(f"{source}: {first_line(error)}") from error
