"""Every golden file is described: in its own `meta/json` or in the README, with its repository and commit."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
README = (GOLDEN / "README.md").read_text(encoding="utf-8")
FILES = sorted(path.name for path in GOLDEN.glob("*.npz"))
# Begin of their names -> what the README says of them.
WITHOUT_META = {
    "acf_": "The `acf_*` files have none",
    **dict.fromkeys(
        ("zodiac_", "ft_naive_", "geometry_"), "The `zodiac_*`, `ft_naive_*` and `geometry_*` files have none"
    ),
}


def test_the_readme_lists_the_files_that_are_there():
    assert re.findall(r"^\| `(.*?\.npz)` \|", README, re.M) == sorted(FILES, key=README.index)
    assert len(FILES) == 49


@pytest.mark.parametrize("name", FILES)
def test_a_file_holds_its_options_or_the_readme_says_why_not(name):
    with np.load(GOLDEN / name, allow_pickle=False) as arrays:
        said = next((said for start, said in WITHOUT_META.items() if name.startswith(start)), None)
        if said is not None:
            assert "meta/json" not in arrays
            assert said in README
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
