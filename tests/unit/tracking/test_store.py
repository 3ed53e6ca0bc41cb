"""The store of MLflow: what it refuses, in one sentence, and who may meet in it."""

import errno
import sqlite3
import subprocess
import sys

import pytest
from mlflow.exceptions import MlflowException

from helpers.refusals import refused
from recap.core.errors import RecapError
from recap.tracking import store as store_room
from recap.tracking.store import init_store

pytestmark = pytest.mark.seconds


def refusal(store):
    """Return the one sentence with which a store refuses."""
    with pytest.raises(RecapError) as error:
        init_store(store)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert "no result is lost" in sentence
    # The folder of a store may be anything, even the user's home: nobody is told to delete it.
    assert "delete" not in sentence
    return sentence


def test_garbage_in_place_of_a_store_is_one_sentence_and_stays(tmp_path):
    store = tmp_path / "mlflow.db"
    store.write_text("this is no database, and long enough to be recognised as none")
    assert "this MLflow cannot read this store" in refusal(store)
    assert "move the file mlflow.db away" in refusal(store)
    assert store.read_text().startswith("this is no database")


def test_a_store_of_another_mlflow_is_one_sentence(mlflow_store):
    with sqlite3.connect(mlflow_store) as database:
        database.execute("UPDATE alembic_version SET version_num = 'of a later day'")
    assert "this MLflow cannot read this store" in refusal(mlflow_store)


def test_a_locked_store_is_one_sentence(mlflow_store):
    with sqlite3.connect(mlflow_store, isolation_level=None) as database:
        database.execute("BEGIN EXCLUSIVE")
        assert "another program is writing to this store" in refusal(mlflow_store)


def sqlite_error(name):
    error = sqlite3.OperationalError("in any words")
    error.sqlite_errorname = name
    return error


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error, advice",
    [
        (sqlite_error("SQLITE_FULL"), "the disk is full"),
        (OSError(errno.ENOSPC, "in any words"), "make room"),
        (sqlite_error("SQLITE_READONLY_DIRECTORY"), "make both writable"),
        (PermissionError(errno.EACCES, "in any words"), "make both writable"),
        (caused(MlflowException("wrapped"), sqlite_error("SQLITE_BUSY")), "another program is writing"),
        (sqlite_error("SQLITE_CORRUPT"), "move the file mlflow.db away"),
        (OSError("something new"), "cannot use this store (something new)"),
    ],
)
def test_each_refusal_has_its_own_advice(mlflow_store, monkeypatch, error, advice):
    def refuse(_):
        raise error

    monkeypatch.setattr(store_room, "_prepare", refuse)
    assert advice in refusal(mlflow_store)


def test_a_store_whose_folder_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with refused(RecapError, "file/.mlflow.db.lock"):
        init_store(tmp_path / "file" / "mlflow.db")


def test_processes_may_meet_in_a_fresh_store(tmp_path):
    code = "import sys, pathlib, recap.tracking.store as s; s.init_store(pathlib.Path(sys.argv[1]))"
    store = tmp_path / "mlflow" / "mlflow.db"
    jobs = [subprocess.Popen([sys.executable, "-c", code, str(store)]) for _ in range(2)]
    assert [job.wait() for job in jobs] == [0, 0]
    assert [path.name for path in store.parent.iterdir() if path.suffix == ".part"] == []
