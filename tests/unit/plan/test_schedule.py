"""How long jobs take, so many at a time."""

import pytest

from recap.plan.screen import Job, chains, makespan


def test_independent_jobs_share_the_places():
    jobs = {name: Job(3.0) for name in "abcd"}
    assert [makespan(jobs, places) for places in (1, 2, 3, 4, 9)] == [12, 6, 6, 3, 3]


def test_a_job_waits_for_those_before_it():
    jobs = {"xe": Job(5.0), "scst": Job(2.0, ("xe",)), "evaluate": Job(1.0, ("scst",)), "other": Job(4.0)}
    assert chains(jobs) == {"xe": 8.0, "scst": 3.0, "evaluate": 1.0, "other": 4.0}
    assert makespan(jobs, 1) == 12.0
    assert makespan(jobs, 2) == makespan(jobs, 8) == 8.0


def test_the_longest_chain_begins_first():
    jobs = {"short": Job(1.0), "shorter": Job(1.0), "long": Job(4.0)}
    assert makespan(jobs, 2) == 4.0


def test_no_schedule_is_below_its_bounds_or_above_twice_the_larger():
    jobs = {n: Job(float(n % 7 + 1), (n - 3,) if n > 3 else ()) for n in range(1, 40)}
    total, longest = sum(job.seconds for job in jobs.values()), max(chains(jobs).values())
    for places in (1, 2, 3, 5):
        bound = max(total / places, longest)
        assert bound <= makespan(jobs, places) <= 2 * bound
    assert makespan({}, 3) == pytest.approx(0)
