"""Provenance goes with the results:
a clone makes nothing again that is right, and what changed there as ever."""

import json
import os

import pytest

from helpers.toy_workflow import Toy

CORPUS, SUMMARY = "results/data/corpus.txt", "results/summary.txt"
FIRST, SECOND = "results/runs/1.txt", "results/runs/2.txt"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    toy = Toy(tmp_path_factory.mktemp("toy"))
    done = toy.snakemake()
    assert done.returncode == 0, done.stderr
    return toy


@pytest.fixture
def clone(finished, tmp_path):
    return finished.cloned(tmp_path)


def test_a_clone_with_pulled_results_makes_nothing_again(clone):
    assert clone.planned() == set()
    assert clone.planned() == set()


def test_a_changed_rate_in_a_clone_trains_what_depends_on_it(clone):
    assert clone.planned(rate=2) == {FIRST, SECOND, SUMMARY}


@pytest.mark.slow
def test_outside_files_count_by_their_content_in_a_clone(clone):
    for file in (clone.inputs / "captions.txt", clone.inputs / "photos"):
        os.utime(file)
    assert clone.planned() == set()


@pytest.mark.slow
@pytest.mark.parametrize("file", ["captions.txt", "photos/1.jpg"])
def test_other_outside_files_in_a_clone_are_noticed_even_if_they_are_old(clone, file):
    (clone.inputs / file).write_text("cat")
    for path in (clone.inputs / file, clone.inputs / "photos"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    assert clone.planned() == {CORPUS, FIRST, SECOND, SUMMARY}


@pytest.mark.slow
def test_missing_outside_files_are_not_missed_while_what_was_made_of_them_is_there(clone):
    (clone.inputs / "captions.txt").unlink()
    assert clone.planned() == set()


def test_a_changed_file_is_refused_by_name_and_not_given_a_history(clone):
    path = clone.folder / SECOND
    path.write_bytes(path.read_bytes().replace(b"dog", b"dig"))
    done = clone.snakemake("--dry-run")
    assert done.returncode == 1
    assert f"recap: {SECOND}: changed since made" in done.stderr
    path.unlink()
    assert clone.planned() == {SECOND, SUMMARY}


@pytest.mark.slow
def test_what_is_made_again_with_the_same_bytes_leaves_the_provenance_as_it_is(clone):
    before = {file: file.read_bytes() for file in clone.folder.rglob(".provenance.json")}
    done = clone.snakemake("--forceall")
    assert done.returncode == 0, done.stderr
    assert {file: file.read_bytes() for file in clone.folder.rglob(".provenance.json")} == before
    assert clone.planned() == set()


@pytest.mark.slow
def test_results_made_from_an_older_corpus_are_made_again_in_a_clone(finished, tmp_path):
    other = finished.cloned(tmp_path / "other")
    (other.inputs / "captions.txt").write_text("a cat\n")
    done = other.snakemake(CORPUS)
    assert done.returncode == 0, done.stderr
    clone = other.cloned(tmp_path / "clone")
    (clone.inputs / "captions.txt").write_text("a cat\n")
    assert clone.planned() == {FIRST, SECOND, SUMMARY}


def test_provenance_names_no_folder_of_the_machine(finished):
    for file in finished.folder.rglob(".provenance.json"):
        assert str(finished.folder.parent) not in file.read_text()
    kept = json.loads((finished.folder / "results" / "data" / ".provenance.json").read_text())[
        "files"
    ]
    assert "<inputs>/captions.txt" in kept[CORPUS]["inputs"]
