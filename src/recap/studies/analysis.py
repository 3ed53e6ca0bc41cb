"""Statistics of a study: votes or answers, shares with intervals, Pearson's chi-square, agreement.

Power beforehand.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from recap.core.errors import ConfigError, DataError
from recap.settings import Study
from recap.statistics.comparison import holm
from recap.studies.responses import Collected
from recap.studies.sheets import YES_NO, Item, Sheets

LEVEL = 0.95  # of the intervals
# expected answers of each kind,
# below which the chi-square distribution does not hold (Cochran, 1954)
LEAST = 5
DRAWS = 99_999  # random tables
PEARSON = "chi-square distribution"
ALPHA, POWER = 0.05, 0.8


def analyse(sheets: Sheets, collected: Collected) -> dict[str, Any]:
    """Return the statistics of a study as plain values; raters that a rule leaves out do not count.

    ``blocks``: one per setup (preference) or question, with ``systems`` (counts, share, interval),
    ``test`` (chi-square), agreement; and counts of raters.
    """
    used = collected.used()
    if not used:
        rules = ", ".join(
            f"{rule} {count}" for rule, count in collected.excluded().items() if count
        )
        raise DataError(f"study {sheets.name!r}: no rater is left; left out by rule: {rules}")
    # setup or question -> items and the answers to them
    rated: dict[str, list[tuple[Item, str]]] = defaultdict(list)
    for rater in used:
        for number, item in sheets.by_id[rater.sheet].numbered.items():
            for question, answer in rater.answers.get(number, {}).items():
                if not item.gold:
                    rated[item.setup if sheets.preference else question].append((item, answer))
    columns = sheets.study.setups if sheets.preference else sheets.study.questions
    numbers = _votes if sheets.preference else _answers
    blocks = [
        {"id": each.id, "label": each.label, **numbers(sheets, rated[each.id])} for each in columns
    ]
    for block, p in zip(blocks, holm([block["test"]["p"] for block in blocks]), strict=True):
        block["test"]["p_holm"] = p
    return {
        "name": sheets.name,
        "study": sheets.digest,
        "simulated": collected.simulated,
        "raters": len(collected.raters),
        "used": len(used),
        "sheets": len(sheets.sheets),
        "excluded": collected.excluded(),
        "duplicates": collected.duplicates,
        "replaced": collected.replaced,
        "refused": len(collected.refused),
        "blocks": blocks,
    }


def _votes(sheets: Sheets, rated: Sequence[tuple[Item, str]]) -> dict[str, Any]:
    """Return the votes of a setup: shares of all votes, tested against equal shares."""
    systems = [system.id for system in sheets.study.systems]
    votes: dict[int, list[str]] = defaultdict(list)  # image -> systems voted for
    for item, answer in rated:
        votes[item.image_id].append(item.systems[int(answer) - 1])
    counts = Counter[str]()
    for of_image in votes.values():
        counts.update(of_image)
    return {
        "systems": {
            name: {"votes": counts[name], **share(counts[name], len(rated))} for name in systems
        },
        "votes": len(rated),
        "images": len(votes),
        "images_with_equal_captions": len(
            {item.image_id for item, _ in rated if item.equal_captions}
        ),
        "test": equal_shares([counts[name] for name in systems]),
        **agreement(list(votes.values()), systems),
    }


def _answers(sheets: Sheets, rated: Sequence[tuple[Item, str]]) -> dict[str, Any]:
    """Return the answers to a question: each system's share of no, and whether models differ."""
    ratings: dict[tuple[str, int], list[str]] = defaultdict(list)  # (system, image) -> answers
    counts = {system.id: dict.fromkeys(YES_NO, 0) for system in sheets.study.systems}
    for item, answer in rated:
        (system,) = item.systems
        ratings[system, item.image_id].append(answer)
        counts[system][answer] += 1
    models = [system.id for system in sheets.study.systems if not system.reference]
    return {
        "systems": {
            name: {**own, **share(own["no"], sum(own.values()))} for name, own in counts.items()
        },
        "images": len({image for _, image in ratings}),
        "test": equal_answers([list(counts[name].values()) for name in models]),
        **agreement(list(ratings.values()), YES_NO),
    }


