"""Published runs: equal bytes, results made again from them,
pages from them alone, and what a check notices."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
import yaml

from helpers.refusals import refused
from helpers.report_results import ReportFolder, write_claim
from helpers.tiny_workspace import ROOT
from recap.cli import main
from recap.core import checksums
from recap.core.documents import parse_json, read_json, write_json
from recap.core.errors import DamagedFile, DataError, RecapError
from recap.data.corpus import Corpus
from recap.data.references import references_corpus
from recap.metrics.scores import evaluate_captions
from recap.plan.costs import Costs, StepCost
from recap.plan.files import RUN_FILES
from recap.plan.specs import run_spec
from recap.report.docs import NONE_PUBLISHED, changed_pages, with_tables, write_docs
from recap.report.published import (
    PICTURES,
    Header,
    Image,
    captions_hash,
    changed_means,
    changed_scores,
    publish,
    published_runs,
    read_published,
    restored,
    scores_hash,
)
from recap.settings.recipes import DecodingSettings
from recap.statistics.scores import Metrics
from recap.tables.formats import markdown_text

pytestmark = pytest.mark.seconds

INTO = Path("docs/results")
PUBLISHED = INTO / "published"
PAGES = ROOT / "docs" / "results"
MOST = 10_000_000  # bytes of all published runs
# A metric with a decimal number in the same sentence, or a mean with its spread.
SCORE = re.compile(
    r"(?:BLEU|METEOR|ROUGE|CIDEr|SPICE)\b[^.|]*?\b\d+\.\d|"
    r"\b\d+\.\d[^.|]*?(?:BLEU|METEOR|ROUGE|CIDEr|SPICE)\b|\d\.\d\s±\s\d"
)
HISTORY = "epoch,step,loss,val_cider_d,seconds\n1,5,2.5,0.25,3.0\n2,10,1.5,0.5,3.0\n"


def write_results(profile):
    """Write scored miniature runs: their captions are references
    of other images, which the scorers score."""
    plan = profile.plan()
    profile.write_data()
    for run in plan.trained:
        profile.write_training(run)
        folder = Path(plan.files.results) / "runs" / run.path
        spec = run_spec(plan, run).model_dump(mode="json")
        (folder / "config.yaml").write_text(yaml.safe_dump({"stage": run.stage, "spec": spec}))
        (folder / "history.csv").write_text(HISTORY)
        checksums.record(*(folder / name for name in RUN_FILES if name != "model.safetensors"))
    for number, run in enumerate(plan.scored, 1):
        corpus = Path(plan.files.of("corpus", dataset=run.dataset)["corpus"])
        references = Corpus.read(corpus).captions("test")
        words = [f"script alert both {image} or {image % number}" for image in references]
        evaluate_captions(
            references=references,
            hypotheses=dict(zip(references, words, strict=True)),
            metrics=["BLEU", "METEOR", "ROUGE-L", "CIDEr"],
            split="test",
            split_hash=Corpus.read(corpus).split_hash,
            decoding=DecodingSettings(),
            out=Path(plan.files.results) / "scores" / run.path,
            dataset=corpus.parent,
        )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        profile = ReportFolder(folder)
        write_claim(profile)
        write_results(profile)
        publish(profile.plan(), PUBLISHED)
        (INTO / "prose").mkdir()
        (INTO / "prose/tiny.md").write_text("Two models\nof twenty scenes.\n")
        write_docs("tiny", [profile.plan()], INTO)
    return folder


@pytest.fixture
def profile(tmp_path, monkeypatch, whole):
    """A clone with published runs and without results."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("params"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.rmtree(tmp_path / "params", ignore_errors=True)
    folder = ReportFolder(tmp_path)
    write_claim(folder)
    shutil.move("results", "elsewhere")
    return folder


def contents():
    return {file: file.read_bytes() for file in PUBLISHED.rglob("*.gz")}


