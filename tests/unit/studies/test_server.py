"""The collection server: whoever has no token gets
and gives nothing, and what is sent twice is kept once."""

import asyncio
import signal
import socket
import sqlite3
import stat
import time
from contextlib import closing

import pytest
import requests
from starlette.testclient import TestClient

from helpers.refusals import refused
from helpers.studies import make, position_of, study_of
from helpers.study_server import StudyServer
from recap.core.errors import ConfigError, DataError
from recap.studies.make import read_pictures
from recap.studies.responses import read_responses
from recap.studies.server import MAX_BYTES, Store, links, make_app, public_host, serve

pytestmark = pytest.mark.seconds


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    study = study_of("recap/preference", images=6, items=6, pixels=64)
    return make(tmp_path_factory.mktemp("served"), study, 20)


@pytest.fixture(scope="module")
def server(forms, tmp_path_factory):
    running = StudyServer(forms, tmp_path_factory.mktemp("server"))
    yield running
    running.stop()


@pytest.fixture
def responses(forms):
    return forms.responses(lambda item, _: position_of(item, "acf"))


def test_a_link_gives_its_form_and_no_other(server, forms):
    for sheet, link in server.links.items():
        answer = requests.get(link, timeout=30)
        assert answer.status_code == 200 and f'data-sheet="{sheet}"' in answer.text
        assert 'data-online="yes"' in answer.text and answer.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "server" not in answer.headers
    assert len(set(server.links.values())) == len(forms.sheets.sheets)


@pytest.mark.parametrize(
    "path", ["", "wrong", "001", "../links.csv", "links.csv", "%00", "a/b", "x" * 3000]
)
def test_without_a_token_or_with_a_wrong_one_everything_is_refused(server, responses, path):
    address = f"http://127.0.0.1:{server.port}/{path}"
    assert requests.get(address, timeout=30).status_code == 403
    assert server.send(responses[0], link=address).status_code == 403


def test_what_is_no_response_of_the_link_is_refused(server, responses):
    first, second = responses[:2]
    link = server.links[first.sheet]
    assert server.send(second, link=link).status_code == 422
    for change in (
        {"finished": False},
        {"simulated": True},
        {"study": "0"},
        {"consent": False},
        {"answers": {}},
    ):
        assert server.send(first.model_copy(update=change)).status_code == 422, change
    for damaged in (b"{", b"[" * 100_000, b"[]", b"\xff"):
        assert requests.post(link, data=damaged, timeout=30).status_code == 422
    assert requests.post(link, data=b" " * (MAX_BYTES + 1), timeout=30).status_code == 413
    assert requests.put(link, data=b"", timeout=30).status_code == 405
    for host in ("evil.example", "127.0.0.1.evil.example"):
        assert requests.get(link, headers={"Host": host}, timeout=30).status_code == 400


def test_a_response_sent_twice_is_kept_once_and_nothing_names_the_sender(
    server, forms, responses, tmp_path
):
    for response in responses:
        assert server.send(response).text == server.send(response).text == "received\n"
    result = forms.imported(server.folder / "server.sqlite", tmp_path / "r.json")
    assert (
        len(result.used()) == len(forms.sheets.sheets) and result.duplicates == result.replaced == 0
    )
    log = (server.folder / "log").read_text()
    assert not [line for line in log.splitlines() if "POST" in line or "GET" in line]
    assert not [link for link in server.links.values() if link.rpartition("/")[2] in log]
    assert stat.S_IMODE((server.folder / "server.sqlite").stat().st_mode) == 0o600


def test_links_are_kept_over_restarts_and_only_their_owner_reads_them(server, forms, tmp_path):
    path = tmp_path / "links.csv"
    before = links(forms.sheets, path, "https://x.example")
    assert links(forms.sheets, path, "https://x.example") == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert all(len(token) >= 22 for token in before)
    token = next(iter(before))
    for damaged in (
        path.read_text().replace(token, token[:5]),
        "sheet,token,link\n001,a,b\n",
        "x\n",
    ):
        path.write_text(damaged)
        with refused(DataError, "links.csv"):
            links(forms.sheets, path, "https://x.example")


def test_a_port_that_is_used_or_none_is_one_sentence():
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        for port in (used.getsockname()[1], 70_000):
            with refused(ConfigError, f"--port {port}"):
                serve(None, port)


