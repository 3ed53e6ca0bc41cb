"""Every golden file is described: in its own `meta/json` or in the README, with its repository and commit."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
README = (GOLDEN / "README.md").read_text(encoding="utf-8")
FILES = sorted(path.name for path in GOLDEN.glob("*.npz"))
WITHOUT_META = ("acf_", "zodiac_")  # the README says why
WITHOUT_META = ("zodiac_", "ft_naive_", "geometry_")  # the README says why


def test_the_readme_lists_the_files_that_are_there():
    assert re.findall(r"^\| `(.*?\.npz)` \|", README, re.M) == sorted(FILES, key=README.index)
    assert len(FILES) == 49


@pytest.mark.parametrize("name", FILES)
def test_a_file_holds_its_options_or_the_readme_says_why_not(name):
    with np.load(GOLDEN / name, allow_pickle=False) as arrays:
        if name.startswith(WITHOUT_META):
            assert "meta/json" not in arrays
            assert f"The `{name.split('_')[0]}_*` files have none" in README
            assert "The `zodiac_*`, `ft_naive_*` and `geometry_*` files have none" in README
        else:
            assert isinstance(json.loads(str(arrays["meta/json"])), dict)


def test_every_repository_has_a_commit():
    rows = re.findall(r"^\| \[.*?\]\(https://github\.com/(.*?)\).*?\| ([0-9a-f]{7}), \d{4}-\d\d-\d\d \|", README, re.M)
    assert [name for name, _ in rows] == [
        "JDAI-CV/image-captioning",
        "aimagelab/meshed-memory-transformer",
        "husthuaan/AoANet",
        "Vision-CAIR/VisualGPT",
        "zanyarz/zodiac",
        "ZihuaEvan/ACFModel",
        "luo3300612/image-captioning-DLCT",
        "zhangxuying1004/RSTNet",
        "yahoo/object_relation_transformer",
    ]
