"""The human studies of a profile: their settings, and the runs whose captions they show."""

from __future__ import annotations

from recap.core.errors import ConfigError
from recap.plan.run import Run, row_runs
from recap.plan.run_plan import RunPlan, file_name
from recap.settings import Study
from recap.settings.params import load_named


def planned_studies(plan: RunPlan) -> dict[str, Study]:
    """Return the studies of a plan's profile by the name of their files."""
    found: dict[str, Study] = {}
    for name in plan.profile.studies:
        try:
            study: Study = load_named(plan.params, "studies", name)
            _check(plan, study)
        except ConfigError as error:
            raise type(error)(f"{error} (asked for by study {name!r} of profile {plan.profile.name!r})") from error
        if file_name(name) in found:
            raise ConfigError(f"study {name!r}: another study has files of the same names; rename one")
        found[file_name(name)] = study
    return found


def study_runs(plan: RunPlan, study: Study) -> dict[tuple[str, str], Run]:
    """Return the run whose captions a study shows, its row's first seed, by setup and system."""
    found = {}
    for setup in study.setups:
        for system, row_id in setup.rows.items():
            table_id, row = plan.row(row_id)
            found[setup.id, system] = row_runs(row, plan.seeds[table_id])[0]
    return found


def study_scale(plan: RunPlan, study: Study) -> str:
    """Return the sentences about how the models of a study were trained."""
    rows = [row for setup in study.setups for row in setup.rows.values()]
    return " ".join(dict.fromkeys(plan.tables[plan.row(row)[0]].scale for row in rows))


def _check(plan: RunPlan, study: Study) -> None:
    """Refuse a study that the workflow cannot make."""
    study.check_contact()
    for setup in study.setups:
        for system in study.systems:
            if not system.reference and system.id not in setup.rows:
                raise ConfigError(f"setup {setup.id!r} has no row for system {system.id!r}; name it in `rows`")
    datasets = sorted({run.dataset for run in study_runs(plan, study).values()})
    if len(datasets) != 1:
        raise ConfigError(f"its rows are of {' and '.join(datasets) or 'no data set'}; raters see pictures of one")
