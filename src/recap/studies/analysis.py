"""Statistics of a study: votes or answers, shares with intervals, Pearson's chi-square, agreement.

Power beforehand.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

import numpy as np
from pydantic import Field

from recap.core.errors import ConfigError, DataError
from recap.settings import Study
from recap.settings.studies import Question, Setup
from recap.statistics.comparison import LEVEL, POWER, SIGNIFICANT, holm
from recap.studies.responses import Collected
from recap.studies.sheets import YES_NO, Item, Sheets

# expected answers of each kind,
# below which the chi-square distribution does not hold (Cochran, 1954)
LEAST = 5
DRAWS = 99_999  # random tables
PEARSON = "chi-square distribution"

Value = TypeVar("Value")
# Left out of the JSON of studies of the other kind.
OmittedIfNone = Annotated[Value | None, Field(exclude_if=lambda value: value is None)]
Rated = Sequence[tuple[Item, str]]  # items and the answers to them


@dataclass
class ChiSquare:
    """Pearson's chi-square test; None where there is no value, with the reason."""

    chi_square: float | None = None
    degrees: int | None = None
    p: float | None = None
    effect: float | None = None  #: Cohen's w, sqrt(chi_square / answers)
    p_by: str | None = None  #: where p is from
    reason: str | None = None
    p_holm: float | None = None  #: over all blocks of the study


@dataclass(frozen=True)
class Agreement:
    """How far raters agree beyond chance.

    ``fleiss_kappa`` is over ``fleiss_items`` items, those with the largest number of answers (it
    takes equal numbers); ``krippendorff_alpha`` over all ``items`` with two answers or more. None
    where an agreement by chance is certain (all answers equal) or no item has two answers.
    """

    items: int
    fleiss_items: int = 0
    fleiss_kappa: float | None = None
    krippendorff_alpha: float | None = None


@dataclass(frozen=True)
class SystemResult:
    """The answers to a system: its share of the votes, or of no, with the interval at `LEVEL`
    (Wilson, 1927); None: there is nothing to share."""

    share: float | None = None
    low: float | None = None
    high: float | None = None
    votes: OmittedIfNone[int] = None
    no: OmittedIfNone[int] = None
    yes: OmittedIfNone[int] = None


@dataclass(frozen=True)
class BlockResult:
    """One setup of a preference study, or one question."""

    id: str
    label: str
    systems: dict[str, SystemResult]
    images: int
    test: ChiSquare
    fleiss_kappa: float | None
    fleiss_items: int
    krippendorff_alpha: float | None
    items: int
    votes: OmittedIfNone[int] = None
    images_with_equal_captions: OmittedIfNone[int] = None


@dataclass(frozen=True)
class StudyResult:
    """All numbers of a study; raters that a rule leaves out do not count."""

    name: str
    study: str  #: digest of the sheets
    simulated: bool
    raters: int
    used: int
    sheets: int
    excluded: dict[str, int]  #: raters by rule
    duplicates: int
    replaced: int
    refused: int
    blocks: list[BlockResult]


def analyse(sheets: Sheets, collected: Collected) -> StudyResult:
    """Return the statistics of a study."""
    used = collected.used()
    if not used:
        rules = collected.left_out()
        raise DataError(f"study {sheets.name!r}: no rater is left; left out by rule: {rules}")
    rated: dict[str, list[tuple[Item, str]]] = defaultdict(list)  # by setup or question
    for rater in used:
        for number, item in sheets.by_id[rater.sheet].numbered.items():
            for question, answer in rater.answers.get(number, {}).items():
                if not item.gold:
                    rated[item.setup if sheets.preference else question].append((item, answer))
    if sheets.preference:
        blocks = [_votes(sheets.study, each, rated[each.id]) for each in sheets.study.setups]
    else:
        blocks = [_answers(sheets.study, each, rated[each.id]) for each in sheets.study.questions]
    adjusted = holm([block.test.p for block in blocks])
    for block, p_holm in zip(blocks, adjusted, strict=True):
        block.test.p_holm = p_holm
    return StudyResult(
        name=sheets.name,
        study=sheets.digest,
        simulated=collected.simulated,
        raters=len(collected.raters),
        used=len(used),
        sheets=len(sheets.sheets),
        excluded=collected.excluded(),
        duplicates=collected.duplicates,
        replaced=collected.replaced,
        refused=len(collected.refused),
        blocks=blocks,
    )