def changed(file, change):
    """Change the lines of a published file."""
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    change(lines)
    file.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def test_publishing_twice_gives_equal_bytes_and_keeps_runs_that_are_elsewhere(profile):
    before = contents()
    shutil.move("elsewhere", "results")
    for file in Path("results").rglob("training.json"):
        os.utime(file, (0, 0))  # a copy without its times
    publish(profile.plan(), PUBLISHED)
    assert contents() == before and len(before) == len(profile.plan().scored)
    for file in before:
        file.unlink()
    publish(profile.plan(), PUBLISHED)
    assert contents().keys() == before.keys()
    shutil.rmtree("results")
    assert publish(profile.plan(), PUBLISHED) == [] and contents().keys() == before.keys()
    header, images = read_published(published_runs(INTO)[0])
    assert (
        header.versions["torch"] == "2.13.0"
        and header.versions["pycocoevalcap"] == "1.2"
        and header.seed == 1
    )
    assert all(len(repr(image.scores["CIDEr"])) > 3 and image.caption for image in images)


def test_results_are_restored_as_they_were(profile):
    with restored(profile.plan(), PUBLISHED) as (copy, headers):
        assert headers.keys() == {run.path for run in profile.plan().scored}
        results = Path(copy.files.results)
        files = [
            file
            for file in Path("elsewhere/tiny").rglob("*")
            if {"runs", "scores"} & set(file.parts)
        ]
        files = [file for file in files if file.is_file() and not file.name.startswith(".")]
        for file in files:
            again = results / file.relative_to("elsewhere/tiny")
            if file.suffix == ".json":
                assert json.loads(again.read_text()) == json.loads(file.read_text())
            elif file.name != checksums.NAME:
                assert again.read_bytes() == file.read_bytes(), file
            checksums.check(again)
        assert len(files) > 10 and (results / "statistics/tiny.json").is_file()
    assert not results.exists()


def test_a_page_has_what_was_run_tables_a_figure_verdicts_and_runs(profile):
    text = write_docs("tiny", [profile.plan()], INTO).read_text()
    assert (
        f"recap report docs tiny --into {INTO}" in text
        and "\nTwo models of twenty scenes.\n" in text
    )
    trained = len(profile.plan().trained)
    took = f"of {trained} trainings that took {trained / 2:.1f} core hours"
    assert f"Published: 2 scored runs with seed 1, {took}" in text
    title = "Two models on twenty scenes"
    headings = [f"### {title}", f"### Captions: {title}", "### Claims of the paper", "### Runs"]
    assert [line for line in text.splitlines() if line.startswith("###")] == headings
    assert "| Transformer" in text and "- mine.c1: " in text and "![Validation" in text
    assert 0 < (INTO / "images/tiny.png").stat().st_size < 100_000
    assert "<script" not in text.replace("&lt;", "")


def test_a_page_has_hours_of_measured_steps_and_captions_with_names_of_pictures(profile):
    plan = profile.plan()
    costs = Costs(plan, [], None)
    steps = []
    for run in plan.trained:
        shape = costs.training_shape(run)
        cost = StepCost(
            kind=shape.model.kind,
            work=shape.work,
            sizes=shape.sizes,
            parameters=10**6,
            vectors=shape.inputs.vectors,
            tokens=shape.tokens,
            images=1,
            gflop=1.0,
            saved_mb=1.0,
            seconds=7200 / shape.images,
            device="cpu",
            machine="a processor",
            torch="2",
            measured_on=date(2026, 1, 1),
        )
        steps.append({"cost": cost.model_dump(mode="json"), "compiled": False})
    file = INTO / "measured/tiny.json"
    write_json(file, {"tiny": False, "steps": steps})
    text = write_docs("tiny", [plan], INTO).read_text()
    hours = text.partition("### Hours")[2].partition("###")[0]
    assert "on one core of a processor" in hours and "core hours" not in text
    assert re.search(r"\| 10 +\| 7200\.00 \|", re.sub(" +", " ", hours)) and " 20.00 |" in hours
    assert (INTO / "images/tiny_hours.png").is_file()
    names = read_json(PUBLISHED / "tiny/pictures.json", dict[str, dict[int, str]])
    assert len(names["tiny"]) == plan.profile.sample_captions
    _, images = read_published(published_runs(INTO)[0])
    said = {image.id: image.caption for image in images}
    for image, name in names["tiny"].items():
        assert name == f"{image}.jpg" and f"`{name}`" in text
        assert markdown_text(said[image]) in text.partition("### Captions")[2]
    write_json(file, {"tiny": False, "steps": []})
    with refused(DataError, "measured/tiny.json", "measure again"):
        write_docs("tiny", [plan], INTO)


