"""Outside files that are fetched by the workflow, when the profile allows it."""

import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from helpers.generators import write_flickr


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def listed(workspace):
    """A workspace whose photographs lie on a local server and stand in its list of outside files."""
    site = write_flickr(workspace.folder / "site")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rows = ["name,version,role,url,algorithm,hash,bytes,licence,checked_on,note"]
    for name in ("dataset.json", "images.zip"):
        digest = hashlib.sha256((site / name).read_bytes()).hexdigest()
        url = f"http://127.0.0.1:{server.server_address[1]}/{name}"
        rows.append(f"web/{name},1,primary,{url},sha256,{digest},,none,,")
    (workspace.folder / "params" / "data_versions.csv").write_text("\n".join(rows) + "\n")
    workspace.change("tiny.yaml", "[tiny]", "[photos]")
    workspace.change("datasets/tiny_photos.yaml", "captions.json", "web/dataset.json")
    workspace.change("datasets/tiny_photos.yaml", "[photos]", "[web/images.zip]")
    yield workspace
    server.shutdown()
    server.server_close()


def test_files_of_the_list_are_fetched_when_the_profile_says_so(listed):
    refused = listed.snakemake("data_all", config=("inputs=in",))
    assert refused.returncode == 1
    assert "in/web/dataset.json: no such file or folder" in refused.stderr
    assert "--config fetch=true" in refused.stderr
    on = ("inputs=in", "fetch=true")
    done = listed.snakemake("data_all", config=on)
    assert done.returncode == 0, done.stderr
    image = (listed.folder / "in" / "web" / "images.zip").read_bytes()
    assert image == (listed.folder / "site" / "images.zip").read_bytes()
    # What is there is the user's: no rule makes it, so nothing reruns and nothing deletes it.
    assert listed.planned("data_all", config=on) == {}
    assert listed.planned("data_all", "--forceall", config=on)["fetch"] == 0


def test_a_file_that_no_list_names_is_refused_as_ever(listed):
    listed.change("datasets/tiny_photos.yaml", "web/images.zip", "web/other.zip")
    refused = listed.snakemake("data_all", config=("inputs=in", "fetch=true"))
    assert refused.returncode == 1
    assert "in/web/other.zip: no such file or folder; datasets/tiny_photos.yaml names it" in refused.stderr
    assert "fetch=true" not in refused.stderr.split("recap: ")[1].splitlines()[0]


def test_a_file_of_the_users_own_says_where_to_get_it(listed):
    path = listed.folder / "params" / "data_versions.csv"
    path.write_text(path.read_text() + "web/own.zip,1,own,,,,,none,,the zip of a certain page\n")
    listed.change("datasets/tiny_photos.yaml", "web/images.zip", "web/own.zip")
    refused = listed.snakemake("data_all", config=("inputs=in", "fetch=true"))
    assert refused.returncode == 1
    assert "missing: in/web/own.zip (datasets/tiny_photos.yaml); the zip of a certain page; size" in refused.stderr
    assert "missing: in/web/dataset.json (datasets/tiny_photos.yaml); http://127.0.0.1" in refused.stderr


def test_a_key_that_stands_twice_in_a_profile_is_refused(workspace):
    profile = workspace.folder / "params" / "tiny.yaml"
    profile.write_text(profile.read_text() + "\nseeds: [9]\n")
    refused = workspace.snakemake("-n")
    assert refused.returncode == 1
    assert "the key 'seeds' is duplicated, in lines" in refused.stderr
