"""Files of tensors from outside: damaged ones, and those that claim more than they hold."""

import random
import zipfile

import pytest
import torch

from helpers.refusals import refused
from recap.core.errors import ConfigError, FeatureError
from recap.features.detectron import load
from recap.features.formats import GridFeatsPth
from recap.features.importers import ImageIdLookup
from recap.runs.released import released_tensors
from recap.settings.features import ImportedFeatures


def released(path):
    released_tensors("up_down", path)


def grid(path):
    spec = ImportedFeatures(kind="imported", format="grid_feats_pth", sources=[path.parent.name])
    GridFeatsPth([path.parent], ImageIdLookup(None), spec).read(7)


def detector(path):
    load(torch.nn.Linear(40, 40), path, key_map={})


READERS = {released: ConfigError, grid: FeatureError, detector: FeatureError}


def refuse(reader, path, *named):
    with refused(READERS[reader], path, *named):
        reader(path)


@pytest.fixture(params=READERS, ids=lambda reader: reader.__name__)
def reader(request):
    return request.param


def test_a_member_with_another_check_sum_is_named(reader, tmp_path):
    path = tmp_path / "7.pth"
    torch.save({"word_embed.0.weight": torch.rand(40, 40)}, path)
    with zipfile.ZipFile(path) as archive:
        (member,) = (entry for entry in archive.infolist() if entry.filename.endswith("data/0"))
    content, chance = bytearray(path.read_bytes()), random.Random(0)
    first = content.index(torch.load(path)["word_embed.0.weight"].numpy().tobytes())
    for place in chance.sample(range(member.file_size), 64):
        content[first + place] ^= 1 << chance.randrange(7)
    path.write_bytes(content)
    refuse(reader, path, member.filename)


def test_compressed_members_are_refused(tmp_path):
    torch.save({"logit.bias": torch.zeros(40_000)}, tmp_path / "stored.pth")
    path = tmp_path / "7.pth"
    with (
        zipfile.ZipFile(tmp_path / "stored.pth") as whole,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in whole.namelist():
            packed.writestr(name, whole.read(name))
    (tmp_path / "stored.pth").unlink()
    refuse(released, path)


def strided(*shape):
    return torch.zeros(1).expand(*shape)


REFUSED = {
    "repeated": strided(40_000, 40_000),
    "a claim": strided(10**6, 10**6),
    "sparse": torch.eye(3).to_sparse(),
    "float8": torch.zeros(3, 3, dtype=torch.float8_e4m3fn),
    "meta": torch.zeros(3, 3, device="meta"),
    "complex": torch.zeros(3, 3, dtype=torch.complex64),
}


@pytest.mark.parametrize("old_form", [False, True], ids=["zip", "old form"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_tensor_that_is_not_plain_numbers_is_refused(reader, name, old_form, tmp_path):
    path, value = tmp_path / "7.pth", REFUSED[name]
    content = value if reader is grid else {"word_embed.0.weight": value}
    torch.save(content, path, _use_new_zipfile_serialization=not old_form)
    refuse(reader, path)


def test_old_files_that_are_damaged_are_refused(reader, tmp_path):
    path, chance = tmp_path / "7.pth", random.Random(0)
    torch.save(
        {"word_embed.0.weight": torch.rand(4, 4)}, path, _use_new_zipfile_serialization=False
    )
    whole = path.read_bytes()
    for _ in range(40):
        content = bytearray(whole)
        for _ in range(4):
            content[chance.randrange(len(content) // 2)] = chance.randrange(256)
        path.write_bytes(content)
        try:
            reader(path)
        except READERS[reader] as error:
            assert "\n" not in str(error)