def test_a_page_says_how_many_runs_are_missing_or_that_no_run_is_published(profile):
    first, *_ = (file for file in published_runs(INTO) if "transformer" in str(file))
    first.unlink()
    text = write_docs("tiny", [profile.plan()], INTO).read_text()
    assert "Means of the runs that are finished" in text and "not run yet" in text
    missing = "1 of 2 runs of tiny. `recap plan tiny` counts the hours of each table."
    assert f"### Not run yet\n\n{missing}\n" in text
    shutil.rmtree(PUBLISHED)
    text = write_docs("tiny", [profile.plan()], INTO).read_text()
    assert text.endswith(f"## Without a scale\n\n{NONE_PUBLISHED}\n")


def test_a_page_has_the_name_of_its_profile_also_when_a_file_is_given(profile):
    (INTO / "tiny.md").unlink()
    main(["report", "docs", "params/tiny.yaml", "--into", str(INTO)])
    assert f"recap report docs tiny --into {INTO}" in (INTO / "tiny.md").read_text()


def test_prose_is_one_paragraph(profile):
    for more in ("One.\n\nTwo.\n", "# A heading\nand text", "| a | b |\n"):
        (INTO / "prose/tiny.md").write_text(more)
        with refused(DataError, INTO / "prose/tiny.md"):
            write_docs("tiny", [profile.plan()], INTO)


def test_the_check_passes_without_torch_and_without_results(profile):
    code = (
        "import sys; from recap.cli import main; main(['report', 'check']); sys.exit('torch' in "
        "sys.modules)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "2 published runs and all pages are what they were\nBLEU and METEOR of 2 of them were not"
        in done.stdout
    )


def given(profile, replaced="", by=""):
    """Give the data set as annotations of its captions without photos, and return its name."""
    (name,) = {run.dataset for run in profile.plan().scored}
    corpus = Corpus.read(f"elsewhere/tiny/data/{name}/corpus.parquet")
    images = []
    for image_id, captions in corpus.captions().items():
        texts = enumerate(each.replace(replaced, by) for each in captions)
        sentences = [
            {"sentid": 10 * image_id + number, "raw": text, "tokens": ["a"]}
            for number, text in texts
        ]
        split = (
            "test"
            if image_id in corpus.image_ids("test")
            else "val"
            if image_id == 101
            else "train"
        )
        images.append(
            {
                "filename": f"{image_id}.jpg",
                "imgid": image_id,
                "split": split,
                "sentences": sentences,
            }
        )
    Path("given").mkdir()
    Path("given/captions.json").write_text(json.dumps({"images": images}))
    settings = {"kind": "karpathy", "annotations": "captions.json", "images": ["photos.zip"]}
    Path(f"params/datasets/{name}.yaml").write_text(json.dumps(settings))
    return name


def corpus_of(profile, **changes):
    """Return the corpus of the data set as the check reads it."""
    name = given(profile, **changes)
    inputs = Path("given")
    return Corpus.read(references_corpus(name, params=Path("params"), inputs=inputs, fetch=False))


def test_the_check_scores_again_by_a_data_set_without_its_pictures(profile, capsys):
    given(profile)
    main(["report", "check", "--inputs", "given"])
    assert "All of them were scored again." in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["report", "check", "--inputs", "nowhere"])
    assert stopped.value.code and "nowhere" in capsys.readouterr().err


