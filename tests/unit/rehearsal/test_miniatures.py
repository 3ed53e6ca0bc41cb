"""Miniatures have the names, members and fields of the published files, and the project's readers read them."""

import json
import tarfile
import zipfile
from collections import Counter
from dataclasses import replace
from itertools import chain
from shutil import unpack_archive

import pytest
import torch

from helpers.importing import run_import
from helpers.refusals import refused
from helpers.tiny_workspace import ROOT
from helpers.xray_files import SPEC
from recap.core.errors import ConfigError
from recap.data.corpus import Corpus, build_corpus
from recap.settings.params import load_named, names
from recap.settings.versions import LIST, read_versions
from rehearsal.files import write_list, write_outside_file
from rehearsal.world import World

WORLD = World(train=8, held_out=2, web=6, studies=5, address="http://127.0.0.1:1")
COCO = {
    "kind": "coco",
    "annotations": ["karpathy/caption_datasets.zip"],
    "images": ["coco/train2014.zip", "coco/val2014.zip"],
}


@pytest.fixture
def written(tmp_path):
    """Return the function that writes miniatures below one folder."""
    return lambda *names: [write_outside_file(name, WORLD, tmp_path) for name in names]


def members(path):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    with tarfile.open(path) as archive:
        return archive.getnames()


def corpus_of(folder, **spec):
    build_corpus(name="x", spec=spec, inputs=folder, out=folder / "corpus")
    return Corpus.read(folder / "corpus" / "corpus.parquet")


def test_captions_have_every_word_that_a_recipe_of_the_papers_names(tmp_path):
    world = replace(WORLD, train=12, held_out=7)  # as many as in a rehearsal
    for name in ("karpathy/caption_datasets.zip", "coco/train2014.zip", "coco/val2014.zip"):
        write_outside_file(name, world, tmp_path)
    counts = Counter(chain.from_iterable(corpus_of(tmp_path, **COCO, partial=True).token_lists()))
    recipes = [load_named(ROOT / "params", "recipes", name) for name in names(ROOT / "params", "recipes")]
    named = {word for recipe in recipes for word in recipe.evaluation.rules.bad_endings}
    assert "an" in named and not {word for word in named if counts[word] < 6}


def test_karpathys_zip_and_pictures_become_a_corpus(tmp_path, written):
    archive, train, val = written("karpathy/caption_datasets.zip", "coco/train2014.zip", "coco/val2014.zip")
    assert members(archive) == ["dataset_coco.json", "dataset_flickr8k.json", "dataset_flickr30k.json"]
    assert members(train)[0] == "train2014/COCO_train2014_000000000009.jpg"
    with zipfile.ZipFile(archive) as file:
        images = json.loads(file.read("dataset_coco.json"))["images"]
    keys = {"filepath", "sentids", "filename", "imgid", "split", "sentences", "cocoid"}
    assert all(set(image) == keys for image in images)
    assert {image["split"] for image in images} == {"train", "restval", "val", "test"}
    assert set(images[0]["sentences"][0]) == {"tokens", "raw", "imgid", "sentid"}
    corpus = corpus_of(tmp_path, **COCO, partial=True)
    assert [len(corpus.image_ids(split)) for split in ("train", "val", "test")] == [8, 2, 2]


def test_cocos_own_annotations_and_karpathys_lists_give_the_same_split(tmp_path, written):
    names = ["coco/annotations_trainval2014.zip", "coco/karpathy_val_images.txt", "coco/karpathy_test_images.txt"]
    archive, val_list, _ = written(*names, "coco/train2014.zip", "coco/val2014.zip")[:3]
    kinds = ("instances", "person_keypoints", "captions")
    assert sorted(members(archive)) == sorted(
        f"annotations/{kind}_{part}.json" for kind in kinds for part in ("train2014", "val2014")
    )
    path, _, number = val_list.read_text().splitlines()[0].partition(" ")
    assert path == f"val2014/COCO_val2014_{int(number):012d}.jpg"
    lists = {"annotations": names[:1], "val_list": names[1], "test_list": names[2], "partial": True}
    corpus = corpus_of(tmp_path, **{**COCO, **lists})
    assert [len(corpus.image_ids(split)) for split in ("train", "val", "test")] == [8, 2, 2]


