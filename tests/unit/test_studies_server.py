"""The collection server: whoever has no token gets and gives nothing, and what is sent twice is kept once."""

import stat

import pytest
import requests

from helpers.studies import make, position_of, study_of
from helpers.study_server import StudyServer
from recap.core.errors import ConfigError, DataError
from recap.studies.collect import import_responses
from recap.studies.server import MAX_BYTES, public_host
from recap.studies.tokens import links


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    study = study_of("recap/preference", images=6, items=6, pixels=64)
    return make(tmp_path_factory.mktemp("served"), study, 20)


@pytest.fixture(scope="module")
def server(made, tmp_path_factory):
    running = StudyServer(made, tmp_path_factory.mktemp("server"))
    yield running
    running.stop()


@pytest.fixture
def responses(made):
    return made.responses(lambda item, _: position_of(item, "acf"))


def test_a_link_gives_its_form_and_no_other(server, made):
    for sheet, link in server.links.items():
        answer = requests.get(link, timeout=30)
        assert answer.status_code == 200 and f'data-sheet="{sheet}"' in answer.text
        assert 'data-online="yes"' in answer.text and answer.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "server" not in answer.headers
    assert len(set(server.links.values())) == len(made.sheets.sheets)


@pytest.mark.parametrize("path", ["", "wrong", "001", "../links.csv", "links.csv", "%00", "a/b", "x" * 3000])
def test_without_a_token_or_with_a_wrong_one_everything_is_refused(server, responses, path):
    address = f"http://127.0.0.1:{server.port}/{path}"
    assert requests.get(address, timeout=30).status_code == 403
    assert server.send(responses[0], link=address).status_code == 403


def test_what_is_no_response_of_the_link_is_refused(server, responses):
    first, second = responses[:2]
    link = server.links[first.sheet]
    assert server.send(second, link=link).status_code == 422
    assert server.send(first.model_copy(update={"finished": False})).status_code == 422
    assert server.send(first.model_copy(update={"simulated": True})).status_code == 422
    assert server.send(first.model_copy(update={"study": "0"})).status_code == 422
    assert server.send(first.model_copy(update={"consent": False})).status_code == 422
    assert server.send(first, headers={"Content-Type": "text/plain"}).status_code == 415
    json = {"Content-Type": "application/json"}
    assert requests.post(link, data=b"{", headers=json, timeout=30).status_code == 415
    assert requests.post(link, data=b"[" * 100_000, headers=json, timeout=30).status_code == 415
    assert requests.post(link, data=b"[]", headers=json, timeout=30).status_code == 422
    assert requests.post(link, data=b" " * (MAX_BYTES + 1), headers=json, timeout=30).status_code == 413
    assert requests.put(link, data=b"", timeout=30).status_code == 405
    for host in ("evil.example", "127.0.0.1.evil.example"):
        assert requests.get(link, headers={"Host": host}, timeout=30).status_code == 400


def test_a_response_sent_twice_is_kept_once_and_nothing_names_the_sender(server, made, responses, tmp_path):
    for response in responses:
        assert server.send(response).text == server.send(response).text == "received\n"
    found = import_responses(sheets=made.sheets, paths=[server.folder / "server.sqlite"], out=tmp_path / "r.json")
    assert len(found.used()) == len(made.sheets.sheets) and found.duplicates == found.replaced == 0
    log = (server.folder / "log").read_text()
    assert not [line for line in log.splitlines() if "POST" in line or "GET" in line]
    assert not [link for link in server.links.values() if link.rpartition("/")[2] in log]


def test_links_are_kept_over_restarts_and_only_their_owner_reads_them(server, made, tmp_path):
    path = tmp_path / "links.csv"
    before = links(made.sheets, path, "https://x.example")
    assert links(made.sheets, path, "https://x.example") == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert all(len(token) >= 22 for token in before)
    path.write_text("sheet,token,link\n001,a,b\n")
    with pytest.raises(DataError, match="its links are of another study"):
        links(made.sheets, path, "https://x.example")
    path.write_text("x\n")
    with pytest.raises(DataError, match="of another study|holds no links"):
        links(made.sheets, path, "https://x.example")


def test_a_public_address_is_an_address():
    assert public_host("https://study.example.org/a") == "study.example.org"
    for address in ("study.example.org", "ftp://x", "https://"):
        with pytest.raises(ConfigError, match="give an address such as"):
            public_host(address)
