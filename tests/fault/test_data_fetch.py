"""Downloads that are killed, cut, refused, stalled or swapped: complete and right in the end, or one sentence."""

import hashlib
import io
import os
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from web_server import serve

from recap.core.errors import ConfigError, DataError
from recap.data import download as downloads
from recap.data.download import Transfer
from recap.data.fetch import fetch_files, record_of
from recap.data.versions import choose, read_versions

QUICK = Transfer(timeout=2.0, pause=0.01)
HEAD = "name,version,role,url,algorithm,hash,bytes,licence,checked_on,note\n"


def noise(size, seed=0):
    return np.random.default_rng(seed).bytes(size)


def zipped(size=2000):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a.bin", noise(size))
    return content.getvalue()


def sha(content):
    return hashlib.sha256(content).hexdigest()


def line(name, url, content=None, *, role="primary", algorithm="sha256", size=""):
    digest = "" if content is None else hashlib.new(algorithm, content).hexdigest()
    return f"{name},1,{role},{url},{algorithm if digest else ''},{digest},{size},none,,\n"


def listed(tmp_path, *lines):
    (tmp_path / "list.csv").write_text(HEAD + "".join(lines))
    return list(read_versions(tmp_path / "list.csv").values())


def fetch(files, tmp_path, **options):
    return fetch_files(files, into=tmp_path / "in", **{"transfer": QUICK, **options})


def left(tmp_path):
    return sorted(path.name for path in (tmp_path / "in").rglob("*") if path.is_file())


def test_several_at_once_and_again(tmp_path):
    contents = {f"{number}.bin": noise(200_000, number) for number in range(4)}
    with serve(contents) as site:
        files = listed(tmp_path, *(line(f"d/{n}", f"{site.url}/{n}", c, size=len(c)) for n, c in contents.items()))
        assert [result.how for result in fetch(files, tmp_path)] == ["downloaded"] * 4
        assert {name: (tmp_path / "in" / "d" / name).read_bytes() for name in contents} == contents
        requests = len(site.requests)
        assert [result.how for result in fetch(files, tmp_path)] == ["there"] * 4
        assert len(site.requests) == requests
    assert left(tmp_path) == sorted([*contents, *(f"{name}.fetched.json" for name in contents)])


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256"])
def test_any_published_hash(tmp_path, algorithm):
    content = noise(1000)
    with serve({"a": content}) as site:
        (result,) = fetch(listed(tmp_path, line("d/a", f"{site.url}/a", content, algorithm=algorithm)), tmp_path)
    assert result.sha256 == sha(content)
    assert result.checked == f"published {algorithm}"


@pytest.mark.parametrize(
    "faults",
    [
        [(429, {"Retry-After": "0"}), (503, {})],
        [[100_000], [200_000], [0]],
        [[150_000, "stall"]],
        [(500, {}), [70_000], (502, {})],
    ],
    ids=["refused for now", "truncated", "stalled", "mixed"],
)
def test_passing_faults(tmp_path, faults):
    content = noise(700_000)
    with serve({"a": content}, faults={"a": faults}) as site:
        fetch(listed(tmp_path, line("d/a", f"{site.url}/a", content)), tmp_path, transfer=Transfer(1.0, 0.01))
        assert site.sent["a"] <= len(content) + 3 * downloads.CHUNK
    assert (tmp_path / "in/d/a").read_bytes() == content
    assert left(tmp_path) == ["a", "a.fetched.json"]


def test_retry_after_is_honoured(tmp_path):
    content = noise(1000)
    with serve({"a": content}, faults={"a": [(429, {"Retry-After": "1"})]}) as site:
        start = time.monotonic()
        fetch(listed(tmp_path, line("d/a", f"{site.url}/a", content)), tmp_path)
        assert time.monotonic() - start >= 1.0
        assert len(site.requests) == 2


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ((404, {}), "answered 404"),
        ((403, {}), "answered 403"),
        ((429, {"Retry-After": "1800"}), "asks to wait 1800 seconds"),
        ("html", "answers with a web page, not with the file"),
    ],
)
def test_a_lasting_refusal_goes_to_the_mirror_or_is_one_sentence(tmp_path, fault, message):
    content = zipped()
    with serve({"a.zip": content, "b.zip": content}, faults={"a.zip": [fault] * 2}) as site:
        alone = listed(tmp_path, line("d/a.zip", f"{site.url}/a.zip", content))
        with pytest.raises(DataError) as caught:
            fetch(alone, tmp_path)
        assert message in str(caught.value)
        assert "d/a.zip: could not be fetched" in str(caught.value)
        assert "--from" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert left(tmp_path) == []
        mirror = line("d/a.zip", f"{site.url}/b.zip", content, role="mirror")
        fetch(listed(tmp_path, line("d/a.zip", f"{site.url}/a.zip", content), mirror), tmp_path)
    assert (tmp_path / "in/d/a.zip").read_bytes() == content


