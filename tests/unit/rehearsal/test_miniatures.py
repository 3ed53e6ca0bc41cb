"""Miniatures: their words, and a file that has none.

That readers read them is what every rehearsal shows.
"""

from collections import Counter
from itertools import chain

from helpers.refusals import refused
from helpers.tiny_workspace import ROOT
from recap.core.errors import ConfigError
from recap.data.corpus import Corpus, build_corpus
from recap.settings.params import load_named, names
from rehearsal.files import write_outside_file
from rehearsal.world import World

# as many as in a rehearsal
WORLD = World(train=12, held_out=7, web=6, studies=5, address="http://127.0.0.1:1")
KARPATHY = "karpathy/caption_datasets.zip"
PICTURES = ["coco/train2014.zip", "coco/val2014.zip"]


def test_captions_have_every_word_that_a_recipe_of_the_papers_names(tmp_path):
    for name in (KARPATHY, *PICTURES):
        write_outside_file(name, WORLD, tmp_path)
    spec = {"kind": "coco", "images": PICTURES, "annotations": [KARPATHY], "partial": True}
    build_corpus(name="x", spec=spec, inputs=tmp_path, out=tmp_path / "corpus")
    counts = Counter(
        chain.from_iterable(Corpus.read(tmp_path / "corpus" / "corpus.parquet").token_lists())
    )
    recipes = [
        load_named(ROOT / "params", "recipes", name) for name in names(ROOT / "params", "recipes")
    ]
    named = {word for recipe in recipes for word in recipe.evaluation.rules.bad_endings}
    assert "an" in named and not {word for word in named if counts[word] < 6}


def test_a_file_without_a_miniature_is_named(tmp_path):
    with refused(ConfigError, "mine/captions.json"):
        write_outside_file("mine/captions.json", WORLD, tmp_path)
