"""A photo gets the caption that the workflow gave it; odd files, arrays and moved runs end well or in a sentence."""

import csv
import io
import json
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import recap
from helpers.tiny_results import make_results
from recap.captioning.captioner import Caption, FailedPhoto, PhotoCaptions
from recap.captioning.output import comma_separated, json_lines, pretty
from recap.captioning.photo_features import PhotoFeatures
from recap.captioning.pictures import find_photos, read_photo
from recap.captioning.run_files import find_run_files
from recap.cli import main
from recap.core.config.recipes import DecodingRules
from recap.core.errors import ConfigError, DataError, FeatureError, RecapError, TrainingError
from recap.core.files.atomic import write_json
from recap.data.corpus.corpus import Corpus
from recap.features.store import FeatureStore

CLOSE = 1e-3  # of log-probabilities: batches of other sizes sum in another order, and features are stored in float16


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return make_results(tmp_path_factory.mktemp("results") / "tiny")


@pytest.fixture(scope="module")
def photos(results):
    """The pictures of the test split: image id -> path."""
    folder = results.folder / "photos"
    with zipfile.ZipFile(results.data / "images.zip") as archive:
        archive.extractall(folder)
    table = Corpus.read(results.data / "corpus.parquet")
    return {image: folder / table.files()[image] for image in table.image_ids("test")}


@pytest.fixture(scope="module")
def captioner(results):
    return recap.load(results.run, device="cpu")


@pytest.fixture
def photo(photos):
    return next(iter(photos.values()))


def test_a_picture_of_the_test_split_gets_the_caption_that_the_evaluation_gave_it(results, photos, captioner):
    given = {}
    for line in (results.scores / "nbest.test.jsonl").read_text().splitlines():
        row = json.loads(line)
        given.setdefault(row["image_id"], []).append(row)
    assert set(given) == set(photos)
    scores = sorted(rows[0]["log_probability"] for rows in given.values())
    assert scores[-1] - scores[0] > 20 * CLOSE  # else any picture would do
    found = captioner.captions(photos.values(), n_best=2)
    for image, result in zip(photos, found, strict=True):
        assert [caption.text for caption in result.captions] == [row["caption"] for row in given[image]]
        expected = [row["log_probability"] for row in given[image]]
        assert [caption.log_probability for caption in result.captions] == pytest.approx(expected, abs=CLOSE)
    assert captioner.evaluation.beam == 4 and captioner.evaluation.rules.no_repeated_ngram == 2


