"""The downloader against a web server that does what the open web does."""

import hashlib
import json
import subprocess
import sys
import time

import pytest
from PIL import Image

from helpers.conceptual_web import KINDS, photo, picture_server, write_tsv
from helpers.refusals import refused
from recap.cli import main
from recap.core.errors import DataError, InUse, MissingData
from recap.core.files import exclusive
from recap.data.datasets import conceptual, conceptual_download
from recap.data.datasets.conceptual import file_of, read_records
from recap.data.datasets.conceptual_download import download

pytestmark = pytest.mark.seconds

SHARD = 20

QUICK = {"workers": 32, "timeout": 1.0, "backoff": 0.01, "min_side": 48}
# What becomes of each kind of answer, and how many requests it may cost (with two tries).
EXPECTED = {
    "ok": ("ok", 1),
    "flaky": ("ok", 2),
    "busy": ("ok", 2),
    "moved": ("ok", 1),
    "403": ("http 403", 1),
    "404": ("http 404", 1),
    "429": ("http 429", 2),
    "500": ("http 500", 2),
    "cut": ("cut", 2),
    "half": ("no picture", 1),
    "html": ("no picture", 1),
    "empty": ("empty", 1),
    "noise": ("no picture", 1),
    "stall": ("timeout", 2),
    "drip": ("timeout", 2),
    "huge": ("too large", 1),
}


@pytest.fixture
def web():
    with picture_server() as server:
        yield server


def run(tmp_path, rows, **changes):
    tsv = write_tsv(
        tmp_path / "t.tsv", [(f"caption {number}", url) for number, url in enumerate(rows)]
    )
    return download(tsv=tsv, out=tmp_path / "out", **{**QUICK, "attempts": 2, **changes})


def records(tmp_path):
    return list(read_records(tmp_path / "out" / "survivors.parquet"))


def test_every_kind_of_failure_is_recorded_and_the_rest_is_kept(web, tmp_path):
    counts = run(tmp_path, [web.url(kind, number) for number, kind in enumerate(KINDS)])
    assert {kind: record.status for kind, record in zip(KINDS, records(tmp_path), strict=True)} == {
        kind: status for kind, (status, _) in EXPECTED.items()
    }
    assert {kind: web.asked[f"/{kind}/{number}.jpg"] for number, kind in enumerate(KINDS)} == {
        kind: requests for kind, (_, requests) in EXPECTED.items()
    }
    assert (counts["rows"], counts["ok"], counts["success_rate"]) == (16, 4, 0.25)
    assert counts["statuses"]["no picture"] == 3
    assert json.loads((tmp_path / "out" / "survivors.json").read_text()) == counts
    for record in records(tmp_path):
        path = tmp_path / "out" / file_of(record.row)
        assert path.is_file() is record.ok
        assert bool(record.error) is not record.ok
        if record.ok:
            content = path.read_bytes()
            assert (len(content), hashlib.sha256(content).hexdigest()) == (
                record.bytes,
                record.sha256,
            )
            assert record.source_sha256 == hashlib.sha256(photo(record.row)).hexdigest()
            assert (record.original_width, record.original_height) == (64, 80)
            with Image.open(path) as picture:
                assert picture.size == (record.width, record.height) == (48, 60)


def test_a_second_run_asks_only_for_what_is_missing_and_not_gone(web, tmp_path):
    urls = [
        web.url(kind, number) for number, kind in enumerate(("ok", "404", "500", "ok", "403", "ok"))
    ]
    run(tmp_path, urls)
    (tmp_path / "out" / file_of(3)).unlink()
    spoilt = tmp_path / "out" / file_of(5)
    spoilt.write_bytes(spoilt.read_bytes()[:-1] + b"x")
    web.asked.clear()
    counts = run(tmp_path, urls)
    assert dict(web.asked) == {"/500/2.jpg": 2, "/ok/3.jpg": 1, "/403/4.jpg": 1, "/ok/5.jpg": 1}
    assert counts["this_run"] == {"kept": 1, "fetched": 2, "requests": 5}
    record = records(tmp_path)[5]
    assert hashlib.sha256(spoilt.read_bytes()).hexdigest() == record.sha256


def test_a_changed_url_is_fetched_again(web, tmp_path):
    run(tmp_path, [web.url("ok", 0), web.url("ok", 1)])
    run(tmp_path, [web.url("ok", 0), web.url("ok", 7)])
    assert records(tmp_path)[1].source_sha256 == hashlib.sha256(photo(7)).hexdigest()
    run(tmp_path, [web.url("ok", 0), web.url("404", 1)])
    assert not (tmp_path / "out" / file_of(1)).exists()


