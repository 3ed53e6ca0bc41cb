"""Feature files with changed bytes, thousands of each format: read or refused in a sentence; never
a traceback, a hang or a half-written store."""

import io
import itertools
import warnings

import h5py
import numpy as np
import pytest
import torch

from helpers import mutate
from helpers.feature_files import (
    SIZES,
    regions,
    six_columns,
    ten_columns,
    write_npz,
    write_vinvl,
)
from helpers.importing import import_job
from helpers.refusals import refused
from recap.core.errors import DamagedFeatures, FeatureError
from recap.features import importers, store
from recap.features.importers import ImageIdLookup
from recap.features.records import ImageFeatures, stored_arrays
from recap.features.store import FeatureStore
from recap.features.write import build_store
from recap.settings.features import FORMATS, ImportedFeatures

WHOLE_JOB = 100  # of how many mutants one goes through the whole import
ABOUT = {
    "extractor": "{}",
    "extractor_hash": "e" * 16,
    "weights_sha256": "w" * 64,
    "made_with": "test",
}
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def brings(folder, format, source):
    """Return a function that opens a source and reads all of it.

    Now and then it goes through the whole job.
    """
    spec = ImportedFeatures(
        kind="imported", format=format, sources=[str(source)], dtype="float32", shard_size=2
    )
    numbers = itertools.count()
    out = folder / "out" / "f.h5"

    def whole_job():
        out.unlink(missing_ok=True)
        try:
            importers.import_features(spec, import_job(folder, out=out))
            FeatureStore(out).verify()
        finally:
            assert not list(out.parent.glob(".*.part")) and not list(
                (folder / "shards").glob(".*.part")
            )
            for path in (folder / "shards").glob("*.shard.h5"):
                FeatureStore(path).verify()

    def bring():
        if next(numbers) % WHOLE_JOB == 0:
            whole_job()
        else:
            found = FORMATS.get(format)([source], ImageIdLookup(), spec)
            for image_id in found.ids:
                stored_arrays(found.read(image_id), dtype="float32", streams=found.streams)

    return bring


def check(parse, originals):
    assert mutate.check(parse, originals, least=0.25).read > mutate.COUNT // 1000


@pytest.mark.slow
def test_mutated_bottom_up_tsv(tmp_path):
    path = tmp_path / "a.tsv"
    bring = brings(tmp_path, "bottom_up_tsv", path)

    def parse(content):
        path.write_bytes(content)
        bring()

    six, ten = (b"\n".join(map(columns, SIZES)) for columns in (six_columns, ten_columns))
    check(parse, [six, ten])


@pytest.mark.slow
def test_mutated_vinvl_tsv_and_its_lineidx(tmp_path):
    originals = []
    for packed in (False, True):
        path = write_vinvl(tmp_path, packed=packed, dim=8)
        originals.append(path.read_bytes() + b"\n====" + path.with_suffix(".lineidx").read_bytes())
    bring = brings(tmp_path, "vinvl_tsv", path)

    def parse(content):
        lines, _, index = content.partition(b"\n====")
        path.write_bytes(lines + b"\n")
        path.with_suffix(".lineidx").write_bytes(index)
        bring()

    check(parse, originals)


@pytest.mark.slow
def test_mutated_npz_and_npy(tmp_path):
    folder = write_npz(tmp_path)
    for image_id in (42, 7):
        (folder / f"{image_id}.npz").unlink()
        (tmp_path / "cocobu_box" / f"{image_id}.npy").unlink()
    files = [folder / "123.npz", tmp_path / "cocobu_box" / "123.npy"]
    plain = io.BytesIO()
    np.savez(plain, feat=regions(123)[0])
    whole = [path.read_bytes() for path in files]
    originals = [b"z" + whole[0], b"z" + plain.getvalue(), b"y" + whole[1]]
    bring = brings(tmp_path, "npz_folder", folder)

    def parse(content):
        for path, as_it_was in zip(files, whole, strict=True):
            path.write_bytes(as_it_was)
        files[content[:1] == b"y"].write_bytes(content[1:])
        bring()

    check(parse, originals)


