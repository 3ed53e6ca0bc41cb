"""`recap runs` and `recap tables`: what is finished, in the terminal."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from helpers.commands import printed
from helpers.commands import refused_command as refused
from helpers.score_files import write_run

pytestmark = pytest.mark.seconds

SETTING = "scenes/full/tiny/transformer@short"
IDS = range(6)


@pytest.fixture
def here(results, tmp_path, monkeypatch):
    """A folder with the results of two profiles; the second has another seed, longer and better."""
    monkeypatch.chdir(tmp_path)
    for profile in ("one", "two"):
        folder = (
            tmp_path
            / "results"
            / profile
            / "runs"
            / SETTING
            / f"seed-{'12'[profile == 'two']}"
            / "xe"
        )
        shutil.copytree(results.run, folder)
    config, training = folder / "config.yaml", folder / "training.json"
    values = yaml.safe_load(config.read_text())
    values["spec"] |= {
        "seed": 2,
        "stage_settings": {**values["spec"]["stage_settings"], "epochs": 30},
    }
    config.write_text(yaml.safe_dump(values))
    training.write_text(
        json.dumps({**json.loads(training.read_text()), "seed": 2, "epochs": 30, "seconds": 7200.0})
    )
    (folder / "SHA256SUMS").unlink()
    for profile, more in (("one", 0.0), ("two", 0.1)):
        seed = 1 + (profile == "two")
        scores = {
            name: [0.3 + more + 0.02 * i * (1 + more) for i in IDS] for name in ("BLEU-4", "CIDEr")
        }
        write_run(
            tmp_path / "results" / profile / "scores" / SETTING / f"seed-{seed}" / "xe",
            scores,
            ids=IDS,
        )
    return tmp_path


def test_runs_of_all_profiles_are_listed_with_what_they_cost_and_score(here, capsys):
    lines = printed(capsys, "runs", "ls").splitlines()
    assert len(lines) == 3 and lines[0].split()[0] == "run"
    first, second = lines[1:]
    assert first.startswith("one: transformer seed 1 xe") and second.startswith(
        "two: transformer seed 2 xe"
    )
    assert "0.03 M" in first and first.split()[-1] == "35.00"
    assert [*second.split()[-4:-2], second.split()[-1]] == ["30", "2.00", "45.50"]
    assert printed(capsys, "runs", "ls", "seed-2").splitlines()[1:] == [second]
    shutil.rmtree(here / "results" / "one" / "scores")
    assert printed(capsys, "runs", "ls", "seed-1").splitlines()[1].split()[-1] == "-"


def test_a_run_is_shown_by_its_folder_key_name_or_a_part(here, capsys):
    folder = f"results/two/runs/{SETTING}/seed-2/xe"
    shown = printed(capsys, "runs", "show", folder)
    for name in (f"two/{SETTING}/seed-2/xe", "transformer seed 2 xe", "seed-2"):
        assert printed(capsys, "runs", "show", name) == shown
    assert (
        "  CIDEr: 45.50" in shown and "  training_seconds: 7200" in shown and "  seed: 2" in shown
    )
    assert "is in 2 runs, such as one/" in refused(capsys, "runs", "show", "transformer")
    sentence = refused(capsys, "runs", "show", "seed-7")
    assert "'seed-7'" in sentence and SETTING not in sentence


def test_a_finished_table_is_printed(here, capsys):
    for profile in ("one", "two"):
        folder = here / "reports" / profile / "tables"
        folder.mkdir(parents=True)
        (folder / "mine_t1.md").write_text(f"table of {profile}")
    assert (
        printed(capsys, "tables", "show", "mine/t1", "--profile", "two").strip() == "table of two"
    )
    both = printed(capsys, "tables", "show", "mine/t1")
    assert (
        "reports/one/tables/mine_t1.md:" in both
        and "table of one" in both
        and "table of two" in both
    )
    assert "did you mean 'mine_t1'" in refused(capsys, "tables", "show", "mine/t2")
    (folder / "mine_t1.paper.md").write_text("as the paper prints it")
    assert printed(capsys, "tables", "show").split() == ["mine_t1", "one", "mine_t1", "two"]


@pytest.fixture
def photographed(here, results):
    """The same, with the data set of both profiles, and captions of its test images.

    One of them is hostile.
    """
    for profile in ("one", "two"):
        shutil.copytree(results.data, here / "results" / profile / "data" / "scenes")
        (scores,) = (here / "results" / profile / "scores").glob("**/seed-*/xe")
        ids = sorted(
            item["image_id"]
            for item in json.loads((results.scores / "captions.test.json").read_text())
        )
        write_run(
            scores,
            {"CIDEr": [0.1 * (place + 3 * (profile == "two")) for place in range(len(ids))]},
            ids=ids,
        )
        captions = [
            {"image_id": i, "caption": f"{profile} </script><img src=x onerror=alert(1)> {i}"}
            for i in ids
        ]
        (scores / "captions.test.json").write_text(json.dumps(captions))
    return here


def test_the_gallery_has_photos_references_captions_and_scores_in_one_file(photographed, capsys):
    printed(capsys, "runs", "gallery", "seed-1", "seed-2", "--out", "gallery.html")
    page = (photographed / "gallery.html").read_text()
    assert (
        page.count("<article") == page.count('src="data:image/jpeg;base64,') == 6
        and "all images" in page
    )
    assert (
        page.count("<td>transformer seed 2 xe</td>") == 6
        and '<option value="0" selected>CIDEr</option>' in page
    )
    assert (
        re.findall('data-scores="(.*?)"', page)[2] == "[[20.0], [50.0]]"
        and page.count('<li class="text">') == 30
    )
    assert page.count("two &lt;/script&gt;") == 6 and page.count("</script>") == 1
    assert "<img src=x" not in page and "://" not in page
    printed(capsys, "runs", "gallery", "seed-1", "--count", "2", "--images", "--out", "few.html")
    few = (photographed / "few.html").read_text()
    assert few.count("<article") == 2 and "<img" not in few and "a random sample of 2 of 6" in few


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_the_gallery_draws_itself_in_a_browser(photographed, capsys):
    printed(capsys, "runs", "gallery", "seed-1", "seed-2", "--out", "gallery.html")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=4000",
        "--dump-dom",
    ]
    command = ["chromium", *options, f"file://{photographed / 'gallery.html'}"]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    assert "6 of 6 images" in page and page.count("<article") == 6
    assert "difference 30.0" in page and "&lt;img src=x" in page and "<img src=x" not in page
