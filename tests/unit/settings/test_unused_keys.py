"""A key that no parameter file sets, and no guide or paper's page names, says why it is there."""

import re
from pathlib import Path

from recap.core.documents import adapter, read_mapping
from recap.settings import SECTIONS, PaperProfile, Profile

ROOT = Path(__file__).resolve().parents[3]
REASONS = {
    # of how a job is computed
    "activation_checkpointing": "lets a model train on a GPU that does not hold its activations",
    "extraction_parts": "lets several GPUs extract COCO's pictures at the same time",
    "tf32": "lets a training on a GPU have the full float32 that a CPU has",
    # of data and features
    "classes": "a detector trained on other classes than Visual Genome's",
    "crop": "released features of whole pictures are of both kinds",
    "margin": "features of boxes are often of more than the object",
    "merge_restval": "papers before Karpathy's split train without restval",
    "views": "one picture per study is what reports of frontal views alone are about",
    # of models: an alternative that a paper describes, or that its code has
    "copy_layers": "VisualGPT's code copies the first decoder block; its paper does not say so",
    "gate_activation": "VisualGPT, section 5.4, reports that the others diverge",
    "region_rows": "ACF's code lays regions out in a grid whose rows the paper does not tell",
    # of decoding
    "length_penalty": "the captions of a trained run can be searched with one",
    "no_repeated_ngram": "the captions of a trained run can be searched without repetitions",
    # of studies
    "answered": "a rater is left out by it",
    "clickers": "the demo's study is answered by raters that are made up",
    "exclusions": "who is left out must be stated before the first response",
    "pixels": "chest X-rays need larger pictures than photographs",
    "same_position": "a rater who always chooses the left caption is left out by it",
    "votes": "a study can be rehearsed with a difference between its systems",
}


def known_keys():
    """Return the keys of all parameter files."""
    keys = set()
    for kind in (*SECTIONS.values(), Profile, PaperProfile):
        schema = adapter(kind).json_schema()
        for part in (schema, *schema.get("$defs", {}).values()):
            keys.update(part.get("properties", {}))
    return keys


def keys_in(value):
    """Return the keys in a value of YAML, however deep."""
    keys = set()
    if isinstance(value, dict):
        keys.update(map(str, value))
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, dict | list):
            keys |= keys_in(part)
    return keys


def test_a_key_that_nobody_sets_has_a_reason():
    unused = known_keys()
    for folder in (ROOT / "params", ROOT / "tests" / "toy_paper" / "params"):
        for file in folder.rglob("*.yaml"):
            unused -= keys_in(read_mapping(file))
    for folder in ("guides", "papers"):
        for page in (ROOT / "docs" / folder).glob("*.md"):
            # `key: value`, key=value of a command, or a key in a sentence.
            unused -= set(re.findall(r"(\w+)(?:: |:\n|=|`)", page.read_text(encoding="utf-8")))
    assert unused == REASONS.keys(), (
        "remove a key that nobody sets, set it, or write down why it is there; a key that is set "
        "needs no reason"
    )
