"""The store of MLflow: what it refuses, in one sentence, and who may meet in it."""

import sqlite3
import subprocess
import sys

import pytest

from helpers.refusals import refused
from recap.core.errors import RecapError
from recap.share.tracking_store import init_store

pytestmark = pytest.mark.seconds


def test_garbage_in_place_of_a_store_is_one_sentence_and_stays(tmp_path):
    store = tmp_path / "mlflow.db"
    store.write_text("this is no database, and long enough to be recognised as none")
    # The folder of a store may be anything, even the user's home: nobody is told to delete it.
    with refused(RecapError, store, "move mlflow.db away", "no result is lost"):
        init_store(store)
    assert store.read_text().startswith("this is no database")


def test_a_store_of_another_mlflow_is_one_sentence(mlflow_store):
    with sqlite3.connect(mlflow_store) as database:
        database.execute("UPDATE alembic_version SET version_num = 'of a later day'")
    with refused(RecapError, mlflow_store, "of a later day", "move mlflow.db away"):
        init_store(mlflow_store)


def test_a_locked_store_is_one_sentence(mlflow_store):
    with sqlite3.connect(mlflow_store, isolation_level=None) as database:
        database.execute("BEGIN EXCLUSIVE")
        with refused(RecapError, mlflow_store, "locked"):
            init_store(mlflow_store)


def test_processes_may_meet_in_a_fresh_store(tmp_path):
    code = (
        "import sys, pathlib, recap.share.tracking_store as s; "
        "s.init_store(pathlib.Path(sys.argv[1]))"
    )
    store = tmp_path / "mlflow" / "mlflow.db"
    jobs = [subprocess.Popen([sys.executable, "-c", code, str(store)]) for _ in range(2)]
    assert [job.wait() for job in jobs] == [0, 0]
    assert [path.name for path in store.parent.iterdir() if path.suffix == ".part"] == []
