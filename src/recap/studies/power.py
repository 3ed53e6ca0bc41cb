"""Power before a study: how large a difference its votes or answers can show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from recap.core.errors import ConfigError
from recap.settings import Study

ALPHA, POWER = 0.05, 0.8


def study_power(study: Study, shares: Sequence[float] = ()) -> dict[str, Any]:
    """Return the power of a study's chi-square test per setup or question, at `ALPHA`.

    The answers are counted as independent, as the test does. With ``shares`` (preference: expected share of the votes
    of each system; questions: expected share of no of each model) the power and the answers that give `POWER`;
    always ``smallest_effect``, Cohen's w that is found with `POWER`.
    """
    from statsmodels.stats.power import GofChisquarePower

    models = [system for system in study.systems if not (system.reference and study.kind == "questions")]
    per_system = study.images * study.raters
    preference = study.kind == "preference"
    answers = per_system if preference else per_system * len(models)
    # Of questions, a table of models x (no, yes) has as many degrees of freedom as a goodness of fit of as many bins.
    test = GofChisquarePower()
    made = {"nobs": answers, "n_bins": len(models), "alpha": ALPHA}
    found: dict[str, Any] = {
        "answers": answers,
        "smallest_effect": float(test.solve_power(effect_size=None, power=POWER, **made)),
    }
    if shares:
        effect = expected_effect(study, list(shares), len(models))
        found["effect"] = effect
        found["power"] = float(test.power(effect_size=effect, **made)) if effect else ALPHA
        needed = test.solve_power(effect_size=effect, power=POWER, n_bins=len(models), alpha=ALPHA) if effect else None
        found["answers_needed"] = None if needed is None else float(needed)
    return found


def expected_effect(study: Study, shares: list[float], models: int) -> float:
    """Return Cohen's w of expected shares: sqrt of the sum of (p1 - p0)^2 / p0 over the cells of the table."""
    if len(shares) != models or any(not 0 <= share <= 1 for share in shares):
        raise ConfigError(f"--shares: give {models} shares from 0 to 1, one for each system")
    if study.kind == "preference":
        if abs(sum(shares) - 1) > 0.005:
            raise ConfigError(f"--shares: the votes of all systems sum to {sum(shares):g}, not to 1")
        return float(sum((share - 1 / models) ** 2 * models for share in shares) ** 0.5)
    mean = sum(shares) / models
    if mean in (0, 1):
        return 0.0
    return float(sum((share - mean) ** 2 / (mean * (1 - mean)) for share in shares) / models) ** 0.5


def power_text(study: Study, shares: Sequence[float]) -> str:
    """Return what `study_power` found as sentences, one per line."""
    found = study_power(study, shares)
    where = "per setup" if study.kind == "preference" else "per question"
    lines = [
        f"{found['answers']} answers {where}, counted as independent; alpha {ALPHA:g}, Pearson's chi-square.",
        f"Smallest effect found with power {POWER:g}: w = {found['smallest_effect']:.3f}.",
    ]
    if shares:
        listed = ", ".join(f"{share:g}" for share in shares)
        lines.append(f"Shares {listed}: w = {found['effect']:.3f}, power {found['power']:.3f}.")
        if found["answers_needed"] is not None:
            lines.append(f"Power {POWER:g} needs {math.ceil(found['answers_needed'])} answers.")
    return "\n".join(lines)
