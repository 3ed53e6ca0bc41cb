"""Names and shapes of the tensors in the released files of detectors
(`tests/golden/detector_layouts.yaml`)."""

import re
from pathlib import Path

import yaml

FILE = Path(__file__).parents[1] / "golden" / "detector_layouts.yaml"
# Of each group of layers: what follows a layer's name,
# and whether that has the weight's shape or one number a channel.
SUFFIXES = {
    "normed": ["weight", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"],
    "grouped": ["weight", "norm.weight", "norm.bias"],
    "biased": ["weight", "bias"],
    "bare": ["weight"],
}


def released_layout(detector):
    """Return the shape of each tensor of a released file by name."""
    layout = {}
    for group, layers in yaml.safe_load(FILE.read_text())[detector].items():
        for pattern, shape in layers.items():
            for name in _names(pattern):
                layout |= {
                    f"{name}.{end}": shape if end == "weight" else shape[:1]
                    for end in SUFFIXES[group]
                }
    return layout


def _names(pattern):
    result = re.search(r"\{(.*?)\}", pattern)
    if not result:
        return [pattern]
    inside = result[1]
    if ".." in inside:
        first, last = map(int, inside.split(".."))
        words = [str(number) for number in range(first, last + 1)]
    else:
        words = inside.split(",")
    return [pattern.replace(result[0], word) for word in words]