def test_a_dead_server_is_given_up(tmp_path):
    with serve({}) as site:
        url = site.url
    with pytest.raises(DataError, match=f"broke off .*, {downloads.TRIES} times in a row"):
        fetch(listed(tmp_path, line("d/a", f"{url}/a", b"x")), tmp_path)
    assert left(tmp_path) == []


def test_wrong_bytes_never_get_the_name(tmp_path):
    content = noise(300_000)
    with serve({"a": noise(300_000, 1)}) as site:
        files = listed(tmp_path, line("d/a", f"{site.url}/a", content))
        with pytest.raises(DataError, match="as published"):
            fetch(files, tmp_path)
        assert left(tmp_path) == []
        site.files["a"] = content
        fetch(files, tmp_path)
    assert left(tmp_path) == ["a", "a.fetched.json"]


def test_another_size_is_refused_before_it_is_fetched(tmp_path):
    with serve({"a": noise(5_000_000)}) as site:
        with pytest.raises(DataError, match="offers 5000000 bytes where the list of files says 7"):
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
        with pytest.raises(DataError, match="was recorded at the first fetch"):
            fetch(files, tmp_path)
    assert left(tmp_path) == ["a.zip.fetched.json"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.zip", b"<html>gone", "is a web page"),
        ("a.zip", zipped()[:-30], "is no whole zip"),
        ("a.tgz", b"\x1f\x8b\x08\x00abc", "is no whole gzip"),
        ("a.tsv", b"", "is empty"),
    ],
)
def test_without_any_hash_the_form_is_checked(tmp_path, name, content, message):
    with serve({name: content}) as site, pytest.raises(DataError, match=message):
        fetch(listed(tmp_path, line(f"d/{name}", f"{site.url}/{name}")), tmp_path)
    assert left(tmp_path) == []


def test_a_file_damaged_later_is_named(tmp_path):
    content = noise(1000)
    with serve({"a": content}) as site:
        files = listed(tmp_path, line("d/a", f"{site.url}/a", content))
        fetch(files, tmp_path)
        (tmp_path / "in/d/a").write_bytes(content[:-1] + b"!")
        with pytest.raises(DataError, match="in/d/a: its sha256 is"):
            fetch(files, tmp_path)


@pytest.mark.parametrize("where", ["file", "folder", "tree"])
def test_a_local_copy_is_taken_and_verified(tmp_path, where):
    content = noise(1000)
    files = listed(tmp_path, line("d/a", "http://127.0.0.1:9/never", content))
    place = {"file": tmp_path / "mine/a", "folder": tmp_path / "mine/a", "tree": tmp_path / "mine/d/a"}[where]
    place.parent.mkdir(parents=True)
    source = place if where == "file" else tmp_path / "mine"
    place.write_bytes(noise(1000, 1))
    with pytest.raises(DataError, match="as published"):
        fetch(files, tmp_path, source=source)
    assert left(tmp_path) == [] if (tmp_path / "in").exists() else True
    place.write_bytes(content)
    (result,) = fetch(files, tmp_path, source=source)
    assert (result.how, result.path.read_bytes()) == ("copied", content)
    with pytest.raises(DataError, match=r"holds no d/b \(nor b\)"):
        fetch(listed(tmp_path, line("d/b", "http://127.0.0.1:9/never", content)), tmp_path, source=source)


def test_one_failure_leaves_the_others_fetched(tmp_path):
    contents = {name: noise(1000) for name in "abc"}
    with serve({"a": contents["a"], "c": contents["c"]}) as site:
        files = listed(tmp_path, *(line(f"d/{name}", f"{site.url}/{name}", contents[name]) for name in "abc"))
        with pytest.raises(DataError, match="d/b: could not be fetched"):
            fetch(files, tmp_path)
    assert left(tmp_path) == ["a", "a.fetched.json", "c", "c.fetched.json"]


def begun(tmp_path, files, site, name="a", at=400_000):
    """Fetch up to a break at ``at`` bytes and leave the part file."""
    site.faults[name] = [[at], *[(404, {})] * 9]
    with pytest.raises(DataError):
        fetch(files, tmp_path)
    site.faults[name] = []
    assert (tmp_path / f"in/d/{name}.part").stat().st_size == at


@pytest.mark.parametrize("hashed", [True, False])
def test_a_file_that_changed_meanwhile_starts_anew(tmp_path, hashed):
    old, new = noise(900_000), noise(900_000, 1)
    with serve({"a": old}) as site:
        files = listed(tmp_path, line("d/a", f"{site.url}/a", new if hashed else None))
        begun(tmp_path, files, site)
        site.files["a"] = new
        fetch(files, tmp_path)
        assert site.starts("a")[-1] == 400_000
    assert (tmp_path / "in/d/a").read_bytes() == new


