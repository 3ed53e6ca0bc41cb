"""Grid features of pictures: a store with the same bytes each time, or one sentence."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from helpers.backbones import CPU, backbone, spec, tensors_of
from helpers.generators import noise_pictures, save_lying
from helpers.importing import write_corpus_of
from recap.data.corpus import build_corpus
from recap.features.extraction import ExtractionJob
from recap.features.grid import extract_grid
from recap.features.store import FeatureStore, info
from recap.share.captioner import photo_encoder
from recap.share.run_files import extractor_of

SIZES = {3: (40, 24), 1: (32, 32), 8: (50, 50), 5: (20, 60), 4: (32, 40)}


@pytest.fixture
def pictures(tmp_path):
    """A corpus of five small pictures in a folder."""
    write_corpus_of(tmp_path, {image_id: f"{image_id}.png" for image_id in SIZES}, test=[1])
    return noise_pictures(tmp_path / "pictures", SIZES)


def extract(folder, out="f.h5", *, threads=1, device="cpu", **changes):
    root = folder.parent
    files = {
        "corpus": root / "corpus.parquet",
        "images": [folder],
        "inputs": root,
        "shards": root / "shards",
    }
    extract_grid(
        spec(**changes), ExtractionJob(**files, device=device, threads=threads, out=root / out)
    )
    return root / out


def test_store_of_a_corpus(pictures):
    store = FeatureStore(extract(pictures))
    assert store.ids.tolist() == sorted(SIZES)
    assert {
        int(i): tuple(size.tolist()) for i, size in zip(store.ids, store.image_sizes, strict=True)
    } == SIZES
    values, mask = store.read([5, 1])
    assert values.shape == (2, 4, store.dim)
    assert mask.all()
    about = json.loads(store.attributes["extractor"])
    assert about["backbone"] == "test_resnet"
    assert "no crop" in about["preprocessing"]["resize"]
    assert "batch_size" not in about


def test_photos_of_a_phone_have_the_vectors_of_their_upright_twins(tmp_path, caplog):
    photos = noise_pictures(tmp_path / "photos", {1: (40, 24), 2: (24, 40)})
    for number, orientation in ((1, 6), (2, 8)):
        save_lying(
            Image.open(photos / f"{number}.png"), photos / f"{number}-phone.png", orientation
        )
    files = ["1.png", "1-phone.png", "2.png", "2-phone.png"]
    rows = [
        f"{file},{split},a photo"
        for file, split in zip(files, ("train", "train", "val", "test"), strict=True)
    ]
    (tmp_path / "captions.csv").write_text("\n".join(["file,split,caption", *rows]))
    data = {"kind": "csv", "captions": "captions.csv", "images": ["photos"]}

    def vectors(**keys):
        """Return sizes and vectors of the image of each file.

        Names sort a phone's photo before its twin.
        """
        build_corpus(name="mine", spec=data | keys, inputs=tmp_path, out=tmp_path)
        store = FeatureStore(extract(photos, dtype="float32"))
        return store.image_sizes.tolist(), store.read([0, 1, 2, 3])[0]

    sizes, turned = vectors()
    assert sizes == [[40, 24], [40, 24], [24, 40], [24, 40]]
    assert np.array_equal(turned[::2], turned[1::2])
    assert "upright" not in caplog.text
    # The same work folder: what was made
    # of turned pictures is not taken for pictures as they are stored.
    sizes, as_stored = vectors(upright=False)
    assert sizes == [[24, 40], [40, 24], [40, 24], [24, 40]]
    assert not np.array_equal(as_stored[::2], as_stored[1::2])
    assert (
        "2 pictures" in caplog.text
        and "1-phone.png" in caplog.text
        and "`upright: true`" in caplog.text
    )


@pytest.mark.parametrize("weights", ["random", "tensors.safetensors"])
def test_an_image_of_several_views_has_the_rows_of_each_in_turn(pictures, weights):
    folder = pictures.parent
    save_file(tensors_of(backbone()), folder / "tensors.safetensors")
    changes = {"weights": weights, "dtype": "float32"}
    single = FeatureStore(extract(pictures, "single.h5", **changes))
    views = {1: [3, 8], 2: [4], 7: [5, 3, 8]}
    write_corpus_of(
        folder, {i: "|".join(f"{view}.png" for view in some) for i, some in views.items()}
    )
    store = FeatureStore(extract(pictures, "several.h5", **changes))
    assert store.rows([1, 2, 7]).tolist() == [8, 4, 12]
    assert [tuple(size) for size in store.image_sizes.tolist()] == [SIZES[3], SIZES[4], SIZES[5]]
    if weights == "random":
        assert json.loads(store.attributes["extractor"])["standardised_over"] == 6
        return
    for image_id, some in views.items():
        expected = single.read(some)[0].flatten(0, 1)
        assert torch.allclose(store.read([image_id])[0][0], expected, atol=1e-5)


def test_bytes_do_not_depend_on_threads_or_repetition(pictures):
    first = extract(pictures, "1.h5").read_bytes()
    assert extract(pictures, "2.h5", threads=3).read_bytes() == first
    assert extract(pictures, "3.h5", seed=1).read_bytes() != first


def test_random_features_are_standardised_over_the_training_pictures(pictures):
    store = FeatureStore(extract(pictures, dtype="float32"))
    values = store.read([3, 4, 5, 8])[0].flatten(0, 1)
    moving = values.std(0) > 0
    assert moving.any()
    assert values[:, moving].mean(0).abs().max() < 1e-4
    assert (values[:, moving].std(0, correction=0) - 1).abs().max() < 1e-4
    assert json.loads(store.attributes["extractor"])["standardised_over"] == 4


@pytest.mark.parametrize("changes", [{}, {"weights": "w.safetensors", "standardised": True}])
def test_a_photo_is_standardised_by_what_the_store_says(pictures, changes):
    root = pictures.parent
    save_file(tensors_of(backbone()), root / "w.safetensors")
    store = FeatureStore(extract(pictures, dtype="float32", **changes))
    assert store.feature_hash in info(store.path, spec=spec(dtype="float32", **changes))
    encoder = photo_encoder(
        extractor_of(store, root / changes["weights"] if changes else None), CPU
    )
    assert {key: store.attributes[key] for key in encoder.attributes} == encoder.attributes
    photos = [encoder.prepare(i, [Image.open(pictures / f"{i}.png").convert("RGB")]) for i in SIZES]
    arrays = [record.values for record in encoder(photos)]
    torch.testing.assert_close(torch.tensor(np.stack(arrays)), store.read(list(SIZES))[0])
