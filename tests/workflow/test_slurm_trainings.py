"""Trainings on a real Slurm that are cancelled, preempted,
lost or stopped end with the bytes of an unbroken one."""

import signal
import time

import pytest

from helpers.slurm_workflow import LONG, Small, at_work, ends_as_unbroken, trains

pytestmark = [pytest.mark.slurm, pytest.mark.slow, pytest.mark.timeout(2700)]
MINUTES = {**LONG, "epochs": 200}


@pytest.fixture(scope="module")
def prepared(prepare):
    made = prepare()
    done = made.train("unbroken", stage_settings=LONG)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
def training(small, prepared, request):
    """A small workflow whose job trains."""
    return trains(small, prepared, request.node.name.translate(str.maketrans("[]", "__")))


def test_a_cancelled_training_saves_and_its_next_attempt_ends_with_the_same_bytes(training):
    process = training.start("trained")
    at_work(training, process)
    training.cluster.said("scancel", *training.mine("RUNNING"))
    ends_as_unbroken(training, process)
    assert "stopped by SIGTERM" in (training.folder / "said").read_text()


def test_a_training_of_a_lost_node_ends_with_the_same_bytes_when_the_node_is_back(training):
    process = training.start("trained")
    at_work(training, process)
    training.cluster.kill_node("n1")
    end = time.monotonic() + 120
    while training.mine("RUNNING"):
        assert time.monotonic() < end
        time.sleep(1)
    training.cluster.start_node("n1")
    ends_as_unbroken(training, process)


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name
)
def test_a_stopped_workflow_goes_on_where_its_job_was_and_never_runs_it_twice(training, how):
    first = training.start("trained")
    at_work(training, first)
    first.send_signal(how)
    # the plugin ends when it next asks for states, after three minutes at most
    first.communicate(timeout=240)
    assert first.returncode != 0
    second = training.start("trained")
    while second.poll() is None and not training.run.exists():
        assert len(training.mine("RUNNING", "COMPLETING")) <= 1
        time.sleep(0.5)
    ends_as_unbroken(training, second)
    said = (training.folder / "said").read_text()
    assert "is in use" not in said and said.count("continuing at epoch") == 1


def test_a_preempted_training_goes_back_into_the_queue_and_ends_with_the_same_bytes(training):
    process = training.start("trained")
    at_work(training, process)
    urgent = ["--partition=first", "--cpus-per-task=4", "--output=/dev/null", "--wrap", "sleep 5"]
    training.cluster.said("sbatch", *urgent)
    ends_as_unbroken(training, process)
    assert "stopped by SIGTERM" in (training.folder / "said").read_text()
    # Slurm repeated it, not Snakemake
    assert len(training.mine("COMPLETED")) == len(training.jobs()) == 1


def test_trainings_of_two_folders_run_at_once_and_only_their_own_workflow_cancels_them(
    tmp_path, cluster, prepared
):
    one, other = (Small(tmp_path / name, cluster) for name in ("one", "other"))
    for name, each in (("one_of_two", one), ("other_of_two", other)):
        trains(each, prepared, name)
    first, beside = one.start("trained"), other.start("trained")
    at_work(one, first)
    first.kill()
    first.communicate()
    ends_as_unbroken(one, one.start("trained"))
    said = beside.communicate(timeout=1800)[1]
    assert beside.returncode == 0, said
    assert other.run.is_dir() and len(other.jobs()) == 1
    assert (other.run / "model.safetensors").read_bytes() == other.unbroken.read_bytes()


def test_a_training_at_its_wall_limit_saves_in_time_and_continues_in_the_next_job(small, prepared):
    done = prepared.train("unbroken_minutes", stage_settings=MINUTES)
    assert done.returncode == 0, done.stderr
    limited = trains(small, prepared, "limited", "unbroken_minutes", stage_settings=MINUTES)
    # What the command line sets leaves the signal of the rule.
    process = limited.start(
        "train_xe", "--set-resources", "train_xe:runtime=60", "train_xe:slurm_partition=cpu"
    )
    at_work(limited, process)
    (number,) = limited.mine("RUNNING")
    so_far = limited.cluster.said("squeue", "-h", "-j", number, "-o", "%M")
    # The signal comes three minutes before the limit; Slurm looks for what is due twice a minute.
    minutes = int(so_far.rpartition(":")[0]) + 3
    limited.cluster.said("scontrol", "update", f"JobId={number}", f"TimeLimit={minutes}")
    ends_as_unbroken(limited, process)
    assert "stopped by SIGTERM; the state is saved" in (limited.folder / "said").read_text()
    assert len(limited.jobs()) == 2