def test_photos_in_the_batches_of_the_extraction_have_the_bits_of_the_store(results, captioner):
    table, store = Corpus.read(results.data / "corpus.parquet"), FeatureStore(results.store)
    files = find_run_files(results.run)
    encoder = PhotoFeatures(files.extractors, files.vocabulary, torch.device("cpu"))
    with zipfile.ZipFile(results.data / "images.zip") as archive:
        pictures = [[Image.open(io.BytesIO(archive.read(table.files()[image]))).convert("RGB")] for image in range(4)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        made = encoder.read(pictures, captioner._model).main
        alone = torch.cat([encoder.read([views], captioner._model).main.values for views in pictures])
    finally:
        torch.set_num_threads(threads)
    values, mask = store.read(range(4))
    assert torch.equal(made.values, values) and torch.equal(made.mask, mask)
    torch.testing.assert_close(alone, values, rtol=2e-3, atol=1e-4)  # a step of float16 at most


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_the_size_of_a_batch_does_not_matter(photos, captioner, batch_size):
    whole = captioner.captions(photos.values(), n_best=4, batch_size=3)
    other = captioner.captions(photos.values(), n_best=4, batch_size=batch_size)
    for one, two in zip(whole, other, strict=True):
        assert one.photo == two.photo and one.caption == two.caption
        scores = [[caption.log_probability for caption in result.captions] for result in (one, two)]
        assert scores[0] == pytest.approx(scores[1], abs=CLOSE)


def test_a_path_a_picture_and_an_array_are_the_same_photo(photo, captioner):
    picture = Image.open(photo)
    given = [photo, str(photo), picture, picture.convert("RGB"), np.asarray(picture.convert("RGB"))]
    found = captioner.captions(given)
    assert {result.caption for result in found} == {captioner(photo)}
    assert [result.photo for result in found] == [str(photo)] * 3 + ["picture 4", "array 5"]


def test_a_wider_search_finds_no_worse_caption_and_n_best_must_fit(photo, captioner):
    narrow, wide = (captioner.captions([photo], beam=beam)[0] for beam in (1, 4))
    assert len(wide.captions) == 1 and wide.log_probability >= narrow.log_probability - CLOSE
    with pytest.raises(ConfigError, match="a beam of 2 has no 3 best captions; widen it"):
        captioner.captions([photo], beam=2, n_best=3)
    with pytest.raises(RecapError, match="must be 1 or more"):
        captioner.captions([photo], batch_size=0)


def test_views_of_one_thing_have_one_caption(photos, captioner):
    first, second = list(photos.values())[:2]
    (result,) = captioner.captions([(first, second)])
    assert result.photo == f"{first} + {second}" and result.caption
    assert captioner.views == 1
    with pytest.raises(DataError, match="holds no photo"):
        captioner(())


RAMP = np.tile(np.linspace(0, 65535, 64).astype(np.uint16), (48, 1))


def odd_files(folder):
    """Return files that must be captioned, and those that must not with what is said of them."""
    photo = Image.fromarray((RAMP // 257).astype(np.uint8)).convert("RGB")
    photo.convert("CMYK").save(folder / "cmyk.jpg")
    Image.fromarray(RAMP).save(folder / "deep.png")
    frames = [photo.transpose(Image.Transpose.ROTATE_180), photo]
    for ending in ("gif", "webp"):
        photo.save(folder / f"moving.{ending}", save_all=True, append_images=frames, duration=50)
    photo.convert("RGBA").save(folder / "glass.png")
    good = ["cmyk.jpg", "deep.png", "moving.gif", "moving.webp", "glass.png"]
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "text.jpg").write_text("no picture")
    (folder / "cut.png").write_bytes((folder / "deep.png").read_bytes()[:90])
    Image.new("1", (20_000, 20_000)).save(folder / "huge.png")
    (folder / "folder.jpg").mkdir()
    bad = {
        "empty.jpg": "the file is empty",
        "text.jpg": "no picture that is read here (JPEG, PNG",
        "cut.png": "truncated or no picture",
        "huge.png": "too many pixels",
        "folder.jpg": "not a file",
        "missing.jpg": "no such file",
    }
    return good, bad


def test_odd_files_are_captioned_or_named(captioner, tmp_path):
    good, bad = odd_files(tmp_path)
    names = [name for pair in zip(bad, [*good, good[0]], strict=True) for name in pair]
    found = list(captioner.stream([tmp_path / name for name in names], batch_size=4))
    for name, result in zip(names, found, strict=True):
        assert result.photo == str(tmp_path / name)
        if name in bad:
            assert isinstance(result, FailedPhoto)
            assert result.reason.startswith(result.photo) and bad[name] in result.reason
            assert "BytesIO" not in result.reason
        else:
            assert isinstance(result, PhotoCaptions) and result.caption
    with pytest.raises(DataError, match="the file is empty"):
        captioner(tmp_path / "empty.jpg")


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((4, 4, 3)),
        np.zeros((4, 4, 2), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
        np.zeros(4, np.uint8),
        np.zeros((4, 4), np.uint8) > 0,
    ],
)
def test_arrays_whose_meaning_is_not_certain_are_refused(captioner, values):
    with pytest.raises(DataError, match=r"array 1: an array .* is no photo; give uint8"):
        captioner(values)
    with pytest.raises(DataError, match="a dict is no photo"):
        captioner({})


def test_a_photo_that_lies_on_its_side_is_turned(tmp_path):
    upright = Image.fromarray((RAMP // 257).astype(np.uint8)).convert("RGB")
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it a quarter to the right
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "phone.png", exif=exif)
    assert read_photo(tmp_path / "phone.png", "phone").tobytes() == upright.tobytes()
    assert read_photo(Image.open(tmp_path / "phone.png"), "phone").tobytes() == upright.tobytes()


def test_folders_and_patterns_stand_for_their_pictures(tmp_path):
    (tmp_path / "below").mkdir()
    for name in ("b.jpg", "a.PNG", ".hidden.jpg", "notes.txt", "below/c.webp", "odd[1].jpg"):
        (tmp_path / name).write_bytes(b"x")
    found = find_photos([tmp_path])
    assert [path.name for path in found.files] == ["a.PNG", "b.jpg", "odd[1].jpg"]
    assert found.left_out == 3
    deep = find_photos([f"{tmp_path}/**/*.[jw]*", tmp_path / "b.jpg", tmp_path / "odd[1].jpg"])
    assert sorted(path.name for path in deep.files) == ["b.jpg", "c.webp", "odd[1].jpg"]
    assert find_photos(["no/such*.jpg", "gone.jpg"]).files != []


EVIL = PhotoCaptions("=cmd()\x1b[2J.jpg", (Caption("@sum a, b", -1.5, -1.5), Caption("b", -2.0, -2.0)))


def test_output_runs_no_formula_and_moves_no_cursor():
    rows = list(csv.reader("".join(comma_separated([EVIL])).splitlines()))
    assert rows[0] == ["file", "rank", "caption", "log_probability"]
    assert rows[1] == ["'=cmd() [2J.jpg", "1", "'@sum a, b", "-1.5"] and len(rows) == 3
    assert "\x1b" not in "".join(pretty([EVIL]))
    (line,) = json_lines([EVIL])
    assert json.loads(line)["file"] == EVIL.photo and "\x1b" not in line
    assert [row["caption"] for row in json.loads(line)["n_best"]] == ["@sum a, b", "b"]


def test_the_command_captions_what_it_can_names_the_rest_and_ends_with_1(results, photos, tmp_path, capsys):
    (tmp_path / "bad.jpg").write_text("no")
    files = [str(path) for path in photos.values()]
    out = tmp_path / "captions.csv"
    words = ["caption", *files, str(tmp_path / "bad.jpg"), "--run", str(results.folder), "--device", "cpu"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--format", "csv", "--n-best", "2", "--out", str(out)])
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert said.out == "" and f"{tmp_path}/bad.jpg: no picture" in said.err and "1 of 7 photos have no" in said.err
    rows = list(csv.DictReader(out.open()))
    assert [row["file"] for row in rows] == [name for name in files for _ in range(2)]
    main(["caption", files[0], "--run", str(results.run), "--device", "cpu"])
    assert capsys.readouterr().out == f"{files[0]}: {rows[0]['caption']}\n"


def test_views_together_are_one_line_and_the_count_that_was_trained_with_is_named(results, photos, capsys):
    files = [str(path) for path in photos.values()][:2]
    main(["caption", "--together", *files, "--run", str(results.run), "--format", "jsonl", "--device", "cpu"])
    said = capsys.readouterr()
    assert json.loads(said.out)["file"] == " + ".join(files)
    assert "trained with 1 pictures an example, and is given 2" in said.err


def test_nothing_is_written_where_the_run_is_wrong(results, photo, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["caption", str(photo), "--run", str(tmp_path / "none"), "--out", str(tmp_path / "out")])
    assert ended.value.code == 2 and "no such folder; name that of a run" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.fixture
def copied(results, tmp_path):
    """The run folder alone, elsewhere."""
    return shutil.copytree(results.run, tmp_path / "copied")


def test_a_run_folder_alone_asks_for_each_file_and_works_with_them(results, photo, captioner, copied, tmp_path):
    named = {}
    for option, files in {"vocabulary": results.data / "vocabulary.json", "features": [results.store]}.items():
        with pytest.raises(RecapError, match=f"say where (it is|they are) with --{option} FILE"):
            recap.load(copied, **named)
        named[option] = files
    moved = shutil.copy(results.store, tmp_path / "moved.h5")
    with pytest.raises(FeatureError, match="the weights that .* say where they are with --weights FILE"):
        recap.load(copied, vocabulary=named["vocabulary"], features=[moved])
    weights = shutil.copy(results.backbone, tmp_path / "weights.safetensors")
    whole = recap.load(copied, vocabulary=named["vocabulary"], features=[moved], weights=weights)
    assert whole(photo) == captioner(photo)


def test_files_of_another_training_are_refused(results, copied, tmp_path):
    files = {"vocabulary": results.data / "vocabulary.json", "features": [results.store]}
    config = yaml.safe_load((copied / "config.yaml").read_text())
    (copied / "SHA256SUMS").unlink()
    for key, sentence in (("vocabulary_hash", "not the vocabulary that"), ("feature_hash", "not the features that")):
        (copied / "config.yaml").write_text(yaml.safe_dump({**config, key: "0" * 16}))
        with pytest.raises(RecapError, match=f"{sentence} .* was trained with"):
            recap.load(copied, **files)
    (copied / "config.yaml").write_text(yaml.safe_dump(config))
    from safetensors.torch import load_file, save_file

    tensors = load_file(results.backbone)
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, tmp_path / "other.safetensors")
    with pytest.raises(FeatureError, match=r"other.safetensors: not the weights that .*tiny.h5 was made with"):
        recap.load(copied, **files, weights=tmp_path / "other.safetensors")


def test_of_several_runs_the_best_on_validation_is_taken_unless_data_sets_differ(results, tmp_path):
    for name, score, dataset in (("a", 0.5, "scenes"), ("b", 0.9, "scenes"), ("c", 0.7, "scenes")):
        run = shutil.copytree(results.run, tmp_path / "runs" / name)
        told = json.loads((run / "training.json").read_text())
        write_json(run / "training.json", {**told, "best_val_cider_d": score, "dataset": dataset})
    files = {"vocabulary": results.data / "vocabulary.json", "features": [results.store]}
    assert find_run_files(tmp_path, **files).run == tmp_path / "runs" / "b"
    told = json.loads((tmp_path / "runs" / "a" / "training.json").read_text())
    write_json(tmp_path / "runs" / "a" / "training.json", {**told, "dataset": "flickr8k"})
    with pytest.raises(TrainingError, match="holds runs on flickr8k, scenes; name one run"):
        find_run_files(tmp_path, **files)
    with pytest.raises(TrainingError, match="no finished run is in it"):
        find_run_files(results.data)


REFUSED = {
    "crops": ({"kind": "crops", "boxes": "b", "backbone": "x", "weights": "random"}, "a photo brings no boxes"),
    "imported": ({"kind": "imported", "form": "m2_hdf5", "sources": ["a"]}, "what extracted them is not here"),
    "random": ({"kind": "grid", "backbone": "test_resnet", "weights": "random"}, "is not recorded; use a run on"),
    "other": ({"kind": "holograms"}, "of kind 'holograms', which is not known; name the module"),
    "regions": ({"kind": "regions", "detector": "faster_rcnn_r50_c4", "weights": "random"}, "need detectron2"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_features_that_a_photo_cannot_have_are_one_sentence(results, monkeypatch, kind):
    described, sentence = REFUSED[kind]
    opened = FeatureStore._take

    def other(self, header):
        opened(self, header)
        self.attributes = {**self.attributes, "extractor": json.dumps(described)}

    monkeypatch.setattr(FeatureStore, "_take", other)
    with pytest.raises(RecapError, match=sentence) as refused:
        recap.load(results.run, device="cpu")
    assert "\n" not in str(refused.value)


def test_another_preprocessing_than_the_store_is_refused(results, monkeypatch):
    opened = FeatureStore._take

    def other(self, header):
        opened(self, header)
        said = json.loads(self.attributes["extractor"])
        said["preprocessing"]["mean"] = [0.0, 0.0, 0.0]
        self.attributes = {**self.attributes, "extractor": json.dumps(said)}

    monkeypatch.setattr(FeatureStore, "_take", other)
    with pytest.raises(FeatureError, match="was made with preprocessing .* and a photo would be with"):
        recap.load(results.run, device="cpu")


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"no_repeated_ngram": 3},
        {"no_immediate_repeat": True, "bad_endings": ["a", "on"]},
        {"no_repeated_ngram": 2, "no_immediate_repeat": True, "bad_endings": ["the"], "groups": 3, "diversity": 0.25},
        {"groups": 2},
    ],
)
def test_rules_are_read_back_from_their_words(rules):
    assert DecodingRules.of_text(DecodingRules(**rules).text) == DecodingRules(**rules)


@pytest.mark.parametrize(
    "text", ["ngram", "repeatgroups2x1", "endings(a)x", "?", "ngram2+", "endings(b,a)", "groups2x..."]
)
def test_other_words_are_no_rules(text):
    with pytest.raises(ConfigError, match="does not say what decoding forbade"):
        DecodingRules.of_text(text)


def test_importing_recap_brings_no_torch_and_three_lines_do(results, photo):
    light = "import sys, recap; print('torch' in sys.modules, 'load' in dir(recap) or 'load' in recap.__all__)"
    assert subprocess.check_output([sys.executable, "-c", light], text=True).split() == ["False", "True"]
    lines = f"import recap\ncaptioner = recap.load({str(results.run)!r})\nprint(captioner({str(photo)!r}))\n"
    said = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip() == recap.load(results.run, device="cpu")(photo)
    with pytest.raises(AttributeError, match="has no attribute 'lod'"):
        recap.lod  # noqa: B018
