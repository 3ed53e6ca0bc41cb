"""What a row of a table comes to: every setting of its runs, each with its source."""

from __future__ import annotations

from typing import Any

from recap.plan.run import Run
from recap.plan.run_plan import RunPlan
from recap.plan.variants import Variant
from recap.settings import ModelConfig, Row
from recap.settings.models import LANGUAGE_MODEL
from recap.settings.params import flat

Sourced = dict[str, tuple[Any, str]]  # key -> value and source


def data_parts(plan: RunPlan, run: Row | Run, model: ModelConfig) -> list[tuple[str, str]]:
    """Return section and name of all parameter files that say what a run's inputs are.

    Args:
        plan: has the run.
        run: names data set, subset and features.
        model: its settings, which may name a language model to begin with.
    """
    features = plan.feature_names(run.features)
    cells = [plan.get("features", name).cells_from() for name in features]
    parts = [("datasets", run.dataset), ("subsets", run.subset)]
    parts += [("features", name) for name in dict.fromkeys([*features, *filter(None, cells)])]
    weights = model.pretrained_weights() or ""
    if weights.startswith(LANGUAGE_MODEL):
        parts.append(("language_models", weights.removeprefix(LANGUAGE_MODEL)))
    return parts


def row_settings(plan: RunPlan, row_id: str) -> dict[str, Sourced]:
    """Return the settings of a row (``mine/t3/wide``), first its own ones as ``row``, then those of each file."""
    _, row = plan.row(row_id)
    parts = data_parts(plan, row, plan.get("models", row.model))
    parts += [("models", row.model), ("recipes", row.recipe)]
    found = {"row": _of_the_row_itself(plan, row_id)}
    return found | {f"{section}/{name}": plan.resolve_with_sources(section, name) for section, name in parts}


def _of_the_row_itself(plan: RunPlan, row_id: str) -> Sourced:
    """Return stage, seeds, baseline and printed values of a row, the doubts about them and the note."""
    table_id, row = plan.row(row_id)
    file = Variant("tables", table_id).with_sources(plan.params)
    (said,) = (each for each in plan.get("tables", table_id).rows if each.id == row.id)
    source, default = f"{file['rows'][1]}: row {row.id!r}", f"default ({type(said).__module__})"

    def own(key: str) -> str:
        return source if key in said.model_fields_set else default

    printed = {key: getattr(row, key) for key in ("printed", "printed_sd", "printed_p", "doubt", "note")}
    return {
        "stage": (row.stage, own("stage") if said.stage else file["defaults.stage"][1]),
        "seeds": (plan.seeds[table_id], plan.source_of_seeds(table_id) or file["seeds"][1]),
        "ensemble": (row.ensemble, own("ensemble")),
        "baseline": (file["baseline"][0], file["baseline"][1]),
        **{key: (value, own(key.partition(".")[0])) for key, value in flat(printed).items()},
    }