def agreement(ratings: Sequence[Sequence[str]], answers: Sequence[str]) -> dict[str, Any]:
    """Return how far raters agree beyond chance;
    `ratings` are the answers to each item, one per rater.

    ``fleiss_kappa`` is over ``fleiss_items`` items, those with the largest number of answers (it
    takes equal numbers); ``krippendorff_alpha`` over all ``items`` with two answers or more. None
    where an agreement by chance is certain (all answers equal) or no item has two answers.
    """
    import krippendorff
    from statsmodels.stats.inter_rater import fleiss_kappa

    rows = []
    for of_item in ratings:
        if len(of_item) > 1:
            rows.append([list(of_item).count(answer) for answer in answers])
    counts = np.array(rows)
    if not len(counts) or (counts.sum(axis=0) > 0).sum() < 2:
        return {
            "fleiss_kappa": None,
            "fleiss_items": 0,
            "krippendorff_alpha": None,
            "items": len(counts),
        }
    sizes = counts.sum(axis=1)
    full = counts[sizes == sizes.max()]  # [items, answers]
    varied = (full.sum(axis=0) > 0).sum() > 1
    return {
        "fleiss_kappa": float(fleiss_kappa(full)) if varied else None,
        "fleiss_items": len(full),
        "krippendorff_alpha": float(
            krippendorff.alpha(value_counts=counts, level_of_measurement="nominal")
        ),
        "items": len(counts),
    }


def share(count: int, total: int) -> dict[str, float | None]:
    """Return a share and its interval at `LEVEL` (Wilson, 1927).

    None if there is nothing to share.
    """
    from statsmodels.stats.proportion import proportion_confint

    if total == 0:
        return {"share": None, "low": None, "high": None}
    low, high = proportion_confint(count, total, alpha=1 - LEVEL, method="wilson")
    return {"share": count / total, "low": float(low), "high": float(high)}


def equal_shares(counts: Sequence[int]) -> dict[str, Any]:
    """Return Pearson's chi-square test that all systems receive equal shares of the votes.

    ``chi_square`` is the sum over systems of (votes - expected)^2 / expected, with systems - 1
    degrees of freedom; ``effect`` is Cohen's w, sqrt(chi_square / votes). With fewer than `LEAST`
    expected votes ``p`` is the probability, under equal shares, of all votes whose chi-square is as
    large.
    """
    from scipy.stats import chisquare

    total = sum(counts)
    if total == 0:
        return _no_test("no vote")
    statistic, p = chisquare(counts)
    if total < LEAST * len(counts):
        return _test(statistic, _multinomial(counts), len(counts) - 1, total, "exact multinomial")
    return _test(statistic, p, len(counts) - 1, total, PEARSON)


def _multinomial(counts: Sequence[int]) -> float:
    """Return the share of all ways to cast the votes with as large a chi-square."""
    total = sum(counts)
    # votes cast for the systems so far, and the sum of their squares -> number of ways
    ways = Counter({(0, 0): 1})
    for _ in counts:
        before, ways = ways, Counter[tuple[int, int]]()
        for (cast, squares), number in before.items():
            for votes in range(total - cast + 1):
                ways[cast + votes, squares + votes**2] += number * math.comb(total - cast, votes)
    least = sum(count**2 for count in counts)
    return (
        sum(n for (cast, squares), n in ways.items() if cast == total and squares >= least)
        / len(counts) ** total
    )