@pytest.mark.slow
def test_mutated_pth(tmp_path):
    path = tmp_path / "maps" / "7.pth"
    path.parent.mkdir()
    torch.save(torch.rand(1, 8, 7, 7), path)
    zipped = path.read_bytes()
    torch.save(torch.rand(8, 7, 7).half(), path, _use_new_zipfile_serialization=False)
    originals = [zipped, path.read_bytes()]
    bring = brings(tmp_path, "grid_feats_pth", path.parent)

    def parse(content):
        path.write_bytes(content)
        bring()

    check(parse, originals)


def small_store(folder, **changes):
    def extract(groups):
        for image_id in itertools.chain.from_iterable(groups):
            rng = np.random.default_rng(image_id)
            values = {
                "region": rng.normal(size=(3, 4)),
                "region/boxes": [[0, 0, 1, 1]] * 3,
                "grid": rng.random((4, 5)),
            }
            yield ImageFeatures(
                image_id, (8, 9), {name: np.asarray(array) for name, array in values.items()}
            )

    settings = {
        "ids": range(6),
        "shard_size": 4,
        "dtype": "float16",
        "job": "0" * 16,
        "attributes": ABOUT,
        **changes,
    }
    build_store(
        out=folder / "f.h5",
        shards=folder / "shards",
        extract=extract,
        streams=("region", "grid"),
        **settings,
    )
    return folder / "f.h5"


def everything(path):
    """Return all that a store gives to a training or a decoding."""
    found = FeatureStore(path)
    ids = found.ids.tolist()
    arrays = [found.ids, found.image_sizes, found.rows(ids), found.rows(ids, "grid")]
    arrays += [
        tensor.numpy() for stream in ("region", "grid") for tensor in found.read(ids, stream)
    ]
    arrays.append(found.column(ids, "boxes").numpy())
    return {**found.attributes, "streams": found.streams, "dim": found.dim}, [
        array.tobytes() for array in arrays
    ]


@pytest.mark.slow
def test_mutated_store_is_refused_or_gives_the_same(tmp_path):
    path = small_store(tmp_path)
    whole = everything(path)

    def parse(content):
        path.write_bytes(content)
        assert everything(path) == whole

    check(parse, [path.read_bytes()])


def test_every_flipped_bit_of_a_store_is_refused_or_changes_nothing(tmp_path):
    path = small_store(tmp_path)
    whole, content = everything(path), path.read_bytes()
    chance = np.random.default_rng(0)
    refusals = 0
    for place in [*range(8), *range(4096, 4160), *chance.choice(len(content), 400, replace=False)]:
        broken = bytearray(content)
        broken[place] ^= 1 << int(chance.integers(8))
        path.write_bytes(broken)
        try:
            assert everything(path) == whole
        except FeatureError as error:
            refusals += 1
            assert "f.h5: " in str(error)
    assert refusals > 64
    for other in (b"", content[:20], content[:-1]):
        path.write_bytes(other)
        with refused(DamagedFeatures, "f.h5"):
            everything(path)


def test_each_image_is_compared_with_its_checksum_once_a_process(tmp_path, monkeypatch):
    found = FeatureStore(small_store(tmp_path))
    seen = []
    digest = store.image_digest
    monkeypatch.setattr(
        store, "image_digest", lambda arrays: seen.append(sorted(arrays)) or digest(arrays)
    )
    found.read([3, 1, 3])
    found.read([3, 5], "grid")
    found.column([1, 5], "boxes")
    assert seen == [["grid/values", "region/boxes", "region/values"]] * 3


def test_store_whose_arrays_lie_is_refused(tmp_path):
    path = small_store(tmp_path)
    for name, dtype in (("region/values", ">f2"), ("region/boxes", "<f8"), ("grid/values", "<i2")):
        content = path.read_bytes()
        with h5py.File(path, "a") as file:
            values = file[name][:]
            del file[name]
            file[name] = values.astype(dtype)
        with refused(DamagedFeatures, "f.h5", name, "layout"):
            FeatureStore(path)
        path.write_bytes(content)
