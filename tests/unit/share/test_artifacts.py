"""`recap artifacts verify`: every changed, missing,
damaged or unlisted file of a results folder is named."""

import numpy as np
import pandas as pd
import pytest
import torch

from helpers.commands import printed
from helpers.refusals import refused
from recap.cli import main
from recap.core import checksums
from recap.core.errors import MissingFile
from recap.runs.folder import save_weights
from recap.share.artifacts import problems

RUN = "results/tiny/runs/a/seed-1/xe"


@pytest.fixture
def results(tmp_path):
    """Results with a list in each folder: a run and statistics; the summary is in none."""
    folder = tmp_path / "results" / "tiny"
    run, statistics = tmp_path / RUN, folder / "statistics"
    run.mkdir(parents=True)
    statistics.mkdir()
    (run / "config.yaml").write_text("spec: {}\n")
    save_weights(run / "model.safetensors", {"weight": torch.ones(1000)})
    pd.DataFrame({"x": np.arange(1000)}).to_parquet(run / "scores.parquet")
    checksums.record(run / "config.yaml")
    (statistics / "tiny.json").write_text("{}")
    (folder / "summary.json").write_text("{}")
    checksums.record(statistics / "tiny.json")
    return folder


def test_whole_results_have_no_problem(results, capsys, monkeypatch):
    monkeypatch.chdir(results.parent)
    for folder in (results, results.relative_to(results.parent)):
        assert "every file is what it was" in printed(capsys, "artifacts", "verify", folder)


@pytest.mark.parametrize(
    "name",
    ["runs/a/seed-1/xe/config.yaml", "runs/a/seed-1/xe/model.safetensors", "statistics/tiny.json"],
)
def test_a_flipped_bit_is_named_and_the_status_is_two(results, name, capsys):
    data = bytearray((results / name).read_bytes())
    data[-1] ^= 1
    (results / name).write_bytes(data)
    with pytest.raises(SystemExit) as stopped:
        main(["artifacts", "verify", str(results)])
    assert stopped.value.code == 2
    streams = capsys.readouterr()
    assert f"{results / name}: " in streams.out
    assert streams.err.strip() == f"recap: {results}: 1 problem"


@pytest.mark.parametrize("name", ["runs/a/seed-1/xe/config.yaml", "statistics/tiny.json"])
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
    (results / "runs/a/seed-1/xe/SHA256SUMS").write_text("{")
    (results / "statistics" / "tiny.json").write_text("[]")
    sentences = "\n".join(problems(results))
    assert "SHA256SUMS: line 1" in sentences and "tiny.json: changed" in sentences


def test_every_flipped_bit_of_a_list_is_a_problem(results):
    path = results / "statistics" / "SHA256SUMS"
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        path.write_bytes(
            content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]
        )
        assert list(problems(results)), (place, content[place : place + 20])


def test_a_folder_without_lists_is_refused(tmp_path):
    with refused(MissingFile, tmp_path, "SHA256SUMS"):
        list(problems(tmp_path))
    with refused(MissingFile, "gone"):
        list(problems(tmp_path / "gone"))