def _votes(study: Study, setup: Setup, rated: Rated) -> BlockResult:
    """Return the votes of a setup: shares of all votes, tested against equal shares."""
    votes: dict[int, list[str]] = defaultdict(list)  # image -> systems voted for
    equal = set()
    counts = Counter[str]()
    for item, answer in rated:
        chosen = item.systems[int(answer) - 1]
        counts[chosen] += 1
        votes[item.image_id].append(chosen)
        if item.equal_captions:
            equal.add(item.image_id)
    systems = {}
    for system in study.systems:
        count = counts[system.id]
        systems[system.id] = replace(share(count, len(rated)), votes=count)
    agreed = agreement(list(votes.values()), list(systems))
    return BlockResult(
        id=setup.id,
        label=setup.label,
        systems=systems,
        images=len(votes),
        test=goodness_of_fit([counts[name] for name in systems]),
        votes=len(rated),
        images_with_equal_captions=len(equal),
        **vars(agreed),
    )


def _answers(study: Study, question: Question, rated: Rated) -> BlockResult:
    """Return the answers to a question: each system's share of no, and whether models differ."""
    ratings: dict[tuple[str, int], list[str]] = defaultdict(list)  # (system, image) -> answers
    counts = Counter[tuple[str, str]]()
    for item, answer in rated:
        (system,) = item.systems
        ratings[system, item.image_id].append(answer)
        counts[system, answer] += 1
    systems = {}
    models = []
    for each in study.systems:
        no = counts[each.id, "no"]
        yes = counts[each.id, "yes"]
        systems[each.id] = replace(share(no, no + yes), no=no, yes=yes)
        if not each.reference:
            models.append([no, yes])
    agreed = agreement(list(ratings.values()), YES_NO)
    return BlockResult(
        id=question.id,
        label=question.label,
        systems=systems,
        images=len({image for _, image in ratings}),
        test=independence_test(models),
        **vars(agreed),
    )


def agreement(ratings: Sequence[Sequence[str]], answers: Sequence[str]) -> Agreement:
    """Return how far raters agree beyond chance;
    `ratings` are the answers to each item, one per rater."""
    import krippendorff
    from statsmodels.stats.inter_rater import fleiss_kappa

    rows = []
    for of_item in ratings:
        if len(of_item) > 1:
            rows.append([list(of_item).count(answer) for answer in answers])
    counts = np.array(rows)  # [items, answers]
    if not len(counts) or (counts.sum(axis=0) > 0).sum() < 2:
        return Agreement(items=len(counts))
    sizes = counts.sum(axis=1)
    full = counts[sizes == sizes.max()]
    varied = (full.sum(axis=0) > 0).sum() > 1
    alpha = krippendorff.alpha(value_counts=counts, level_of_measurement="nominal")
    return Agreement(
        items=len(counts),
        fleiss_items=len(full),
        fleiss_kappa=float(fleiss_kappa(full)) if varied else None,
        krippendorff_alpha=float(alpha),
    )


def share(count: int, total: int) -> SystemResult:
    """Return a share and its interval."""
    from statsmodels.stats.proportion import proportion_confint

    if total == 0:
        return SystemResult()
    low, high = proportion_confint(count, total, alpha=1 - LEVEL, method="wilson")
    return SystemResult(count / total, float(low), float(high))


