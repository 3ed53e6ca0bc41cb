"""Miniatures have the names and members of the published files, and the project's readers read them."""

import tarfile
import zipfile
from collections import Counter
from dataclasses import replace
from itertools import chain
from shutil import unpack_archive

import pytest

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
KARPATHY = ["karpathy/caption_datasets.zip"]
ANNOTATIONS = ["coco/annotations_trainval2014.zip"]
PICTURES = ["coco/train2014.zip", "coco/val2014.zip"]
LISTS = {"val_list": "coco/karpathy_val_images.txt", "test_list": "coco/karpathy_test_images.txt"}
COCO = {"kind": "coco", "images": PICTURES, "partial": True}
XRAYS = {key: f"iu_xray/{SPEC[key]}" for key in ("reports", "annotations", "projections")}


@pytest.fixture
def written(tmp_path):
    """Return the function that writes miniatures below one folder."""
    return lambda *names, world=WORLD: [write_outside_file(name, world, tmp_path) for name in names]


def first_member(path):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()[0]
    with tarfile.open(path) as archive:
        return archive.getnames()[0]


def corpus_of(folder, spec):
    build_corpus(name="x", spec=spec, inputs=folder, out=folder / "corpus")
    return Corpus.read(folder / "corpus" / "corpus.parquet")


def test_captions_have_every_word_that_a_recipe_of_the_papers_names(tmp_path, written):
    written(*KARPATHY, *PICTURES, world=replace(WORLD, train=12, held_out=7))  # as many as in a rehearsal
    counts = Counter(chain.from_iterable(corpus_of(tmp_path, {**COCO, "annotations": KARPATHY}).token_lists()))
    recipes = [load_named(ROOT / "params", "recipes", name) for name in names(ROOT / "params", "recipes")]
    named = {word for recipe in recipes for word in recipe.evaluation.rules.bad_endings}
    assert "an" in named and not {word for word in named if counts[word] < 6}


@pytest.mark.parametrize(
    ("spec", "files", "images"),
    [
        ({**COCO, "annotations": KARPATHY}, [*KARPATHY, *PICTURES], (8, 2, 2)),
        ({**COCO, "annotations": ANNOTATIONS, **LISTS}, [*ANNOTATIONS, *LISTS.values(), *PICTURES], (8, 2, 2)),
        (
            {**SPEC, **XRAYS, "images": ["iu_xray/NLMCXR_png.tgz"]},
            [*XRAYS.values(), "iu_xray/NLMCXR_png.tgz"],
            (5, 2, 2),
        ),
    ],
    ids=["karpathy", "annotations", "x-rays"],
)
def test_captions_and_pictures_become_a_corpus(tmp_path, written, spec, files, images):
    written(*files)
    corpus = corpus_of(tmp_path, spec)
    assert tuple(len(corpus.image_ids(split)) for split in ("train", "val", "test")) == images


@pytest.mark.parametrize(
    ("name", "member", "format", "shape"),
    [
        ("bottom_up/trainval.zip", "trainval/karpathy_train_resnet101_", "bottom_up_tsv", (10, 14, 2048)),
        ("bottom_up/trainval_36.zip", "trainval_36/trainval_resnet101_", "bottom_up_tsv", (36, 36, 2048)),
        ("bottom_up/test2014.zip", "test2014/test2014_resnet101_", "bottom_up_tsv", (10, 11, 2048)),
        ("grid_feats/X-101-features.tgz", "train2014/9.pth", "grid_feats_pth", (49, 49, 2048)),
        ("oscar/coco_caption.zip", "coco_caption/train.feature.tsv", "vinvl_tsv", (10, 14, 2054)),
        ("m2/coco_detections.hdf5", "", "m2_hdf5", (10, 14, 2048)),
    ],
)
def test_features_are_imported(tmp_path, written, name, member, format, shape):
    sources = written(name)
    if member:
        assert first_member(sources[0]).startswith(member)
        unpack_archive(sources[0], tmp_path / "out")
        sources = sorted((tmp_path / "out").rglob("*.tsv*"))
    if not sources:  # in a folder for each part of the pictures
        flat = tmp_path / "flat"
        flat.mkdir()
        for file in (tmp_path / "out").rglob("*.pth"):
            file.rename(flat / file.name)
        sources = [flat]
    store = run_import(tmp_path, format, *sources)
    counts = store.rows(store.ids.tolist())
    assert (min(counts), max(counts), store.read(store.ids[:1].tolist())[0].shape[-1]) == shape


def test_the_list_of_a_rehearsal_has_addresses_and_hashes_of_miniatures_where_it_had_any(tmp_path, written):
    names = ["coco/train2014.zip", "bottom_up/trainval.zip"]
    served = dict(zip(names, written(*names), strict=True))
    write_list(LIST, tmp_path / "list.csv", served=served, url="http://127.0.0.1:5")
    listed, real = read_versions(tmp_path / "list.csv"), read_versions()
    assert {name for name, file in listed.items() if file.urls} == set(names)  # nothing else can be fetched
    assert "bottom_up/trainval" in listed and "bottom_up/trainval_36" not in listed
    places = ("", "mirror1/", "mirror2/")  # as many addresses as the list has
    assert listed[names[0]].urls == tuple(f"http://127.0.0.1:5/{place}coco/train2014.zip" for place in places)
    assert listed[names[0]].hash != real[names[0]].hash and listed[names[1]].hash is None


def test_a_file_without_a_miniature_is_named(tmp_path):
    with refused(ConfigError, "mine/captions.json"):
        write_outside_file("mine/captions.json", WORLD, tmp_path)