def rehashed(lines):
    """Give the header of a file the hashes of its captions and scores."""
    header, images = json.loads(lines[0]), [Image(**json.loads(line)) for line in lines[1:]]
    header["captions_sha256"] = captions_hash(images)
    header["scores_sha256"] = scores_hash(header["metrics"], images)
    lines[0] = json.dumps(header)


@pytest.mark.parametrize(
    ("number", "old", "new", "what"),
    [
        (3, "both", "boths", "captions"),
        (3, '"METEOR": 0', '"METEOR": 1', "scores"),
        (0, '"METEOR": 0', '"METEOR": 1', "scores"),
    ],
)
def test_a_changed_letter_or_digit_is_noticed_without_data(number, old, new, what, profile):
    file = published_runs(INTO)[0]
    changed(file, lambda lines: lines.__setitem__(number, lines[number].replace(old, new, 1)))
    (sentence,) = changed_means(file)
    assert f"{file}: its {what} are not those that were published" in sentence
    with refused(DataError, file):
        write_docs("tiny", [profile.plan()], INTO)


@pytest.mark.parametrize("name", ["CIDEr", "ROUGE-L"])
def test_a_corpus_score_that_its_images_do_not_give_is_noticed_without_data(name, profile):
    file = published_runs(INTO)[0]
    header = json.loads(gzip.decompress(file.read_bytes()).splitlines()[0])
    header["metrics"]["scores"][name] += 2e-9
    changed(file, lambda lines: (lines.__setitem__(0, json.dumps(header)), rehashed(lines)))
    (sentence,) = changed_means(file)
    assert f"{file}: corpus: {name} is {header['metrics']['scores'][name]!r}" in sentence


def test_a_changed_caption_or_digit_with_its_hash_is_noticed_with_image_and_metric(profile):
    file, corpus = published_runs(INTO)[0], corpus_of(profile)
    text = file.read_bytes()
    changed(
        file, lambda lines: (lines.__setitem__(3, lines[3].replace("both", "cat")), rehashed(lines))
    )
    sentences = list(changed_scores(file, corpus))
    image = json.loads(gzip.decompress(text).splitlines()[3])
    assert any(f"{file}: image {image['id']}: BLEU-1 is " in each for each in sentences)
    assert any(f"{file}: corpus: CIDEr is " in each for each in sentences)
    file.write_bytes(text)
    image["scores"]["METEOR"] += 2e-9
    changed(file, lambda lines: (lines.__setitem__(3, json.dumps(image)), rehashed(lines)))
    (sentence,) = changed_scores(file, corpus)
    assert f"{file}: image {image['id']}: METEOR is {image['scores']['METEOR']!r}" in sentence
    changed(file, lambda lines: (lines.pop(3), rehashed(lines)))
    (sentence,) = changed_scores(file, corpus)
    assert f"image {image['id']} has no caption" in sentence


def test_a_changed_page_or_missing_figure_is_noticed(profile):
    page = INTO / "tiny.md"
    page.write_text(page.read_text().replace("Mean", "Median").replace("One seed", "No seed"))
    (INTO / "images/tiny.png").unlink()
    figure, line = changed_pages(INTO, Path("params"))
    assert "images/tiny.png" in figure and f"{page}: line " in line


def test_settings_that_changed_since_are_noticed(profile):
    recipe = Path("params/recipes/other.yaml")
    text = recipe.read_text()
    assert not list(changed_pages(INTO, Path("params")))
    recipe.write_text(text.replace("2.0e-3", "3.0e-3"))
    (sentence,) = changed_pages(INTO, Path("params"))
    assert (
        "zodiac@other" in sentence and "another stage_settings.schedule.learning_rate" in sentence
    )


