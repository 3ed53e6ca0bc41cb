"""Reference captions for scoring: from a folder,
the user's cache or known addresses, without pictures."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from helpers.fetching import HEAD, flipped, line, zipped
from helpers.refusals import refused
from helpers.web_server import serve
from recap.core.errors import DataError, UnknownName
from recap.data import references
from recap.data.corpus import Corpus, build_corpus
from recap.data.files import download
from recap.data.references import references_corpus
from recap.settings.params import load_named
from recap.settings.versions import read_versions

ZIP = "karpathy/caption_datasets.zip"


def karpathy(words="a red ball"):
    splits = {1: "train", 2: "val", 3: "test", 4: "test", 5: "restval"}
    images = [
        {
            "filename": f"{image}.jpg",
            "filepath": "val2014",
            "cocoid": image,
            "split": split,
            "sentences": [
                {"sentid": 10 * image + n, "raw": f"{words} {n}", "tokens": words.split()}
                for n in (0, 1)
            ],
        }
        for image, split in splits.items()
    ]
    return json.dumps({"images": images})


def packed(tmp_path, **texts):
    path = tmp_path / "packed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for dataset, text in texts.items():
            archive.writestr(f"dataset_{dataset}.json", text)
    return path.read_bytes()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "nowhere").mkdir()
    monkeypatch.chdir(tmp_path / "nowhere")
    monkeypatch.setattr(download, "TRIES", 2)
    return tmp_path / "cache" / "recap"


@pytest.fixture
def at(tmp_path, monkeypatch):
    """Let the known files be others, at another address."""
    folder = Path(shutil.copytree(references.KNOWN, tmp_path / "captions"))
    monkeypatch.setattr(references, "KNOWN", folder)

    def move(site, **contents):
        lines = []
        for file in read_versions(folder / "data_versions.csv"):
            name = Path(file).stem
            lines.append(line(file, f"{site.url}/{name}", contents.get(name, b"?")))
        (folder / "data_versions.csv").write_text(HEAD + "".join(lines))

    return move


def found(tmp_path, dataset="coco", *, fetch=False, inputs="resources"):
    return references_corpus(
        dataset, params=tmp_path / "params", inputs=tmp_path / inputs, fetch=fetch
    )


def test_the_known_files_and_captions_are_those_of_the_parameters(request):
    params = request.config.rootpath / "params"
    listed = read_versions(params / "data_versions.csv")
    assert read_versions(references.KNOWN / "data_versions.csv").items() <= listed.items()
    for name in ("coco", "coco_plain", "flickr30k"):
        known, shipped = (
            load_named(folder, "datasets", name) for folder in (references.KNOWN, params)
        )
        assert known.outside_files() == shipped.captions_alone().outside_files()


def test_a_folder_of_another_program_named_params_does_no_harm(tmp_path):
    (tmp_path / "params").mkdir()
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "dataset_flickr8k.json").write_text(karpathy())
    assert Corpus.read(found(tmp_path, "flickr8k")).image_ids("val") == [2]


@pytest.mark.parametrize("place", ["dataset_flickr8k.json", ZIP])
def test_captions_in_a_folder_need_no_pictures_and_make_the_corpus_that_they_make_with_pictures(
    tmp_path, place
):
    file = tmp_path / "resources" / place
    file.parent.mkdir(parents=True)
    text = karpathy()
    file.write_bytes(
        text.encode()
        if place.endswith(".json")
        else packed(tmp_path, flickr8k=text, coco=karpathy("no"))
    )
    alone = Corpus.read(found(tmp_path, "flickr8k"))
    (tmp_path / "photos" / "val2014").mkdir(parents=True)
    for image in range(1, 6):
        (tmp_path / "photos" / "val2014" / f"{image}.jpg").write_bytes(b"")
    (tmp_path / "d.json").write_text(text)
    spec = {"kind": "karpathy", "annotations": "d.json", "images": ["photos"]}
    build_corpus(name="flickr8k", spec=spec, inputs=tmp_path, out=tmp_path / "whole")
    whole = Corpus.read(tmp_path / "whole" / "corpus.parquet")
    assert alone.captions() == whole.captions()
    assert alone.files() == whole.files()
    assert alone.split_hash == whole.split_hash
    assert alone.image_ids("test") == [3, 4]


def test_other_captions_in_the_same_file_make_another_corpus(tmp_path):
    (tmp_path / "resources").mkdir()
    file = tmp_path / "resources" / "dataset_flickr8k.json"
    texts = []
    for words in ("a red ball", "a blue ball"):
        file.write_text(karpathy(words))
        texts.append(Corpus.read(found(tmp_path, "flickr8k")).captions("test")[3][0])
    assert texts == ["a red ball 0", "a blue ball 0"]


def test_fetched_captions_are_found_in_the_cache_by_the_next_call(tmp_path, at, cache):
    content = packed(tmp_path, flickr30k=karpathy(), flickr8k=karpathy("a dog"))
    with serve({"caption_datasets": content}) as site:
        at(site, caption_datasets=content)
        with refused(
            DataError, "--dataset flickr30k", "resources", cache, ZIP, "--inputs", "--fetch"
        ):
            found(tmp_path, "flickr30k")
        path = found(tmp_path, "flickr30k", fetch=True)
        assert path.is_relative_to(cache)
        assert (cache / ZIP).read_bytes() == content
        requests = len(site.requests)
        assert found(tmp_path, "flickr30k") == path
        assert Corpus.read(found(tmp_path, "flickr8k")).captions("test")[3] == [
            "a dog 0",
            "a dog 1",
        ]
        assert len(site.requests) == requests == 1
    assert [each.name for each in (tmp_path / "nowhere").iterdir()] == []


@pytest.mark.parametrize("fault", ["a wrong byte", "a cut", "404"])
def test_a_wrong_answer_is_one_sentence_and_no_file(tmp_path, at, cache, fault):
    content = packed(tmp_path, flickr8k=karpathy())
    sent = {"a wrong byte": flipped(content, 100), "a cut": content[:200], "404": b""}[fault]
    with serve({} if fault == "404" else {"caption_datasets": sent}) as site:
        at(site, caption_datasets=content)
        with refused(DataError, "--dataset flickr8k", ZIP, "--inputs"):
            found(tmp_path, "flickr8k", fetch=True)
        assert not (cache / ZIP).exists()
        with refused(DataError, "--dataset flickr8k"):
            found(tmp_path, "flickr8k")
        site.files["caption_datasets"] = content
        assert Corpus.read(found(tmp_path, "flickr8k", fetch=True)).image_ids("test") == [3, 4]


def test_coco_comes_from_its_own_annotations_where_karpathys_file_is_gone(tmp_path, at, cache):
    images = [{"id": n, "file_name": f"COCO_val2014_{n:012d}.jpg"} for n in (1, 2, 3, 4)]
    captions = [{"id": 10 * n, "image_id": n, "caption": f"a ball {n}"} for n in (1, 2, 3, 4)]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(
            "annotations/captions_val2014.json",
            json.dumps({"images": images, "annotations": captions}),
        )
    contents = {
        "annotations_trainval2014": (tmp_path / "a.zip").read_bytes(),
        "karpathy_val_images": b"val2014/COCO_val2014_000000000002.jpg 2\n",
        "karpathy_test_images": (
            b"val2014/COCO_val2014_000000000003.jpg 3\nval2014/COCO_val2014_000000000004.jpg 4\n"
        ),
    }
    (references.KNOWN / "datasets" / "coco.yaml").open("a").write("partial: true\n")
    with serve(contents) as site:
        at(site, caption_datasets=zipped(), **contents)
        corpus = Corpus.read(found(tmp_path, fetch=True))
        assert corpus.captions("test") == {3: ["a ball 3"], 4: ["a ball 4"]}
        assert corpus.image_ids("train") == [1]
        assert found(tmp_path) == corpus.path
        assert [name for name, _ in site.requests].count("caption_datasets") == 1


def test_an_unknown_data_set_is_refused_with_the_nearest(tmp_path):
    with refused(UnknownName, "flicker8k", "flickr8k"):
        found(tmp_path, "flicker8k")
