"""The real list of outside files: it parses, and it has what the shipped settings name."""

import pytest

from helpers.plans import PARAMS
from helpers.refusals import refused
from recap.core.errors import ConfigError, DataError
from recap.data.files.download import Transfer
from recap.data.files.fetch import fetch_files
from recap.settings.params import load_named
from recap.settings.versions import entry_of, read_versions


def shipped(section):
    return [
        load_named(PARAMS, section, file.stem) for file in sorted((PARAMS / section).glob("*.yaml"))
    ]


def test_every_outside_file_that_a_shipped_yaml_names_is_listed():
    named = [file for spec in shipped("datasets") for file in spec.vocabulary.outside_files()]
    for spec in (*shipped("datasets"), *shipped("features")):
        named += spec.outside_files()
    assert len(named) >= 30
    files = read_versions(PARAMS / "data_versions.csv")
    assert [name for name in named if entry_of(name, files) is None] == []
    conceptual = load_named(PARAMS, "datasets", "conceptual")
    assert files[conceptual.train].urls and files[conceptual.validation].urls


def test_a_file_of_the_users_own_says_where_it_comes_from(tmp_path):
    file = read_versions(PARAMS / "data_versions.csv")["iu_xray/indiana_projections.csv"]
    with refused(DataError, file.name, "Kaggle", tmp_path / "in" / file.name):
        fetch_files([file], into=tmp_path / "in", transfer=Transfer())
    (tmp_path / "indiana_projections.csv").write_text("uid,filename,projection\n")
    fetch_files([file], into=tmp_path / "in", source=tmp_path, transfer=Transfer())
    assert (tmp_path / "in" / file.name).is_file()


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("d/a,1,own,http://x/a,,,,none,,from there", ["line 2", "`urls`", "role"]),
        ("d/a,1,primary,,,,,none,,", ["line 2", "`urls`", "role"]),
        ("d/a,1,own,,,,,none,,", ["line 2", "'own'", "note"]),
        ("d/a,1,unpacked,,,,,none,,", ["line 2", "`archive`", "unpacked"]),
        ("d/a,1,primary,http://x/a,md5,,,none,,", ["line 2", "`algorithm`", "`hash`"]),
        ("d/a,1,unpacked,,,,,none,,,d/b.zip,*", ["'d/b.zip'", "'d/a'"]),
        ("d/a,1,own,,,,,none,,x\nd/a,1,primary,http://x/a,,,,none,,", ["'d/a'", "line 3"]),
    ],
)
def test_lines_that_contradict_themselves(tmp_path, line, named):
    path = tmp_path / "list.csv"
    path.write_text(
        "name,version,role,url,algorithm,hash,bytes,licence,checked_on,note,archive,members\n"
        f"{line}\n"
    )
    with refused(ConfigError, "list.csv", *named):
        read_versions(path)


def test_what_rows_load_from_the_hub_is_listed_with_bytes_and_licence():
    files = read_versions(PARAMS / "data_versions.csv")
    named = {spec.hub() for spec in shipped("features")}
    named |= {getattr(spec.vocabulary, "tokenizer", None) for spec in shipped("datasets")}
    entries = {
        name: files[name.partition("@")[0].replace("hub:", "hub/")] for name in named - {None}
    }
    assert len(entries) >= 12
    assert all(entry.bytes and entry.licence for entry in entries.values())
    for name, entry in entries.items():
        assert name.partition("@")[2] in ("", entry.version)
