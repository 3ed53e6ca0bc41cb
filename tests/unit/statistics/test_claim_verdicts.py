"""How often a claim gets a verdict on drawn scores that hold nothing to tell."""

import numpy as np
import pytest
from benchmarks.claim_verdicts import false_verdicts, verdict
from benchmarks.table_marks import Components
from scipy import stats

from helpers.cases import cases
from recap.statistics.claims import FAILS, HOLDS, UNTOLD


def components(training, *, images=150, metrics=3):
    """Normal components of metrics that go together in part.

    ``training`` is the deviation that a training adds.
    """
    random = np.random.default_rng(5)
    covariance = training**2 * (0.5 + 0.5 * np.eye(metrics))
    profile = random.normal(0, 0.3, (images, metrics))
    rest = random.normal(0, 0.4, (images, 6, metrics))
    rest = (rest - rest.mean(axis=1, keepdims=True)) * (6 / 5) ** 0.5
    return Components(tuple("abc"[:metrics]), covariance, profile - profile.mean(axis=0), rest)


def test_a_verdict_is_that_of_the_claims():
    random = np.random.default_rng(1)
    own, other = random.normal(0, 0.01, (2, 5, 60))
    assert verdict(own + 1, [other]) == HOLDS
    assert verdict(own, [other + 1]) == verdict(own, [other - 1, other + 1]) == FAILS
    assert verdict(own, [other]) == UNTOLD
    assert verdict(own, [None], within=5) == HOLDS
    assert verdict(own + 1, [None], within=5) == FAILS


@pytest.mark.slow
@pytest.mark.parametrize("seeds", cases([2, 3, 5], few=[3]))
@pytest.mark.parametrize("ratio", cases([0.3, 1.0, 3.0], few=[0.3, 3.0]))
def test_at_most_one_verdict_in_twenty_is_false(seeds, ratio):
    """``ratio``: how much of the difference's standard error comes
    from trainings, for one from images."""
    over_images = (0.3**2 + 2 * 0.4**2 / seeds) ** 0.5 / 150**0.5
    parts = components(ratio * over_images * (seeds / 2) ** 0.5)
    claims = 400
    shares = false_verdicts(
        parts, seeds=seeds, claims=claims, within=0.01, random=np.random.default_rng(seeds)
    )
    likely = stats.binom.ppf(0.9999, claims, 0.05) / claims
    assert {form: share for form, share in shares.items() if share > likely} == {}