def test_other_references_of_the_same_images_are_noticed(profile):
    corpus = corpus_of(profile, replaced="alert('x')</script> & \"both\" 3", by="warn")
    (sentence,) = changed_scores(published_runs(INTO)[0], corpus)
    assert "scored by other reference captions" in sentence


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines.__setitem__(0, "{"),
        lambda lines: lines.__setitem__(2, '{"id": 1}'),
        lambda lines: lines.__setitem__(2, '{"id": 1, "caption": "a", "scores": {}}'),
        lambda lines: lines.__setitem__(
            0, lines[0].replace('"path": "', '"path": "../../../../../../../../')
        ),
        lambda lines: lines.clear(),
    ],
)
def test_a_damaged_file_is_refused(damage, profile):
    file = published_runs(INTO)[0]
    changed(file, damage)
    with refused(RecapError, file), restored(profile.plan(), PUBLISHED):
        pass
    file.write_bytes(file.read_bytes()[:-9])
    with refused(RecapError, file), restored(profile.plan(), PUBLISHED):
        pass


def test_all_published_runs_are_small_and_hold_what_was_published():
    assert sum(file.stat().st_size for file in PAGES.glob("published/**/*.gz")) < MOST
    assert not [sentence for file in published_runs(PAGES) for sentence in changed_means(file)]


def test_a_search_of_one_group_of_beams_is_read_and_one_of_several_is_refused():
    values = {"scores": {}, "signature": "", "split": "test"}
    for groups in (1, 2):
        values["decoding"] = {"beam": 4, "rules": {"groups": groups, "diversity": 0.5}}
        content = json.dumps(values).encode()
        if groups == 1:
            assert parse_json(content, "metrics.json", Metrics).decoding.beam == 4
        else:
            with refused(DamagedFile, "metrics.json", "groups"):
                parse_json(content, "metrics.json", Metrics)


def test_published_files_are_those_of_runs_alone():
    files = {file for file in PAGES.glob("published/**/*") if file.is_file()}
    pictures = set(PAGES.glob(f"published/*/{PICTURES}"))
    assert files == set(published_runs(PAGES)) | pictures
    for file in pictures:
        for names in read_json(file, dict[str, dict[int, str]]).values():
            assert all(Path(name).suffix == ".jpg" and " " not in name for name in names.values())
    for file in files - pictures:
        first, *images = map(json.loads, gzip.decompress(file.read_bytes()).splitlines())
        assert first.keys() == set(Header.__annotations__)
        assert "site-packages" not in json.dumps(first), f"{file} names a folder of a machine"
        assert all(image.keys() == {"id", "caption", "scores"} for image in images)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_pages_are_what_they_were(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert not list(changed_pages(Path("docs/results"), Path("params")))


@pytest.mark.parametrize(
    "text",
    ["CIDEr is 25.7 ± 0.5", "CIDEr 31.8 (Transformer)", "has 22.0 ± 1.0", "reaches 31.8 CIDEr"],
)
def test_a_score_is_recognized(text):
    assert SCORE.search(text)


def test_no_score_is_typed_by_hand():
    pages = [
        ROOT / "README.md",
        *(ROOT / "docs" / "papers").glob("*.md"),
        *(PAGES / "prose").glob("*.md"),
    ]
    typed = {
        page.name: re.sub("<!-- first table of .*?<!-- end -->", "", page.read_text(), flags=re.S)
        for page in pages
    }
    assert not [
        (name, each[0])
        for name, text in typed.items()
        for each in SCORE.finditer(" ".join(text.split()))
    ]


def test_the_readme_has_the_tables_of_the_pages(tmp_path):
    (tmp_path / "x.md").write_text("# X\n\nwords\n\n| a |\n|---|\n| 1 |\n\n| b |\n")
    place = "<!-- first table of x.md -->\n"
    text = with_tables(f"{place}old\n<!-- end -->\nafter\n", tmp_path)
    assert text == f"{place}| a |\n|---|\n| 1 |\n<!-- end -->\nafter\n"
    readme = (ROOT / "README.md").read_text()
    assert place.replace("x.md", "nine.md") in readme and with_tables(readme, PAGES) == readme
