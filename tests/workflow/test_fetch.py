"""Outside files that are fetched by the workflow, when the profile allows it."""

import hashlib
import os
import signal
import subprocess
import time
import zipfile

import pytest

from helpers.generators import write_flickr
from helpers.web_server import serve

HEAD = "name,version,role,url,algorithm,hash,bytes,licence,checked_on,note,archive,members"


def listing(workspace, rows, *, captions, photos):
    """Write the list of outside files, and have the profile of photographs name some of them."""
    (workspace.folder / "params" / "data_versions.csv").write_text("\n".join([HEAD, *rows]) + "\n")
    workspace.change("tiny.yaml", "[tiny]", "[photos]")
    workspace.change("datasets/tiny_photos.yaml", "captions.json", captions)
    workspace.change("datasets/tiny_photos.yaml", "[photos]", f"[{photos}]")
    return workspace


@pytest.fixture
def listed(workspace):
    """A workspace whose photographs lie on a local server and stand in its list of outside
    files."""
    site = write_flickr(workspace.folder / "site")
    files = {name: (site / name).read_bytes() for name in ("dataset.json", "images.zip")}
    with serve(files) as web:
        rows = [
            f"web/{name},1,primary,{web.url}/{name},sha256,{hashlib.sha256(content).hexdigest()},,none,,,,"
            for name, content in files.items()
        ]
        yield listing(workspace, rows, captions="web/dataset.json", photos="web/images.zip")


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


@pytest.fixture
def packed(workspace):
    """A workspace whose photographs lie in an archive on a local server,
    with what nothing needs beside them."""
    site = write_flickr(workspace.folder / "site")
    with (
        zipfile.ZipFile(site / "images.zip") as images,
        zipfile.ZipFile(site / "pack.zip", "w") as pack,
    ):
        pack.write(site / "dataset.json", "pack/v1/dataset.json")
        pack.writestr("pack/other.bin", b"x")
        for name in images.namelist():
            pack.writestr(f"pack/v1/photos/{name}", images.read(name))
    with serve({"pack.zip": (site / "pack.zip").read_bytes()}) as web:
        rows = [
            f"web/pack.zip,1,primary,{web.url}/pack.zip,,,,none,,,,",
            "web/pack,1,unpacked,,,,,none,,,web/pack.zip,pack/v1/*.json",
            "web/photos,1,unpacked,,,,,none,,,web/pack.zip,pack/v1/photos/*",
        ]
        yield listing(workspace, rows, captions="web/pack/dataset.json", photos="web/photos")


@pytest.mark.parametrize("keep", ["true", "false"])
def test_members_are_unpacked_and_an_archive_that_is_not_to_be_kept_is_removed(packed, keep):
    on = ("inputs=in", "fetch=true", f"keep_archives={keep}")
    assert set(packed.planned("data_all", config=on)) >= {
        "unpack_web_pack",
        "unpack_web_photos",
        "corpus",
    }
    done = packed.snakemake("data_all", config=on)
    assert done.returncode == 0, done.stderr
    folder = packed.folder / "in/web"
    assert (folder / "pack/dataset.json").read_bytes() == (
        packed.folder / "site/dataset.json"
    ).read_bytes()
    assert (
        sorted(path.suffix for path in (folder / "photos").rglob("*.*") if path.suffix == ".bin")
        == []
    )
    assert (folder / "pack.zip").exists() == (keep == "true")
    assert packed.planned("data_all", config=on) == {}


def test_a_workflow_that_is_killed_while_it_fetches_is_completed_by_the_same_command(workspace):
    site = write_flickr(workspace.folder / "site")
    files = {name: (site / name).read_bytes() for name in ("dataset.json", "images.zip")}
    on = ("inputs=in", "fetch=true")
    with serve(files, faults={"images.zip": [[1000, "stall"]]}) as web:
        rows = [f"web/{name},1,primary,{web.url}/{name},,,,none,,,," for name in files]
        listing(workspace, rows, captions="web/dataset.json", photos="web/images.zip")
        command = workspace.command("data_all", config=on)
        process = subprocess.Popen(command, cwd=workspace.folder, start_new_session=True)
        part = workspace.folder / "in/web/images.zip.part"
        while not (part.exists() and part.stat().st_size):
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        done = workspace.snakemake("data_all", config=on)
        assert done.returncode == 0, done.stderr
        assert web.starts("images.zip") == [0, 1000]
    assert (workspace.folder / "in/web/images.zip").read_bytes() == files["images.zip"]
    assert not list(workspace.folder.rglob("*.part"))