def test_a_server_that_cannot_tell_a_change_is_not_trusted(tmp_path):
    old, new = noise(900_000), noise(900_000, 1)
    with serve({"a": old}, etags={"a": ""}) as site:
        unhashed = listed(tmp_path, line("d/a", f"{site.url}/a"))
        begun(tmp_path, unhashed, site)
        site.files["a"] = new
        fetch(unhashed, tmp_path)
        assert site.starts("a")[-1] == 0
        assert (tmp_path / "in/d/a").read_bytes() == new
    # With a published hash it is continued, found wrong, and fetched whole.
    with serve({"b": old}, etags={"b": ""}) as site:
        hashed = listed(tmp_path, line("d/b", f"{site.url}/b", new))
        begun(tmp_path, hashed, site, "b")
        site.files["b"] = new
        fetch(hashed, tmp_path)
        assert site.starts("b")[-2:] == [400_000, 0]
        assert (tmp_path / "in/d/b").read_bytes() == new


def test_a_server_without_ranges_starts_anew(tmp_path):
    content = noise(900_000)
    with serve({"a": content}, ranges=False) as site:
        files = listed(tmp_path, line("d/a", f"{site.url}/a", content))
        begun(tmp_path, files, site)
        fetch(files, tmp_path)
    assert (tmp_path / "in/d/a").read_bytes() == content


def test_the_mirror_continues_where_the_first_address_died(tmp_path):
    content = noise(900_000)
    with serve({"a": content, "b": content}, faults={"a": [[500_000], *[(404, {})] * 9]}) as site:
        mirror = line("d/a", f"{site.url}/b", content, role="mirror")
        fetch(listed(tmp_path, line("d/a", f"{site.url}/a", content), mirror), tmp_path)
        assert site.starts("b") == [500_000]
    assert (tmp_path / "in/d/a").read_bytes() == content


def test_one_file_is_fetched_by_one_process(tmp_path):
    files = listed(tmp_path, line("d/a", "http://127.0.0.1:9/a", b"x"))
    with downloads.locked_part(tmp_path / "in/d/a.part"), pytest.raises(DataError, match="another process is fetching"):
        fetch(files, tmp_path)


def test_a_killed_download_goes_on_where_it_was(tmp_path):
    content = noise(8 * 2**20)
    with serve({"a": content}, block=16 * 1024, delay=0.001) as site:
        listed(tmp_path, line("d/a", f"{site.url}/a", content))
        command = [sys.executable, "-m", "recap", "data", "fetch", "d/a"]
        command += ["--list", str(tmp_path / "list.csv"), "--into", str(tmp_path / "in")]
        part = tmp_path / "in/d/a.part"
        kept = [0]
        for share in (0.02, 0.3, 0.6, 0.95):
            child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            while not (part.exists() and part.stat().st_size >= share * len(content)):
                assert child.poll() is None
                time.sleep(0.001)
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            kept.append(part.stat().st_size)
            assert not (tmp_path / "in/d/a").exists()
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert sha(content) in done.stdout
        # Nothing that reached the disk is fetched twice.
        assert site.starts("a") == kept
    assert (tmp_path / "in/d/a").read_bytes() == content
    assert left(tmp_path) == ["a", "a.fetched.json"]


def test_a_download_killed_before_it_got_its_name(tmp_path):
    content = noise(300_000)
    with serve({"a": content}) as site:
        files = listed(tmp_path, line("d/a", f"{site.url}/a", content))
        begun(tmp_path, files, site, at=300_000 - 1)
        (tmp_path / "in/d/a.part").write_bytes(content)
        fetch(files, tmp_path)
        assert site.sent["a"] < len(content) + 10
    assert (tmp_path / "in/d/a").read_bytes() == content


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["d/a,1,primary,ftp://x/a,,,,none,,\n"], "line 2"),
        (["../a,1,primary,http://x/a,,,,none,,\n"], "is no name of the form dataset/file"),
        (["d/a,1,primary,http://x/a,sha256,abc,,none,,\n"], "a sha256 has 64 hex digits"),
        (["d/a,1,primary,http://x/a,,,seven,none,,\n"], "bytes"),
        (["d/a,1,primary,http://x/a,,,,none,,,more\n"], "line 2"),
        (["d/a,1,primary\n"], "line 2"),
        (["d/a,1,mirror,http://x/a,,,,none,,\n"], "needs exactly one line with the role 'primary'"),
        (["d/a,1,primary,http://x/a,,,5,none,,\n", "d/a,1,mirror,http://y/a,,,6,none,,\n"], "differ in 'bytes'"),
    ],
)
def test_a_spoilt_list(tmp_path, lines, message):
    with pytest.raises(ConfigError) as caught:
        listed(tmp_path, *lines)
    assert message in str(caught.value)
    assert "list.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_and_patterns(tmp_path):
    listed(tmp_path, *(line(f"d/{name}", f"http://x/{name}") for name in ("a.zip", "b.zip", "c.tgz")))
    files = read_versions(tmp_path / "list.csv")
    assert [file.name for file in choose(files, ["d/*.zip", "d/a.zip"])] == ["d/a.zip", "d/b.zip"]
    with pytest.raises(ConfigError, match="did you mean 'd/c.tgz'"):
        choose(files, ["d/c.tgs"])
