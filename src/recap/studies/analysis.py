"""Statistics of a study: votes or answers, shares with intervals, Pearson's chi-square, agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import comb
from typing import Any

import numpy as np

from recap.core.errors import DataError
from recap.statistics.comparison import holm
from recap.studies.collect import Collected
from recap.studies.sheets import BEST, YES_NO, Item, Sheets

LEVEL = 0.95  # of the intervals
LEAST = 5  # expected answers of each kind, below which the chi-square distribution does not hold (Cochran, 1954)
DRAWS = 99_999  # random tables
PEARSON = "chi-square distribution"

Rated = tuple[Item, str]  # an item and an answer to it


def analyse(sheets: Sheets, collected: Collected) -> dict[str, Any]:
    """Return the statistics of a study as plain values; raters that a rule leaves out do not count.

    ``blocks``: one per setup (preference) or question, with ``systems`` (counts, share, interval), ``test``
    (chi-square), agreement; and counts of raters.
    """
    if not collected.used():
        rules = ", ".join(f"{rule} {count}" for rule, count in collected.excluded().items() if count)
        raise DataError(f"study {sheets.name!r}: no rater is left; left out by rule: {rules}")
    blocks = _preference(sheets, collected) if sheets.study.kind == "preference" else _questions(sheets, collected)
    for block, p in zip(blocks, holm([block["test"]["p"] for block in blocks]), strict=True):
        block["test"]["p_holm"] = p
    return {
        "name": sheets.name,
        "study": sheets.digest,
        "simulated": collected.simulated,
        "raters": len(collected.raters),
        "used": len(collected.used()),
        "sheets": len(sheets.sheets),
        "excluded": collected.excluded(),
        "duplicates": collected.duplicates,
        "replaced": collected.replaced,
        "refused": len(collected.refused),
        "blocks": blocks,
    }


def _answers(sheets: Sheets, collected: Collected, question: str) -> Iterator[Rated]:
    """Yield the answers of all raters that count to a question about items that are no gold items."""
    by_id = sheets.by_id
    for rater in collected.used():
        for number, item in enumerate(by_id[rater.sheet].items, start=1):
            answer = rater.answers.get(str(number), {}).get(question)
            if answer is not None and not item.gold:
                yield item, answer


def _preference(sheets: Sheets, collected: Collected) -> list[dict[str, Any]]:
    """Return votes per setup: shares of all votes, tested against equal shares."""
    systems = [system.id for system in sheets.study.systems]
    rated = list(_answers(sheets, collected, BEST))
    blocks = []
    for setup in sheets.study.setups:
        votes: dict[int, list[str]] = {}  # image -> systems voted for
        equal = set()
        for item, answer in rated:
            if item.setup == setup.id:
                votes.setdefault(item.image_id, []).append(item.systems[int(answer) - 1])
                if len(set(item.captions)) < len(item.captions):
                    equal.add(item.image_id)
        given = [vote for each in votes.values() for vote in each]
        counts = {system: given.count(system) for system in systems}
        blocks.append(
            {
                "id": setup.id,
                "label": setup.label,
                "systems": {
                    system: {"votes": counts[system], **share(counts[system], len(given))} for system in systems
                },
                "votes": len(given),
                "images": len(votes),
                "images_with_equal_captions": len(equal),
                "test": equal_shares(list(counts.values())),
                **agreement(list(votes.values()), systems),
            }
        )
    return blocks


def _questions(sheets: Sheets, collected: Collected) -> list[dict[str, Any]]:
    """Return the answers per question: share of no for each system, and whether the models differ in it."""
    blocks = []
    models = [system.id for system in sheets.study.systems if not system.reference]
    for question in sheets.study.questions:
        given: dict[tuple[str, int], list[str]] = {}  # (system, image) -> answers
        for item, answer in _answers(sheets, collected, question.id):
            given.setdefault((item.systems[0], item.image_id), []).append(answer)
        systems: dict[str, dict[str, Any]] = {}
        for system in sheets.study.systems:
            answers = [answer for (name, _), each in given.items() if name == system.id for answer in each]
            counts = {answer: answers.count(answer) for answer in YES_NO}
            systems[system.id] = {**counts, **share(counts["no"], len(answers))}
        blocks.append(
            {
                "id": question.id,
                "label": question.label,
                "systems": systems,
                "images": len({image for _, image in given}),
                "test": equal_answers([[systems[name][answer] for answer in YES_NO] for name in models]),
                **agreement(list(given.values()), YES_NO),
            }
        )
    return blocks


def agreement(ratings: Sequence[Sequence[str]], answers: Sequence[str]) -> dict[str, Any]:
    """Return how far raters agree beyond chance; `ratings` are the answers to each item, one per rater.

    ``fleiss_kappa`` is over ``fleiss_items`` items, those with the largest number of answers (it takes equal numbers);
    ``krippendorff_alpha`` over all ``items`` with two answers or more. None where an agreement by chance is certain
    (all answers equal) or no item has two answers.
    """
    import krippendorff
    from statsmodels.stats.inter_rater import fleiss_kappa

    counts = np.array([[list(given).count(answer) for answer in answers] for given in ratings if len(given) > 1])
    if not len(counts) or (counts.sum(axis=0) > 0).sum() < 2:
        return {"fleiss_kappa": None, "fleiss_items": 0, "krippendorff_alpha": None, "items": len(counts)}
    sizes = counts.sum(axis=1)
    full = counts[sizes == sizes.max()]  # [items, answers]
    varied = (full.sum(axis=0) > 0).sum() > 1
    return {
        "fleiss_kappa": float(fleiss_kappa(full)) if varied else None,
        "fleiss_items": len(full),
        "krippendorff_alpha": float(krippendorff.alpha(value_counts=counts, level_of_measurement="nominal")),
        "items": len(counts),
    }


def share(count: int, total: int) -> dict[str, float | None]:
    """Return a share and its interval at `LEVEL` (Wilson, 1927); None if there is nothing to share."""
    from statsmodels.stats.proportion import proportion_confint

    if total == 0:
        return {"share": None, "low": None, "high": None}
    low, high = proportion_confint(count, total, alpha=1 - LEVEL, method="wilson")
    return {"share": count / total, "low": float(low), "high": float(high)}


def equal_shares(counts: Sequence[int]) -> dict[str, Any]:
    """Return Pearson's chi-square test that all systems receive equal shares of the votes.

    ``chi_square`` is the sum over systems of (votes - expected)^2 / expected, with systems - 1 degrees of freedom;
    ``effect`` is Cohen's w, sqrt(chi_square / votes). With fewer than `LEAST` expected votes ``p`` is the probability,
    under equal shares, of all votes whose chi-square is as large.
    """
    from scipy.stats import chisquare

    total = sum(counts)
    if total == 0:
        return _no_test("no vote")
    statistic, p = chisquare(counts)
    few = total < LEAST * len(counts)
    p_by = "exact multinomial" if few else PEARSON
    return _test(statistic, _multinomial(counts) if few else p, len(counts) - 1, total, p_by)


def _multinomial(counts: Sequence[int]) -> float:
    """Return the share of all ways to cast the votes whose sum of squares, and so chi-square, is as large."""
    total = sum(counts)
    ways = Counter({(0, 0): 1})  # votes cast for the systems so far, and the sum of their squares -> number of ways
    for _ in counts:
        before, ways = ways, Counter[tuple[int, int]]()
        for (cast, squares), number in before.items():
            for votes in range(total - cast + 1):
                ways[cast + votes, squares + votes**2] += number * comb(total - cast, votes)
    least = sum(count**2 for count in counts)
    return sum(n for (cast, squares), n in ways.items() if cast == total and squares >= least) / len(counts) ** total


def equal_answers(counts: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return Pearson's chi-square test that answers do not depend on the system, without continuity correction.

    `counts`: per system, of each answer. Where one is expected fewer than `LEAST` times, p of two systems is that of
    Fisher's exact test, and p of more is the share of random tables with these totals whose chi-square is as large.
    """
    from scipy.stats import chi2_contingency, fisher_exact, random_table

    totals = [sum(cells) for cells in (*counts, *zip(*counts, strict=True))]
    if len(counts) < 2 or 0 in totals:
        return _no_test("all answers are equal, or a system has none")
    result = chi2_contingency(counts, correction=False)
    p, p_by, expected = result.pvalue, PEARSON, result.expected_freq
    if expected.min() < LEAST and np.shape(counts) == (2, 2):
        p, p_by = fisher_exact(counts)[1], "Fisher's exact test"
    elif expected.min() < LEAST:
        drawn = random_table(np.sum(counts, 1), np.sum(counts, 0), seed=0).rvs(DRAWS)
        larger = ((drawn - expected) ** 2 / expected).sum((1, 2)) >= result.statistic * (1 - 1e-9)  # rounding aside
        p, p_by = (1 + larger.sum()) / (1 + DRAWS), f"{DRAWS:,} random tables"
    return _test(result.statistic, p, result.dof, sum(map(sum, counts)), p_by)


def _test(statistic: float, p: float, degrees: int, total: int, p_by: str) -> dict[str, Any]:
    numbers = {"chi_square": float(statistic), "degrees": int(degrees), "p": float(p)}
    return {**numbers, "effect": (float(statistic) / total) ** 0.5, "p_by": p_by, "reason": None}


def _no_test(reason: str) -> dict[str, Any]:
    return {"chi_square": None, "degrees": None, "p": None, "effect": None, "p_by": None, "reason": reason}