def equal_answers(counts: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return Pearson's chi-square test that answers do not depend on the system,
    without continuity correction.

    `counts`: per system, of each answer. Where one is expected fewer than `LEAST` times, p of two
    systems is that of Fisher's exact test, and p of more is the share of random tables with these
    totals whose chi-square is as large.
    """
    from scipy.stats import chi2_contingency, fisher_exact, random_table

    table = np.array(counts)  # [systems, answers]
    if len(table) < 2 or not (table.sum(0).all() and table.sum(1).all()):
        return _no_test("all answers are equal, or a system has none")
    result = chi2_contingency(table, correction=False)
    p, p_by, expected = result.pvalue, PEARSON, result.expected_freq
    if expected.min() < LEAST and table.shape == (2, 2):
        p, p_by = fisher_exact(table)[1], "Fisher's exact test"
    elif expected.min() < LEAST:
        sample = random_table(table.sum(1), table.sum(0), seed=0).rvs(DRAWS)
        # rounding aside
        larger = ((sample - expected) ** 2 / expected).sum((1, 2)) >= result.statistic * (1 - 1e-9)
        p, p_by = (1 + larger.sum()) / (1 + DRAWS), f"{DRAWS:,} random tables"
    return _test(result.statistic, p, result.dof, int(table.sum()), p_by)


def _test(statistic: float, p: float, degrees: int, total: int, p_by: str) -> dict[str, Any]:
    numbers = {"chi_square": float(statistic), "degrees": int(degrees), "p": float(p)}
    return {**numbers, "effect": (float(statistic) / total) ** 0.5, "p_by": p_by, "reason": None}


def _no_test(reason: str) -> dict[str, Any]:
    return {**dict.fromkeys(("chi_square", "degrees", "p", "effect", "p_by")), "reason": reason}


def study_power(study: Study, shares: Sequence[float] = ()) -> str:
    """Return the power of a study's chi-square test per setup
    or question, at `ALPHA`, one sentence per line.

    Always the smallest effect found with `POWER` (Cohen's w). With ``shares`` (preference: expected
    share of the votes of each system; questions: expected share of no of each model) also the
    power, and the answers that give `POWER`.
    """
    from statsmodels.stats.power import GofChisquarePower

    preference = study.kind == "preference"
    models = sum(preference or not system.reference for system in study.systems)
    answers = study.images * study.raters * (1 if preference else models)
    # Of questions, a table of models x (no, yes) has as many degrees
    # of freedom as a goodness of fit of as many bins.
    test, design = GofChisquarePower(), {"n_bins": models, "alpha": ALPHA}
    smallest = test.solve_power(effect_size=None, power=POWER, nobs=answers, **design)
    lines = [
        f"{answers} answers per {'setup' if preference else 'question'}, counted as independent; "
        f"alpha {ALPHA:g}, Pearson's chi-square.",
        f"Smallest effect found with power {POWER:g}: w = {smallest:.3f}.",
    ]
    if shares:
        effect = _expected_effect(shares, models, preference)
        power = test.power(effect_size=effect, nobs=answers, **design) if effect else ALPHA
        lines.append(
            f"Shares {', '.join(f'{share:g}' for share in shares)}: w = {effect:.3f}, power "
            f"{power:.3f}."
        )
        if effect:
            needed = test.solve_power(effect_size=effect, power=POWER, **design)
            lines.append(f"Power {POWER:g} needs {math.ceil(needed)} answers.")
    return "\n".join(lines)


def _expected_effect(shares: Sequence[float], models: int, preference: bool) -> float:
    """Return Cohen's w of expected shares: sqrt(sum of (p1 - p0)^2 / p0 over the cells)."""
    if len(shares) != models or any(not 0 <= share <= 1 for share in shares):
        raise ConfigError(f"--shares: give {models} shares from 0 to 1, one for each system")
    if preference and abs(sum(shares) - 1) > 0.005:
        raise ConfigError(f"--shares: the votes of all systems sum to {sum(shares):g}, not to 1")
    if preference:
        return math.sqrt(sum((share - 1 / models) ** 2 * models for share in shares))
    mean = sum(shares) / models
    return math.sqrt(np.var(shares) / (mean * (1 - mean))) if 0 < mean < 1 else 0.0