def test_x_rays_have_two_views_in_the_order_of_their_report(tmp_path, written):
    names = [*SPEC["images"], *(SPEC[key] for key in ("reports", "annotations", "projections"))]
    pictures, reports, _, projections = written(*(f"iu_xray/{name}" for name in names))
    assert members(pictures)[:2] == ["CXR1_IM-0001-1001.png", "CXR1_IM-0001-2001.png"]
    assert members(reports)[0] == "ecgen-radiology/1.xml"
    assert projections.read_text().splitlines()[:2] == ["uid,filename,projection", "1,1_IM-0001-1001.dcm.png,Frontal"]
    corpus = corpus_of(tmp_path / "iu_xray", **SPEC)
    assert [len(corpus.image_ids(split)) for split in ("train", "val", "test")] == [5, 2, 2]
    assert {len(views) for views in corpus.views().values()} == {2}


@pytest.mark.parametrize(
    ("name", "format", "begin", "count"),
    [
        ("bottom_up/trainval.zip", "bottom_up_tsv", "trainval/karpathy_", (10, 14)),
        ("bottom_up/trainval_36.zip", "bottom_up_tsv", "trainval_36/trainval_resnet101_", (36, 36)),
        ("bottom_up/test2014.zip", "bottom_up_tsv", "test2014/test2014_resnet101_", (10, 11)),
        ("grid_feats/X-101-features.tgz", "grid_feats_pth", "", (49, 49)),
    ],
)
def test_archives_of_features_are_imported(tmp_path, written, name, format, begin, count):
    (path,) = written(name)
    assert all(member.startswith(begin) for member in members(path))
    unpack_archive(path, tmp_path / "out")
    files = sorted((tmp_path / "out").rglob("*.tsv*"))
    if not files:
        flat = tmp_path / "flat"
        flat.mkdir()
        files = [flat]
        for file in (tmp_path / "out").rglob("*.pth"):
            file.rename(flat / file.name)
        assert torch.load(next(flat.iterdir()), weights_only=True).shape[:2] == (1, 2048)
    store = run_import(tmp_path, format, *files)
    assert store.read(store.ids[:1].tolist())[0].shape[-1] == 2048
    counts = store.rows(store.ids.tolist())
    assert (min(counts), max(counts)) == count


@pytest.mark.parametrize("names", [["oscar/coco_caption.zip"], ["vinvl/features.tsv", "vinvl/features.lineidx"]])
def test_lines_of_oscar_and_vinvl_are_found_through_their_index_and_have_boxes(tmp_path, written, names):
    paths = written(*names)
    if names[0].endswith(".zip"):
        ends = ("feature.tsv", "feature.lineidx")
        splits = ("train", "val", "test")
        assert members(paths[0]) == [f"coco_caption/{split}.{end}" for split in splits for end in ends]
        unpack_archive(paths[0], tmp_path)
        paths = sorted((tmp_path / "coco_caption").glob("*.tsv"))
    store = run_import(tmp_path, "vinvl_tsv", *(path for path in paths if path.suffix == ".tsv"))
    assert len(store) == len(WORLD.photos)
    assert store.read(store.ids[:1].tolist())[0].shape[-1] == 2054
    assert "boxes" in store.columns()


def test_detections_of_the_meshed_memory_transformer_are_imported(tmp_path, written):
    store = run_import(tmp_path, "m2_hdf5", *written("m2/coco_detections.hdf5"))
    assert len(store) == len(WORLD.photos) and store.columns() == ["boxes", "class_probabilities"]


def test_the_list_of_a_rehearsal_has_addresses_and_hashes_of_miniatures_where_it_had_any(tmp_path, written):
    names = ["coco/train2014.zip", "bottom_up/trainval.zip"]
    served = dict(zip(names, written(*names), strict=True))
    write_list(LIST, tmp_path / "list.csv", served=served, url="http://127.0.0.1:5")
    listed, real = read_versions(tmp_path / "list.csv"), read_versions()
    assert {name for name, file in listed.items() if file.urls} == set(names)  # nothing else can be fetched
    assert {name for name, file in real.items() if not (file.urls or file.archive)} < set(listed)
    assert "bottom_up/trainval" in listed and "bottom_up/trainval_36" not in listed
    places = ("", "mirror1/", "mirror2/")  # as many addresses as the list has
    assert listed[names[0]].urls == tuple(f"http://127.0.0.1:5/{place}coco/train2014.zip" for place in places)
    assert listed[names[0]].bytes == served[names[0]].stat().st_size
    assert listed[names[0]].hash != real[names[0]].hash and listed[names[1]].hash is None
    assert listed["iu_xray/indiana_projections.csv"] == real["iu_xray/indiana_projections.csv"]


def test_a_file_without_a_miniature_is_named(tmp_path):
    with refused(ConfigError, "mine/captions.json"):
        write_outside_file("mine/captions.json", WORLD, tmp_path)
