"""The jobs of a plan: a small profile's in full, and how many of each rule the papers have.

`python tests/helpers/jobs.py` writes what is compared; look at the difference before you commit it.
"""

import json

import pytest

from helpers.jobs import GOLDEN, counts, tiny_jobs
from helpers.plans import PARAMS, planned
from helpers.refusals import refused
from recap.core.errors import UnknownName
from recap.plan.jobs import kept_files, plan_jobs


@pytest.fixture(scope="module")
def golden():
    return json.loads(GOLDEN.read_text())


def test_every_job_of_a_small_profile_reads_and_makes_what_it_did(golden):
    now = {(job["rule"], str(job["wildcards"])): job for job in tiny_jobs()}
    before = {(job["rule"], str(job["wildcards"])): job for job in golden["tiny"]}
    assert now.keys() == before.keys()
    for key, job in now.items():
        assert job == before[key]


@pytest.mark.slow
def test_the_papers_have_as_many_jobs_of_each_rule_as_they_had(golden):
    assert counts() == golden["counts"]


def test_every_file_that_a_job_reads_is_made_by_another_or_is_an_outside_file():
    jobs = plan_jobs(planned(PARAMS, "paper", ["fusion/t2", "visualgpt/t1"]))
    made = set()
    for job in jobs:
        made.update(job.outputs.values())
    for job in jobs:
        for files in job.inputs.values():
            for file in files:
                assert file in made or file.startswith("resources/"), (job.rule, file)
    assert set(kept_files(jobs)) < made


def test_no_output_is_made_by_two_jobs():
    jobs = list(plan_jobs(planned(PARAMS, "paper", ["zodiac/t1", "xlan/t2"])))
    made = [file for job in jobs for file in job.outputs.values()]
    assert len(made) == len(set(made))


def test_a_job_that_no_table_plans_is_refused_by_its_rule_and_wildcards():
    jobs = plan_jobs(planned(PARAMS))
    with refused(UnknownName, "vocabulary", "dataset=elsewhere"):
        jobs.job("vocabulary", {"dataset": "elsewhere"})
