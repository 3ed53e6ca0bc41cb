"""Downloads that are killed, cut, refused, stalled or swapped:
complete and right in the end, or one sentence."""

import gzip
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import pytest

from helpers.fetching import fetch, left, line, listed, noise, sha, zipped
from helpers.web_server import serve
from recap.core.errors import DataError
from recap.data.files import download as downloads
from recap.data.files.download import Transfer


def test_several_at_once_and_again(tmp_path):
    contents = {f"{number}.bin": noise(200_000, number) for number in range(4)}
    with serve(contents) as site:
        files = listed(
            tmp_path,
            *(line(f"d/{n}", f"{site.url}/{n}", c, size=len(c)) for n, c in contents.items()),
        )
        assert [result.how for result in fetch(files, tmp_path)] == ["downloaded"] * 4
        assert {name: (tmp_path / "in" / "d" / name).read_bytes() for name in contents} == contents
        requests = len(site.requests)
        assert [result.how for result in fetch(files, tmp_path)] == ["there"] * 4
        assert len(site.requests) == requests
    assert left(tmp_path) == sorted([*contents, *(f"{name}.fetched.json" for name in contents)])


@pytest.mark.parametrize(
    "faults",
    [
        [(429, {"Retry-After": "1"}), (503, {})],
        [[100_000], [200_000], [0]],
        [[150_000, "stall"]],
        [(500, {}), [70_000], (502, {})],
    ],
    ids=["refused for now", "truncated", "stalled", "mixed"],
)
def test_passing_faults(tmp_path, faults):
    content, start = noise(700_000), time.monotonic()
    with serve({"a": content}, faults={"a": list(faults)}) as site:
        fetch(
            listed(tmp_path, line("d/a", f"{site.url}/a", content)),
            tmp_path,
            transfer=Transfer(1.0, 0.01),
        )
        assert site.sent["a"] <= len(content) + 3 * downloads.CHUNK
    assert faults[0] != (429, {"Retry-After": "1"}) or time.monotonic() - start >= 1.0
    assert (tmp_path / "in/d/a").read_bytes() == content
    assert left(tmp_path) == ["a", "a.fetched.json"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ((404, {}), "answered 404"),
        ((403, {}), "answered 403"),
        ((429, {"Retry-After": "1800"}), "Retry-After: 1800 s"),
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
        assert left(tmp_path) == []
        mirror = line("d/a.zip", f"{site.url}/b.zip", content, role="mirror")
        fetch(listed(tmp_path, line("d/a.zip", f"{site.url}/a.zip", content), mirror), tmp_path)
    assert (tmp_path / "in/d/a.zip").read_bytes() == content


def test_a_dead_server_is_given_up(tmp_path):
    with serve({}) as site:
        url = site.url
    refused = rf"broke off \(Connection refused\), {downloads.TRIES} times in a row"
    with pytest.raises(DataError, match=refused):
        fetch(listed(tmp_path, line("d/a", f"{url}/a", b"x")), tmp_path)
    assert left(tmp_path) == []


def begun(tmp_path, files, site, name="a", at=400_000):
    """Fetch up to a break at ``at`` bytes and leave the part file."""
    site.faults[name] = [[at], *[(404, {})] * 9]
    with pytest.raises(DataError):
        fetch(files, tmp_path)
    site.faults[name] = []
    assert (tmp_path / f"in/d/{name}.part").stat().st_size == at


@pytest.mark.parametrize("server", [{"if_range": True}, {"if_range": False}, {"ranges": False}])
@pytest.mark.parametrize("hashed", [True, False])
def test_a_file_that_changed_meanwhile_starts_anew(tmp_path, hashed, server):
    old, new = noise(900_000), noise(900_000, 1)
    with serve({"a": old}, **server) as site:
        files = listed(tmp_path, line("d/a", f"{site.url}/a", new if hashed else None))
        begun(tmp_path, files, site)
        site.files["a"] = new
        fetch(files, tmp_path)
        assert site.starts("a")[-1] == (0 if server.get("if_range") is False else 400_000)
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


def test_the_mirror_continues_where_the_first_address_died(tmp_path):
    content = noise(900_000)
    with serve({"a": content, "b": content}, faults={"a": [[500_000], *[(404, {})] * 9]}) as site:
        mirror = line("d/a", f"{site.url}/b", content, role="mirror")
        fetch(listed(tmp_path, line("d/a", f"{site.url}/a", content), mirror), tmp_path)
        assert site.starts("b") == [500_000]
    assert (tmp_path / "in/d/a").read_bytes() == content


def test_a_length_that_is_always_too_large_ends(tmp_path):
    with serve({"a": noise(100_000)}, excess=10, ranges=False) as site:
        with pytest.raises(DataError, match=f"broke off .*, {downloads.TRIES} times in a row"):
            fetch(listed(tmp_path, line("d/a", f"{site.url}/a")), tmp_path)
        assert len(site.requests) == downloads.TRIES
    assert not (tmp_path / "in/d/a").exists()


@pytest.mark.parametrize("hashed", [True, False])
def test_what_is_packed_on_the_way_is_stored_as_it_is(tmp_path, hashed):
    content = b"caption\turl\n" * 9000
    with serve({"a.tsv": content}, packed=True, faults={"a.tsv": [[100]]}) as site:
        fetch(
            listed(tmp_path, line("d/a.tsv", f"{site.url}/a.tsv", content if hashed else None)),
            tmp_path,
        )
        assert site.starts("a.tsv") == [0, 0]
        # Some servers announce the packing of a file that is packed itself.
        site.files["b.gz"] = content
        fetch(listed(tmp_path, line("d/b.gz", f"{site.url}/b.gz")), tmp_path)
    assert (tmp_path / "in/d/a.tsv").read_bytes() == content
    assert gzip.decompress((tmp_path / "in/d/b.gz").read_bytes()) == content


def test_connections_that_are_reset_early_lose_nothing(tmp_path):
    content, early = noise(100_000), [[9000, "reset"]] * (downloads.TRIES + 2)
    with serve({"a": content}, faults={"a": early}, block=3000) as site:
        fetch(listed(tmp_path, line("d/a", f"{site.url}/a", content)), tmp_path)
        assert site.starts("a") == [9000 * number for number in range(len(site.requests))]
    assert (tmp_path / "in/d/a").read_bytes() == content


def redirected(tmp_path, site, target, *, host=None):
    """Fetch what is redirected to a target.

    Return the sentence, which a mirror would not have been asked without.
    """
    url = f"{host or site.url}/a"
    site.faults[url if host else "a"] = [(302, {"Location": target})] * 99
    with pytest.raises(DataError) as caught:
        fetch(listed(tmp_path, line("d/a", url, b"x")), tmp_path)
    assert left(tmp_path) == []
    return str(caught.value)


def test_a_loop_of_redirects_costs_few_requests(tmp_path):
    with serve({}) as site:
        assert f"redirects more than {downloads.MOST} times" in redirected(
            tmp_path, site, f"{site.url}/a"
        )
        assert len(site.requests) == downloads.MOST + 1


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://host/a", "data:,x"])
def test_a_redirect_out_of_the_web_is_refused_at_once(tmp_path, target):
    with serve({}) as site:
        assert "which is no address of the web" in redirected(tmp_path, site, target)
        assert len(site.requests) == 1


@pytest.mark.parametrize(
    "inner", ["127.0.0.1:8080", "10.0.0.7", "169.254.169.254", "[::1]", "192.168.1.1", "localhost"]
)
def test_a_public_server_cannot_have_the_own_network_read(tmp_path, monkeypatch, inner):
    with serve({}) as site:
        monkeypatch.setenv("http_proxy", site.url)
        said = redirected(tmp_path, site, f"http://{inner}/secret", host="http://93.184.215.14")
        assert "an address within this machine or its network" in said
        assert len(site.requests) == 1


def test_a_redirect_between_public_addresses_is_followed_and_so_is_one_of_a_listed_inner_address(
    tmp_path, monkeypatch
):
    content = noise(1000)
    with serve({"b": content, "http://93.184.215.14/b": content}) as site:
        site.faults["a"] = [(302, {"Location": f"{site.url}/b"})]
        fetch(listed(tmp_path, line("d/a", f"{site.url}/a", content)), tmp_path)
        monkeypatch.setenv("http_proxy", site.url)
        site.faults["http://93.184.215.13/a"] = [(302, {"Location": "http://93.184.215.14/b"})]
        fetch(listed(tmp_path, line("d/b", "http://93.184.215.13/a", content)), tmp_path)
    assert (tmp_path / "in/d/a").read_bytes() == (tmp_path / "in/d/b").read_bytes() == content


def test_one_file_is_fetched_by_one_process(tmp_path):
    files = listed(tmp_path, line("d/a", "http://127.0.0.1:9/a", b"x"))
    with (
        downloads.locked_part(tmp_path / "in/d/a.part"),
        pytest.raises(DataError, match="another process is fetching"),
    ):
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


@contextmanager
def a_server_that_never_answers():
    """Accept connections on 127.0.0.1, and say nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening, f"http://127.0.0.1:{listening.getsockname()[1]}"


def stopped(arguments, listening):
    """Start a command, end it by SIGTERM when it waits for an answer.

    Return its process, seconds and messages.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", "recap", "data", *arguments], stderr=subprocess.PIPE, text=True
    )
    listening.settimeout(60)
    with closing(listening.accept()[0]) as waiting:
        waiting.recv(1)
        child.terminate()
        begun = time.monotonic()
        said = child.communicate(timeout=20)[1]
    return child, time.monotonic() - begun, said.splitlines()


def test_a_server_that_never_answers_does_not_keep_a_command_that_is_to_end(tmp_path):
    with a_server_that_never_answers() as (listening, url):
        listed(tmp_path, line("d/a", f"{url}/a", b"x"), line("d/b", f"{url}/b", b"x"))
        places = ["--list", str(tmp_path / "list.csv"), "--into", str(tmp_path / "in")]
        child, seconds, said = stopped(["fetch", "d/*", *places], listening)
    assert (child.returncode, said) == (-signal.SIGTERM, [])
    assert seconds < 10  # it is two; 60 is how long it waits for an answer