def goodness_of_fit(counts: Sequence[int]) -> ChiSquare:
    """Return Pearson's chi-square test that all systems receive equal shares of the votes.

    ``chi_square`` is the sum over systems of (votes - expected)^2 / expected, with systems - 1
    degrees of freedom; ``effect`` is Cohen's w, sqrt(chi_square / votes). With fewer than `LEAST`
    expected votes ``p`` is the probability, under equal shares, of all votes whose chi-square is as
    large.
    """
    from scipy.stats import chisquare

    total = sum(counts)
    if total == 0:
        return ChiSquare(reason="no vote")
    statistic, p = chisquare(counts)
    p_by = PEARSON
    if total < LEAST * len(counts):
        p = _multinomial(counts)
        p_by = "exact multinomial"
    return _test(statistic, p, len(counts) - 1, total, p_by)


def _multinomial(counts: Sequence[int]) -> float:
    """Return the share of all ways to cast the votes with as large a chi-square."""
    total = sum(counts)
    # votes cast for the systems so far, and the sum of their squares -> number of ways
    ways = Counter({(0, 0): 1})
    for _ in counts:
        more = Counter[tuple[int, int]]()
        for (cast, squares), number in ways.items():
            for votes in range(total - cast + 1):
                more[cast + votes, squares + votes**2] += number * math.comb(total - cast, votes)
        ways = more
    least = sum(count**2 for count in counts)
    as_large = sum(n for (cast, squares), n in ways.items() if cast == total and squares >= least)
    return as_large / len(counts) ** total


def independence_test(counts: Sequence[Sequence[int]]) -> ChiSquare:
    """Return Pearson's chi-square test that answers do not depend on the system,
    without continuity correction.

    `counts`: per system, of each answer. Where one is expected fewer than `LEAST` times, p of two
    systems is that of Fisher's exact test, and p of more is the share of random tables with these
    totals whose chi-square is as large.
    """
    from scipy.stats import chi2_contingency, fisher_exact, random_table

    table = np.array(counts)  # [systems, answers]
    if len(table) < 2 or not (table.sum(0).all() and table.sum(1).all()):
        return ChiSquare(reason="all answers are equal, or a system has none")
    result = chi2_contingency(table, correction=False)
    p = result.pvalue
    p_by = PEARSON
    expected = result.expected_freq
    if expected.min() < LEAST and table.shape == (2, 2):
        p = fisher_exact(table)[1]
        p_by = "Fisher's exact test"
    elif expected.min() < LEAST:
        sample = random_table(table.sum(1), table.sum(0), seed=0).rvs(DRAWS)
        # rounding aside
        larger = ((sample - expected) ** 2 / expected).sum((1, 2)) >= result.statistic * (1 - 1e-9)
        p = (1 + larger.sum()) / (1 + DRAWS)
        p_by = f"{DRAWS:,} random tables"
    return _test(result.statistic, p, result.dof, int(table.sum()), p_by)


def _test(statistic: float, p: float, degrees: int, total: int, p_by: str) -> ChiSquare:
    effect = (float(statistic) / total) ** 0.5
    return ChiSquare(float(statistic), int(degrees), float(p), effect, p_by)


def study_power(study: Study, shares: Sequence[float] = ()) -> str:
    """Return the power of a study's chi-square test per setup
    or question, at `SIGNIFICANT`, one sentence per line.

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
    test = GofChisquarePower()
    design = {"n_bins": models, "alpha": SIGNIFICANT}
    smallest = test.solve_power(effect_size=None, power=POWER, nobs=answers, **design)
    lines = [
        f"{answers} answers per {'setup' if preference else 'question'}, counted as independent; "
        f"alpha {SIGNIFICANT:g}, Pearson's chi-square.",
        f"Smallest effect found with power {POWER:g}: w = {smallest:.3f}.",
    ]
    if shares:
        effect = _expected_effect(shares, models, preference)
        power = test.power(effect_size=effect, nobs=answers, **design) if effect else SIGNIFICANT
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
