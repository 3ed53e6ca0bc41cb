"""Nothing gets its name before it was checked:
hashes, sizes, forms, local copies, and the list itself."""

import gzip

import pytest

from helpers.fetching import (
    fetch,
    flipped,
    left,
    line,
    listed,
    noise,
    sha,
    with_evil_member,
    zipped,
)
from helpers.refusals import refused
from helpers.web_server import serve
from recap.core.errors import DataError
from recap.data.files.fetch import record_of


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256"])
def test_any_published_hash(tmp_path, algorithm):
    content = noise(1000)
    with serve({"a": content}) as site:
        (result,) = fetch(
            listed(tmp_path, line("d/a", f"{site.url}/a", content, algorithm=algorithm)), tmp_path
        )
    assert result.sha256 == sha(content)
    assert result.checked == f"published {algorithm}"


def test_wrong_bytes_never_get_the_name(tmp_path):
    content = noise(300_000)
    with serve({"a": noise(300_000, 1)}) as site:
        files = listed(tmp_path, line("d/a", f"{site.url}/a", content))
        with refused(DataError, "d/a: ", "sha256", "published"):
            fetch(files, tmp_path)
        assert left(tmp_path) == []
        site.files["a"] = content
        fetch(files, tmp_path)
    assert left(tmp_path) == ["a", "a.fetched.json"]


def test_another_size_is_refused_before_it_is_fetched(tmp_path):
    with serve({"a": noise(5_000_000)}) as site:
        with refused(DataError, "d/a: ", "5000000 bytes", "7"):
            fetch(listed(tmp_path, line("d/a", f"{site.url}/a", b"content", size=7)), tmp_path)
        assert site.sent.get("a", 0) < 5_000_000


def test_without_a_published_hash_the_first_one_is_kept(tmp_path):
    with serve({"a.zip": zipped(2000)}) as site:
        files = listed(tmp_path, line("d/a.zip", f"{site.url}/a.zip"))
        (result,) = fetch(files, tmp_path)
        assert "no hash is published" in result.checked
        assert result.sha256 in record_of(result.path).read_text()
        result.path.unlink()
        site.files["a.zip"] = zipped(3000)
        with refused(DataError, "d/a.zip", "sha256", "first fetch"):
            fetch(files, tmp_path)
    assert left(tmp_path) == ["a.zip.fetched.json"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.zip", b"<html>gone", "a web page"),
        ("a.zip", zipped()[:-30], "File is not a zip file"),
        ("a.zip", flipped(zipped(), 500), "the check sum of 'a.bin' is wrong|Bad CRC-32"),
        ("a.tgz", b"\x1f\x8b\x08\x00abc", "truncated or damaged"),
        ("a.tsv", b"", "is empty"),
        ("a.zip", with_evil_member(zipped()), "holds the unsafe name '../../evil'"),
        (
            "a.tgz",
            with_evil_member(gzip.compress(bytes(10240))),
            "holds the unsafe name '../../evil'",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "bytes",  # gzip holds the time
)
def test_without_any_hash_the_form_is_checked(tmp_path, name, content, message):
    with serve({name: content}) as site, pytest.raises(DataError, match=message):
        fetch(listed(tmp_path, line(f"d/{name}", f"{site.url}/{name}")), tmp_path)
    assert left(tmp_path) == []


@pytest.mark.parametrize("where", ["file", "folder", "tree"])
def test_a_local_copy_is_taken_and_verified(tmp_path, where):
    content = noise(1000)
    files = listed(tmp_path, line("d/a", "http://127.0.0.1:9/never", content))
    place = {
        "file": tmp_path / "mine/a",
        "folder": tmp_path / "mine/a",
        "tree": tmp_path / "mine/d/a",
    }[where]
    place.parent.mkdir(parents=True)
    source = place if where == "file" else tmp_path / "mine"
    place.write_bytes(noise(1000, 1))
    with refused(DataError, tmp_path / "mine", "/a: ", "sha256", "published"):
        fetch(files, tmp_path, source=source)
    assert left(tmp_path) == [] if (tmp_path / "in").exists() else True
    place.write_bytes(content)
    (result,) = fetch(files, tmp_path, source=source)
    assert (result.how, result.path.read_bytes()) == ("copied", content)
    with refused(DataError, "d/b", "--from"):
        fetch(
            listed(tmp_path, line("d/b", "http://127.0.0.1:9/never", content)),
            tmp_path,
            source=source,
        )


def test_one_failure_leaves_the_others_fetched(tmp_path):
    contents = {name: noise(1000) for name in "abc"}
    with serve({"a": contents["a"], "c": contents["c"]}) as site:
        files = listed(
            tmp_path, *(line(f"d/{name}", f"{site.url}/{name}", contents[name]) for name in "abc")
        )
        with refused(DataError, "d/b: ", "404"):
            fetch(files, tmp_path)
    assert left(tmp_path) == ["a", "a.fetched.json", "c", "c.fetched.json"]
