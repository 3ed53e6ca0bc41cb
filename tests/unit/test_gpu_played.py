"""What a GPU would meet, played on one that computes nothing:
tensors on another device, waits, collectives.

The CPU build of torch plays it, with the guard of `helpers/fake_cuda`. Numbers, kernels and time
are not played.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from recap.settings.models import MODELS

pytestmark = pytest.mark.slow
GUARD = Path(__file__).parents[1] / "helpers" / "fake_cuda" / "guard.cpp"
KINDS = list(MODELS.classes())
DRAWN = 4  # tokens of a caption in a self-critical step
WORDS = 6  # in the other searches

# The waits that are meant: what is read, or copied to the GPU
# from memory that is not pinned, and why it may be.
LOSS = ("read", "training/loop.py", "OptimizerStep.__call__")
TOKEN = ("read", "decoding/step.py", "any_leave")
LEAVE_SAMPLE = ("length", "decoding/sampling.py", "sample")
LEAVE_SEARCH = ("length", "decoding/beam.py", "beam_search")
LONGEST = ("read", "training/objectives.py", "SelfCriticalObjective.draw")
REWARD = ("read", "training/objectives.py", "SelfCriticalObjective.reward")
INDEX = ("length", "nn/rows.py", "PackedIndex.__init__")
ADVANTAGE = ("copy", "training/objectives.py", "SelfCriticalObjective.__call__")
CAPTIONS = ("read", "evaluation/decode.py", "_candidates")
FEATURES = ("copy", "models/images.py", "Images.to.<locals>.<lambda>")
CUT = ("read", "training/objectives.py", "truncated_to_words")
BEGINS = ("copy", "training/objectives.py", "truncated_to_words")
PICTURES = ("copy", "features/backbones.py", "TimmEncoder.normalised")
MAPS = ("read", "features/grid.py", "Backbone.rows")
MEANT = {
    LOSS: (
        "loss, gradient's norm and the policy's numbers, once a step, when the whole backward pass "
        "is queued"
    ),
    TOKEN: "once a token: is an image finished, is anything NaN",
    LEAVE_SAMPLE: "an image leaves the batch, so that the rest of the search is smaller",
    LEAVE_SEARCH: "the same",
    LONGEST: "the samples are cut to the longest; their search has just been waited for",
    REWARD: "rewards are computed on the CPU",
    INDEX: "where the samples have tokens; no pass is queued yet",
    ADVANTAGE: "rewards come back; no pass is queued yet",
    CAPTIONS: "the captions of a batch, their scores and log-probabilities, once a batch",
    FEATURES: "features of a search are not pinned; a copy a tensor, once a batch",
    CUT: "only `truncate_to_words`, before the pass: the most words of a caption",
    BEGINS: "only `truncate_to_words`: which byte pairs begin a word",
    PICTURES: "pictures, which are not pinned, and the mean and deviation of their pixels; the "
    "features of the batch before have been waited for",
    MAPS: "the features of a batch go to the store",
}
# Made at first use and kept, whichever scene comes first.
KEPT = {
    ("copy", "decoding/step.py", "_ids"): "the ids of banned tokens",
    ("copy", "papers/fusion/model.py", "direction_vectors"): "directions between cells",
    ("copy", "papers/fusion/model.py", "cell_geometry"): "geometry of a grid's cells",
}
# the GPU that is played lets an image go at every second token
SAMPLE = {TOKEN: DRAWN, LEAVE_SAMPLE: DRAWN // 2}
SEARCH = {TOKEN: DRAWN, LEAVE_SEARCH: DRAWN // 2}
SELF_CRITICAL = {LONGEST: 1, INDEX: 1, ADVANTAGE: 1}
LONG_SEARCH = {TOKEN: WORDS, LEAVE_SEARCH: WORDS // 2, CAPTIONS: 3}
BEFORE_BACKWARD = {
    "cross-entropy": {},
    "cross-entropy in bf16": {},  # with scheduled sampling
    "self-critical": {**SAMPLE, **SELF_CRITICAL, REWARD: 2},  # of the greedy captions, too
    "self-critical in bf16": {**SEARCH, **SELF_CRITICAL, REWARD: 1},
}
OTHERS = {
    "beam search": {**LONG_SEARCH, FEATURES: 4},
    "greedy search": {**LONG_SEARCH, FEATURES: 4},
    "search that sets captions aside": {**LONG_SEARCH, FEATURES: 4},
    "ensemble": {**LONG_SEARCH, FEATURES: 4},
    "samples": {TOKEN: WORDS, LEAVE_SAMPLE: WORDS // 2, FEATURES: 4},
    "cross-entropy, cut to words": {BEGINS: 1, CUT: 1, INDEX: 1, LOSS: 1},
    "grid, test_resnet": {PICTURES: 6, MAPS: 2},  # of two batches
    "grid, test_vit": {PICTURES: 6, MAPS: 2},
}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Build the guard, play all scenes in a process of its own, and return what happened in
    each."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++ to build the guard of the played GPU")
    import torch
    from torch.utils.cpp_extension import include_paths

    folder, libraries = tmp_path_factory.mktemp("played"), Path(torch.__file__).parent / "lib"
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    headers = [f"-I{path}" for path in include_paths()]
    linked = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-ltorch_cpu", "-lc10"]
    guard, notes = folder / "guard.so", folder / "played.json"
    built = [
        "g++",
        "-std=c++20",
        "-shared",
        "-fPIC",
        abi,
        *headers,
        str(GUARD),
        *linked,
        "-o",
        str(guard),
    ]
    subprocess.run(built, check=True, capture_output=True, text=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LD_PRELOAD": str(guard)}
    played = [sys.executable, "-m", "helpers.fake_cuda.play", str(notes)]
    subprocess.run(played, check=True, env=environment)
    return json.loads(notes.read_text(encoding="utf-8"))


def waits(events):
    """Return how often each place was waited at, without what is made once and kept."""
    places = [(event["kind"], event["file"], event["function"]) for event in events]
    return Counter(place for place in places if place not in KEPT)


def around_backward(scene):
    """Return the waits before the backward pass and those from its beginning on."""
    assert scene["error"] is None, scene["error"]
    kinds = [event["kind"] for event in scene["events"]]
    begin = kinds.index("backward")
    return waits(scene["events"][:begin]), waits(scene["events"][begin + 1 :])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", BEFORE_BACKWARD)
def test_a_step_stays_on_the_gpu_and_waits_only_where_it_is_meant(scenes, step, kind):
    before, after = around_backward(scenes[f"{step}, {kind}"])
    assert before == BEFORE_BACKWARD[step]
    assert after == {LOSS: 1}


@pytest.mark.parametrize("name", OTHERS)
def test_searches_and_extractions_stay_on_the_gpu_and_wait_only_where_it_is_meant(scenes, name):
    scene = scenes[name]
    assert scene["error"] is None, scene["error"]
    found = waits(event for event in scene["events"] if event["kind"] != "backward")
    assert found == OTHERS[name]


def test_each_wait_that_is_meant_has_a_reason_and_happens(scenes):
    found = Counter()
    for name, scene in scenes.items():
        if not name.startswith(("fault", "process")):
            found += waits(event for event in scene["events"] if event["kind"] != "backward")
    assert set(found) == set(MEANT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stage", ["cross-entropy", "self-critical"])
def test_autocast_is_on_in_bf16_and_off_in_float32(scenes, stage, kind):
    plain = scenes[f"{stage}, {kind}"]["products"]
    mixed = scenes[f"{stage} in bf16, {kind}"]["products"]
    assert plain["float32"] > 0 and "bfloat16" not in plain
    assert mixed["bfloat16"] > mixed.get("float32", 0)


def test_both_of_two_processes_say_the_same_in_the_same_order(scenes):
    first, second = (scenes[f"process {rank} of two"] for rank in (0, 1))
    assert first["error"] is None and second["error"] is None
    assert first["collectives"] == second["collectives"]
    said = Counter(words.split()[0] for words in first["collectives"])
    assert said["allreduce_"] > 10 and said["barrier"] > 0
    assert said["all_gather_object"] > 0 and said["broadcast_object_list"] > 0


@pytest.mark.parametrize("fault", ["a number read", "copied to the CPU"])
def test_a_wait_planted_into_a_step_is_found(scenes, fault):
    before, _ = around_backward(scenes[f"fault: {fault}"])
    assert ("read", "play.py") in {(kind, file) for kind, file, _ in before}


def test_a_tensor_made_without_a_device_is_found(scenes):
    error = scenes["fault: made without a device"]["error"]
    assert error.startswith("OnAnotherDevice: add of tensors on the CPU and on the GPU at play.py:")
