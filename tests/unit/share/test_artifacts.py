"""`recap artifacts verify`: every changed, missing,
damaged or unlisted file of a results folder is named."""

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from helpers.commands import printed
from helpers.refusals import refused
from recap.cli import main
from recap.core import checksums
from recap.core.errors import MissingFile, RecapError
from recap.core.hashing import sha256_file
from recap.plan import records
from recap.share.artifacts import problems

RUN = "results/tiny/runs/a/seed-1/xe"


@pytest.fixture
def results(tmp_path):
    """Results in two folders with lists: the files of a run,
    and statistics with the summary beside them."""
    folder = tmp_path / "results" / "tiny"
    run, statistics = tmp_path / RUN, folder / "statistics"
    run.mkdir(parents=True)
    statistics.mkdir()
    (run / "config.yaml").write_text("spec: {}\n")
    save_file({"weight": np.ones(1000, np.float32)}, run / "model.safetensors")
    pd.DataFrame({"x": np.arange(1000)}).to_parquet(run / "scores.parquet")
    checksums.record(run / "config.yaml")
    (statistics / "tiny.json").write_text("{}")
    (folder / "summary.json").write_text("{}")
    listed = {"runs": [f"{RUN}/model.safetensors"]}
    listed["statistics"] = ["results/tiny/statistics/tiny.json", "results/tiny/summary.json"]
    for home, files in listed.items():
        records.write_provenance(
            folder / home, {file: {"sha256": sha256_file(tmp_path / file)} for file in files}
        )
    return folder


def test_whole_results_have_no_problem(results, capsys, monkeypatch):
    monkeypatch.chdir(results.parent)
    for folder in (results, results.relative_to(results.parent)):
        assert "every file is what it was" in printed(capsys, "artifacts", "verify", folder)


@pytest.mark.parametrize(
    "name", ["runs/a/seed-1/xe/config.yaml", "runs/a/seed-1/xe/model.safetensors", "summary.json"]
)
def test_a_flipped_bit_is_named_and_the_status_is_two(results, name, capsys):
    data = bytearray((results / name).read_bytes())
    data[-1] ^= 1
    (results / name).write_bytes(data)
    with pytest.raises(SystemExit) as stopped:
        main(["artifacts", "verify", str(results)])
    assert stopped.value.code == 2
    streams = capsys.readouterr()
    assert f"{results / name}: changed since made" in streams.out
    assert streams.err.strip() == f"recap: {results}: 1 problem"


@pytest.mark.parametrize(
    "name", ["runs/a/seed-1/xe/config.yaml", "statistics/tiny.json", "summary.json"]
)
def test_a_missing_file_is_named(results, name):
    (results / name).unlink()
    (sentence,) = problems(results)
    assert sentence.startswith(f"{results / name}: missing")


def test_a_file_that_no_list_names_is_a_problem(results):
    stray = results / "runs" / "a" / "seed-1" / "xe" / ".config.yaml.x.part"
    stray.write_text("")
    (sentence,) = problems(results)
    assert sentence.startswith(f"{stray}: in no list")


def test_an_unlisted_table_with_damaged_pages_is_found_by_reading_it(results):
    table = results / "runs" / "a" / "seed-1" / "xe" / "scores.parquet"
    table.write_bytes(table.read_bytes()[:200])
    (sentence,) = problems(results)
    assert sentence.startswith(f"{table}: ") and "restore it" in sentence


def test_a_damaged_list_is_a_problem_and_the_rest_is_checked_still(results):
    (results / "runs" / records.PROVENANCE).write_text("{")
    (results / "statistics" / "tiny.json").write_text("[]")
    sentences = "\n".join(problems(results))
    assert "not valid JSON" in sentences and "tiny.json: changed" in sentences


def test_every_flipped_bit_of_a_provenance_file_is_a_problem(results):
    path = results / "runs" / records.PROVENANCE
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        path.write_bytes(
            content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]
        )
        assert list(problems(results)), (place, content[place : place + 20])


def test_a_folder_without_lists_is_refused(tmp_path):
    with refused(RecapError, tmp_path, "SHA256SUMS", ".provenance.json"):
        list(problems(tmp_path))
    with refused(MissingFile, "gone"):
        list(problems(tmp_path / "gone"))
