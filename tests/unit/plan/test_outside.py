"""All missing outside files of a plan at once: what each is, and which of them rules make."""

import logging
import shutil
from pathlib import Path

import pytest
import yaml

from helpers.plans import edited
from helpers.refusals import refused
from helpers.tiny_workspace import ROOT
from recap.core.errors import ConfigError
from recap.plan.outside import acquired, line, requirements
from recap.plan.paths import Paths
from recap.plan.profiles import load_plan

HEAD = "name,version,role,url,algorithm,hash,bytes,licence,checked_on,note,archive,members\n"
LIST = """web/a.zip,1,primary,http://h/a.zip,,,2147483648,CC BY 4.0,,,,
web/a.zip,1,mirror,http://i/a.zip,,,2147483648,CC BY 4.0,,,,
own/pack.zip,1,own,,,,,none,,1. ask; 2. put it there,,
web/a,1,unpacked,,,,,CC BY 4.0,,,web/a.zip,a/*.tsv
own/b,1,unpacked,,,,,none,,,own/pack.zip,*
hub/openai-community/gpt2,607a,hub,,,,548105171,MIT,,,,
"""


@pytest.fixture
def params(tmp_path, monkeypatch):
    """A copy of the tiny parameters with a list of outside files, in the working folder."""
    monkeypatch.chdir(tmp_path)
    params = Path(shutil.copytree(ROOT / "tests" / "workflow" / "params", tmp_path / "params"))
    (params / "data_versions.csv").write_text(HEAD + LIST)
    return params


def needing(params, *sources, fetch=True):
    """Return the paths of a plan whose features are imported from these files."""
    edited(params, "features/tiny_imported.yaml", sources=list(sources))
    table = yaml.safe_load((params / "tables/tiny.yaml").read_text())
    edited(params, "tables/tiny.yaml", rows=[{**table["rows"][0], "features": "tiny_imported"}], figures=[])
    profile = yaml.safe_load((params / "tiny.yaml").read_text())
    return Paths(load_plan({**profile, "inputs": "in", "fetch": fetch}))


def test_what_is_unpacked_brings_its_archive_unless_that_is_there(params):
    paths = needing(params, "web/a/x.tsv", "web/a/y.tsv")
    result = requirements(paths)
    assert [(each.path, each.how, each.entry.name) for each in result] == [
        ("in/web/a/x.tsv", "unpack", "web/a"),
        ("in/web/a.zip", "fetch", "web/a.zip"),
        ("in/web/a/y.tsv", "unpack", "web/a"),
    ]
    assert result[0].archive == result[1].entry
    jobs = acquired(result, paths)
    assert (jobs.fetched, jobs.archives) == ({}, {"in/web/a.zip": "web/a.zip"})
    assert jobs.unpacked == {"in/web/a/x.tsv": "web/a", "in/web/a/y.tsv": "web/a"}
    Path("in/web").mkdir(parents=True)
    Path("in/web/a.zip").touch()
    assert [each.path for each in requirements(paths)] == ["in/web/a/x.tsv", "in/web/a/y.tsv"]


def test_an_archive_of_the_users_own_is_by_hand_and_what_it_holds_is_not(params):
    paths = needing(params, "own/b/x.tsv")
    assert [(each.path, each.how) for each in requirements(paths)] == [
        ("in/own/b/x.tsv", "unpack"),
        ("in/own/pack.zip", "hand"),
    ]
    with refused(ConfigError, "in/own/pack.zip"):
        acquired(requirements(paths), paths)


def test_all_missing_files_are_said_at_once_with_address_or_steps_bytes_and_licence(params, caplog):
    paths = needing(params, "web/a.zip", "own/pack.zip", "nobody/knows.tsv", fetch=False)
    with caplog.at_level(logging.INFO), pytest.raises(ConfigError) as refusal:
        acquired(requirements(paths), paths)
    named = "(features/tiny_imported.yaml)"
    assert [record.getMessage() for record in caplog.records] == [
        f"recap: missing: in/web/a.zip {named}; http://h/a.zip or http://i/a.zip; 2 GiB; CC BY 4.0",
        f"recap: missing: in/own/pack.zip {named}; by hand: 1. ask; 2. put it there; size not known; none",
        f"recap: missing: in/nobody/knows.tsv {named}; not in the list of outside files: put it there",
    ]
    assert "--config fetch=true inputs=in" in str(refusal.value)


def test_a_folder_that_holds_a_listed_archive_is_not_taken_for_the_archive(params):
    paths = needing(params, "web/a.zip/x.tsv")
    assert [each.how for each in requirements(paths)] == ["hand"]


def test_weights_and_tokenizers_of_the_hub_are_said_with_their_revision(params):
    edited(params, "features/tiny_grid.yaml", weights="pretrained", revision="a" * 40)
    pairs = {"kind": "bpe", "tokenizer": "hub:openai-community/gpt2", "max_length": 9}
    edited(params, "datasets/tiny_scenes.yaml", vocabulary=pairs)
    paths = Paths(load_plan(yaml.safe_load((params / "tiny.yaml").read_text())))
    needed = {each.path: each for each in requirements(paths)}
    assert {each.how for each in needed.values()} == {"hub"}
    assert needed[f"hub:timm/test_resnet@{'a' * 40}"].entry is None
    assert line(needed["hub:openai-community/gpt2"]).endswith(
        "(datasets/tiny_scenes.yaml); from the hub; 0.51 GiB; MIT"
    )
    assert acquired(list(needed.values()), paths).fetched == {}
