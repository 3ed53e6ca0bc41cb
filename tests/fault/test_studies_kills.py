"""Two hundred raters who send at once, and a server that is killed meanwhile:
what was acknowledged is there, once."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from helpers.studies import make, position_of, study_of
from helpers.study_server import StudyServer
from recap.studies.responses import read_responses

RATERS = 200


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    study = study_of("recap/preference", images=4, items=4, raters=RATERS, pixels=64)
    return make(tmp_path_factory.mktemp("many"), study, 20)


@pytest.fixture
def responses(made):
    found = made.responses(lambda item, _: position_of(item, "acf"))
    assert len(found) == RATERS
    return found


@pytest.fixture
def server(made, tmp_path):
    running = StudyServer(made, tmp_path)
    yield running
    if running.process.poll() is None:
        running.stop(signal.SIGKILL)


def received(made, folder):
    """Return the sheets of the responses that the server has stored."""
    return [
        each.values["sheet"]
        for each in read_responses([folder / "server.sqlite"], made.sheets.digest)
    ]


def test_two_hundred_at_once_lose_and_double_nothing(server, made, responses, tmp_path):
    together = threading.Barrier(RATERS)

    def send(response):
        together.wait(60)
        return [server.send(response).status_code for _ in range(2)]

    with ThreadPoolExecutor(RATERS) as pool:
        codes = list(pool.map(send, responses))
    assert codes == [[200, 200]] * RATERS
    assert sorted(received(made, tmp_path)) == [response.sheet for response in responses]
    found = made.imported(tmp_path / "server.sqlite", tmp_path / "r.json")
    assert [rater.answers for rater in found.used()] == [response.answers for response in responses]


@pytest.mark.parametrize("after", [1, 30, 90])
def test_a_kill_in_between_loses_nothing_that_was_acknowledged(
    server, made, responses, tmp_path, after
):
    acknowledged, enough = [], threading.Event()

    def send(response):
        try:
            if server.send(response).status_code == 200:
                acknowledged.append(response.sheet)
        except requests.RequestException:
            pass  # the server is gone: this rater was told so
        if len(acknowledged) >= after:
            enough.set()

    with ThreadPoolExecutor(20) as pool:
        sent = [pool.submit(send, response) for response in responses]
        assert enough.wait(60)
        server.stop(signal.SIGKILL)
        for each in sent:
            each.result()
    known = list(acknowledged)
    kept = received(made, tmp_path)
    assert len(kept) == len(set(kept)) and set(known) <= set(kept) and after <= len(known) < RATERS
    # Started again it has the same links;
    # whoever was told to try again does, and nobody counts twice.
    server.start()
    with ThreadPoolExecutor(20) as pool:
        assert {answer.status_code for answer in pool.map(server.send, responses)} == {200}
    found = made.imported(tmp_path / "server.sqlite", tmp_path / "r.json")
    assert len(found.used()) == RATERS and found.duplicates == 0