def test_a_public_address_is_an_address():
    assert public_host("https://study.example.org/a") == "study.example.org"
    for address in ("study.example.org", "ftp://x", "https://"):
        with refused(ConfigError, "--address", "https://study.example.org"):
            public_host(address)


@pytest.fixture
def own(forms, tmp_path):
    """A server that a test may end or disturb."""
    running = StudyServer(forms, tmp_path)
    yield running
    if running.process.poll() is None:
        running.stop(signal.SIGKILL)


def half_sent(server, *, bytes_of_body=1, length=100):
    """Return a connection that has sent a header and the beginning of its body."""
    path = next(iter(server.links.values())).rpartition("/")[2]
    header = (
        f"POST /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}"
    )
    return connected(server, f"{header}\r\n\r\n{' ' * bytes_of_body}".encode())


def connected(server, content):
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(content)
    return connection


@pytest.mark.slow  # uploads may go on for a quarter of a minute
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_though_uploads_are_unfinished(own, number):
    open_ones = [half_sent(own), connected(own, b"GET / HTTP/1.1\r\nHos"), connected(own, b"")]
    time.sleep(0.5)  # until the server has read them
    began = time.monotonic()
    own.stop(number)
    assert time.monotonic() - began < 25
    assert "Traceback" not in own.log()
    for each in open_ones:
        each.close()


def test_uploads_that_are_broken_off_leave_nothing_in_the_log(own, responses):
    for _ in range(20):
        half_sent(own).close()
    assert own.send(responses[0]).status_code == 200
    own.stop()
    assert own.log().partition("until Ctrl-C\n")[2] == ""


def test_an_upload_that_stalls_is_refused_in_time(forms, tmp_path, monkeypatch):
    monkeypatch.setattr("recap.studies.server.REQUEST_SECONDS", 0.2)

    async def stalled():
        body = [{"type": "http.request", "body": b"{", "more_body": True}]
        sent = []

        async def receive():
            return body.pop() if body else await asyncio.sleep(60)

        async def send(message):
            sent.append(message)

        headers = [(b"host", b"127.0.0.1")]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/token",
            "headers": headers,
            "query_string": b"",
        }
        await app_of(forms, Store(tmp_path / "r.sqlite"))(scope, receive, send)
        return sent[0]["status"]

    began = time.monotonic()
    assert asyncio.run(stalled()) == 400 and time.monotonic() - began < 10


def test_a_locked_file_of_responses_is_a_sentence_to_the_rater(
    forms, responses, tmp_path, monkeypatch
):
    monkeypatch.setattr("recap.studies.server.LOCKED_SECONDS", 0.2)
    client = client_of(forms, Store(tmp_path / "r.sqlite"))
    with closing(sqlite3.connect(tmp_path / "r.sqlite")) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = client.post("/token", json=responses[0].model_dump(mode="json"))
        assert answer.status_code == 503 and "could not be stored. Try again" in answer.text
        other.rollback()
        assert client.post("/token", json=responses[0].model_dump(mode="json")).text == "received\n"


def test_nothing_is_received_when_the_file_of_responses_was_removed(
    forms, responses, tmp_path, caplog
):
    path = tmp_path / "r.sqlite"
    client = client_of(forms, Store(path))
    values = [response.model_dump(mode="json") for response in responses]
    assert client.post("/token", json=values[0]).text == "received\n"
    path.rename(tmp_path / "away")
    answer = client.post("/token", json=values[0])
    assert answer.status_code == 503 and "could not be stored" in answer.text and not path.exists()
    assert f"{path}: " in caplog.text
    path.write_bytes(b"")
    assert client.post("/token", json=values[0]).status_code == 503
    (tmp_path / "away").rename(path)
    assert client.post("/token", json=values[0]).text == "received\n"
    assert len(list(read_responses([path], forms.sheets.digest))) == 1


def client_of(forms, store):
    """Return a client of a server in this process, whose first sheet has the token ``token``."""
    return TestClient(app_of(forms, store), base_url="http://127.0.0.1")


def app_of(forms, store):
    pictures = read_pictures(forms.folder / "pictures.zip", forms.sheets.pictures)
    return make_app(
        forms.sheets, pictures, {"token": forms.sheets.sheets[0].id}, store, "127.0.0.1"
    )
