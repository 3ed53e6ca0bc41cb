"""The verdicts on the claims of the papers whose tables a profile makes."""

from __future__ import annotations

from pathlib import Path

from recap.plan.jobs import planned_claims
from recap.plan.paths import Paths
from recap.plan.run_plan import RunPlan
from recap.reporting.claims import claims_content
from recap.reporting.content import Content
from recap.statistics.claims import judge_claims


def judged_claims(plan: RunPlan) -> list[Content]:
    """Return the table of verdicts by the runs that are finished; none where the profile makes no paper's tables."""
    asked = planned_claims(plan)
    if asked is None:
        return []
    verdicts = judge_claims(asked, Path(Paths(plan).results) / "scores")
    return [claims_content(verdicts, asked.scale)]
