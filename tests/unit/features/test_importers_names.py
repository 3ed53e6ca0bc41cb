"""Features go to the pictures that their names say, or are refused: in every format, whoever numbered the pictures."""

import json

import pytest

from helpers.feature_files import write_named
from helpers.importing import refuses_import, run_import, write_corpus_of
from recap.data.corpus import write_corpus
from recap.data.datasets.base import read_karpathy
from recap.settings.features import FORMATS

pytestmark = pytest.mark.seconds
every_format = pytest.mark.parametrize("format", FORMATS.names())
PHOTOS = dict(enumerate(sorted(f"photo_{number}.jpg" for number in (1, 2, 3, 10, 11, 12))))


def imported(folder, format, values, files, **changes):
    """Import an image for each name, its vectors full of its value; return image id -> value."""
    corpus = write_corpus_of(folder, files) if isinstance(files, dict) else files
    store = run_import(folder, format, write_named(folder / "new", format, values), corpus=corpus, **changes)
    return {image_id: store.read([image_id])[0][0, 0, 0].item() for image_id in store.ids.tolist()}


def refuses(folder, named, format, names, files):
    corpus = write_corpus_of(folder, files)
    refuses_import(folder, named, format, write_named(folder / "new", format, names), corpus=corpus)


@every_format
def test_numbers_are_no_ids_of_pictures_that_the_reader_numbered(tmp_path, format):
    names = {str(number): number for number in range(13)}
    refuses(tmp_path, ["image id 0 (photo_1.jpg)", "13 names", "'0'", "--names ids"], format, names, PHOTOS)
    assert imported(tmp_path, format, names, PHOTOS, names="ids") == {number: number for number in range(6)}


@every_format
def test_whole_names_are_looked_up_before_numbers(tmp_path, format):
    names = {f"photo_{number}": number for number in range(13)}
    assert imported(tmp_path, format, names, PHOTOS) == {0: 1, 1: 10, 2: 11, 3: 12, 4: 2, 5: 3}


@every_format
def test_published_ids_are_found_by_number(tmp_path, format):
    files = {7: "val2014/COCO_val2014_000000000007.jpg", 42: "000000000042.jpg", 123: "123.jpg"}
    for names in (["7", "42", "123", "9"], ["000000000007", "COCO_train2014_000000000042", "000000000123", "x_9"]):
        values = dict(zip(names, (7, 42, 123, 9), strict=True))
        assert imported(tmp_path, format, values, files) == {7: 7, 42: 42, 123: 123}


@every_format
def test_number_at_the_end_of_another_name_is_no_id(tmp_path, format):
    refuses(tmp_path, ["dog_0.jpg", "'cat_0'"], format, {"cat_0": 0, "dog_1": 1}, {0: "dog_0.jpg", 1: "dog_1.jpg"})


@every_format
def test_name_that_is_a_number_of_another_picture_is_refused_until_the_settings_decide(tmp_path, format):
    names, files = {"1": 1, "2": 2}, {0: "1.jpg", 1: "2.jpg", 2: "3.jpg"}
    both = ["'1'", "1.jpg (image id 0)", "2.jpg (image id 1)", "--names"]
    refuses(tmp_path, both, format, names, files)
    assert imported(tmp_path, format, {**names, "3": 3}, files, names="files") == {0: 1, 1: 2, 2: 3}


@every_format
def test_two_pictures_of_one_stem_are_refused_unless_names_have_the_folder(tmp_path, format):
    files = {3: "a/dog.jpg", 5: "b/dog.jpg"}
    both = ["'dog'", "a/dog.jpg (image id 3)", "b/dog.jpg (image id 5)", "--names"]
    refuses(tmp_path, both, format, {"dog": 1}, files)
    if format != "m2_hdf5":  # a slash in a name of HDF5 is a group
        assert imported(tmp_path, format, {"b/dog": 5, "a/dog": 3}, files) == {3: 3, 5: 5}


@every_format
@pytest.mark.parametrize("cocoid", [False, True])
def test_karpathy_with_and_without_cocoid(tmp_path, format, cocoid):
    images = []
    for number, split in enumerate(("train", "val", "test")):
        known = {"filename": f"COCO_val2014_{2 - number:012d}.jpg", "imgid": number, "split": split}
        sentences = [{"tokens": ["a", "dog"], "raw": "a dog", "sentid": number}]
        images.append({**known, "sentences": sentences, **({"cocoid": 2 - number} if cocoid else {})})
    (tmp_path / "k.json").write_text(json.dumps({"images": images}))
    captions = read_karpathy(tmp_path / "k.json", merge_restval=True)
    path = tmp_path / "corpus.parquet"
    write_corpus(captions, path, dataset="x", kind="karpathy", source_sha256="0" * 64)
    names = {f"COCO_val2014_{number:012d}": number for number in range(3)}
    expected = {number: number if cocoid else 2 - number for number in range(3)}
    assert imported(tmp_path, format, names, path) == expected
    bare = write_named(tmp_path / "new", format, {str(number): number for number in range(3)})
    if cocoid:
        run_import(tmp_path, format, bare, corpus=path)
    else:
        (tmp_path / "out" / "f.h5").unlink()
        refuses_import(tmp_path, ["--names ids"], format, bare, corpus=path)


def test_names_of_files_need_a_corpus(tmp_path):
    refuses_import(
        tmp_path, ["--corpus"], "bottom_up_tsv", write_named(tmp_path / "new", "bottom_up_tsv", {"1": 1}), names="files"
    )