def test_bad_urls_and_dead_hosts_are_failures_of_their_rows(web, tmp_path):
    rows = [
        "no url at all",
        "ftp://a/b.jpg",
        "http://",
        "http://127.0.0.1:9/x.jpg",
        web.url("ok", 4),
    ]
    run(tmp_path, rows, attempts=1)
    assert [record.status for record in records(tmp_path)] == [
        "bad url",
        "bad url",
        "bad url",
        "connection",
        "ok",
    ]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"a dog\thttp://127.0.0.1/a\nonly a caption\n", "line 2: "),
        (b"a \xff dog\thttp://127.0.0.1/a\n", "line 1: "),
        (b"no tab\n", "line 1: "),
        (b"", ""),
        (None, ""),
    ],
)
def test_a_broken_tsv_is_one_sentence_and_leaves_no_list(tmp_path, content, named):
    if content is not None:
        (tmp_path / "t.tsv").write_bytes(content)
    with refused(MissingData if content is None else DataError, tmp_path / "t.tsv", named):
        download(tsv=tmp_path / "t.tsv", out=tmp_path / "out", **QUICK)
    assert not (tmp_path / "out" / "survivors.parquet").exists()
    if content in (None, b"", b"no tab\n"):
        assert not (tmp_path / "out").exists()


def test_another_edge_or_a_second_process_is_refused(web, tmp_path):
    run(tmp_path, [web.url("ok", 0)])
    with refused(DataError, "min_side"):
        run(tmp_path, [web.url("ok", 0)], min_side=64)
    held = exclusive(
        tmp_path / "out" / conceptual_download.LOCK, wait_seconds=0, what="the download"
    )
    with held, refused(InUse, tmp_path / "out", "process"):
        run(tmp_path, [web.url("ok", 0)])


@pytest.fixture
def small_shards(monkeypatch):
    for module in (conceptual_download, conceptual):
        monkeypatch.setattr(module, "SHARD", SHARD)


KILLED = f"""
import sys
from recap.cli import main
from recap.data.datasets import conceptual, conceptual_download
conceptual.SHARD = conceptual_download.SHARD = {SHARD}
main(sys.argv[1:])
"""


def test_a_killed_process_is_continued_by_the_same_command(web, tmp_path, capsys, small_shards):
    tsv = write_tsv(
        tmp_path / "t.tsv", [(f"a {number}", web.url("ok", number)) for number in range(400)]
    )
    command = [
        "data",
        "conceptual-download",
        "--tsv",
        str(tsv),
        "--out",
        str(tmp_path),
        "--min-side",
        "16",
    ]
    process = subprocess.Popen([sys.executable, "-c", KILLED, *command], stdout=subprocess.DEVNULL)
    while process.poll() is None and not list(tmp_path.glob("shards/0*.parquet")):
        time.sleep(0.001)
    process.kill()
    assert process.wait() == -9, "it was over before it could be killed"
    finished = {int(path.stem) for path in (tmp_path / "shards").glob("0*.parquet")}
    web.asked.clear()
    main(command)
    counts = json.loads(capsys.readouterr().out)
    assert (counts["rows"], counts["ok"]) == (400, 400)
    assert counts["this_run"]["kept"] == SHARD * len(finished)
    assert (
        not {int(path.split("/")[2].removesuffix(".jpg")) // SHARD for path in web.asked} & finished
    )
    for record in read_records(tmp_path / "survivors.parquet"):
        assert (
            hashlib.sha256((tmp_path / file_of(record.row)).read_bytes()).hexdigest()
            == record.sha256
        )
    assert not list(tmp_path.rglob("*.part"))


def rows_file(tmp_path, *numbers):
    (tmp_path / "rows.txt").write_text("".join(f"{number}\n" for number in numbers))
    return tmp_path / "rows.txt"


def test_only_the_wanted_rows_are_asked_for_and_more_may_be_wanted_later(
    web, tmp_path, small_shards
):
    urls = [web.url("404" if number == 25 else "ok", number) for number in range(42)]
    counts = run(tmp_path, urls, only=rows_file(tmp_path, 1, 25))
    assert dict(web.asked) == {"/ok/1.jpg": 1, "/404/25.jpg": 1}
    assert (counts["rows"], counts["ok"], counts["success_rate"]) == (42, 1, 0.5)
    assert counts["statuses"]["not asked"] == 40
    assert sorted(path.name for path in (tmp_path / "out/shards").iterdir()) == [
        "00000.parquet",
        "00001.parquet",
    ]
    counts = run(tmp_path, urls, only=rows_file(tmp_path, 2))
    assert counts["this_run"] == {"kept": 1, "fetched": 1, "requests": 1}
    assert [record.row for record in records(tmp_path) if record.ok] == [1, 2]
    assert run(tmp_path, urls)["ok"] == 41
    assert set(web.asked.values()) == {1}


def test_redirects_are_few_and_none_leads_into_the_own_network(web, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{web.server_port}")
    public = "http://93.184.215.14"
    run(
        tmp_path,
        [
            web.url("loop", 0),
            f"{public}/inward/1.jpg",
            f"{public}/file/2.jpg",
            f"{public}/moved/3.jpg",
        ],
    )
    statuses = [(record.status, record.error) for record in records(tmp_path)]
    assert statuses[0] == ("redirect", "more than 5 in a row")
    assert statuses[1][0] == statuses[2][0] == "redirect"
    assert statuses[3] == ("ok", "")
    assert sum(web.asked.values()) == 6 + 1 + 1 + 2
