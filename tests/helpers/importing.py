"""Imports feature files in a test's folder, and checks the store or the error."""

import numpy as np

from helpers.feature_files import DIM, SIZES, regions
from helpers.refusals import refused
from recap.core.errors import FeatureError
from recap.data.corpus import Caption, write_corpus
from recap.features.extraction import ExtractionJob
from recap.features.importers import import_features
from recap.features.store import FeatureStore
from recap.settings.features import ImportedFeatures


def import_settings(format, *sources, **changes):
    values = {"dtype": "float32", "shard_size": 2, **changes}
    return ImportedFeatures(
        kind="imported", format=format, sources=[str(source) for source in sources], **values
    )


def run_import(folder, format, *sources, corpus=None, **changes):
    spec = import_settings(format, *sources, **changes)
    import_features(spec, import_job(folder, corpus=corpus))
    return FeatureStore(folder / "out" / "f.h5")


def import_job(folder, **changes):
    """Return a job that imports files of a folder into `out/f.h5` in it."""
    places = {
        "inputs": folder,
        "shards": folder / "shards",
        "out": folder / "out" / "f.h5",
        "corpus": None,
    }
    return ExtractionJob(images=(), **places | changes)


def refuses_import(folder, named, format, *sources, **changes):
    """Check that files are refused by a sentence
    that has each text of `named`, and that nothing is written."""
    with refused(FeatureError, *named):
        run_import(folder, format, *sources, **changes)
    assert not (folder / "out" / "f.h5").exists()


def check_regions(store, *, dim=DIM, boxes=True, sizes=True):
    store.verify()
    assert store.ids.tolist() == sorted(SIZES)
    for image_id in SIZES:
        vectors, corners, _, _ = regions(image_id, dim)
        np.testing.assert_array_equal(store.read([image_id])[0][0], vectors)
        if boxes:
            np.testing.assert_array_equal(store.column([image_id], "boxes")[0], corners)
        assert tuple(store.sizes([image_id])[0]) == (SIZES[image_id] if sizes else (0, 0))


def write_corpus_of(folder, files, test=()):
    """Write a corpus of a caption for each image id and file,
    for training but for the ids in `test`."""
    split = {number: "test" if number in test else "train" for number in files}
    rows = [
        Caption(number, file, split[number], number, "a dog", ["a", "dog"])
        for number, file in files.items()
    ]
    write_corpus(
        rows, folder / "corpus.parquet", dataset="x", kind="karpathy", source_sha256="0" * 64
    )
    return folder / "corpus.parquet"


def with_field(line, place, change):
    fields = line.split(b"\t")
    fields[place] = change(fields[place])
    return b"\t".join(fields)
