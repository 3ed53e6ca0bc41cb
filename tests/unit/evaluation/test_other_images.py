"""The loss of references with their own images and with others."""

import json

import pytest
import torch
import yaml
from safetensors.torch import save_file

from helpers.commands import refused_command
from helpers.model_cases import build_model
from helpers.prepared import MODEL, prepare
from recap.cli import main
from recap.data.corpus import Corpus
from recap.data.vocabulary import PAD, load_vocabulary
from recap.evaluation.figures import caption_losses
from recap.models.images import Images, InputSpec
from recap.runs.inputs import caption_tensor


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A data set and two untrained runs, one of which sees nothing."""
    folder = tmp_path_factory.mktemp("other")
    prepare(folder)
    torch.manual_seed(0)
    model = build_model(
        MODEL, InputSpec({"main": 6}, len(load_vocabulary(folder / "vocabulary.json")))
    )
    blind = {
        **model.state_dict(),
        "feature_embedding.weight": torch.zeros_like(model.feature_embedding.weight),
    }
    for name, weights in (("seeing", model.state_dict()), ("blind", blind)):
        (folder / name).mkdir()
        save_file(weights, folder / name / "model.safetensors")
        (folder / name / "config.yaml").write_text(
            yaml.safe_dump({"spec": {"model_settings": MODEL}})
        )
    return folder


def arguments(folder, *runs, split="test"):
    settings = json.dumps({"kind": "other_images", "split": split})
    words = ["report", "figure", "--spec", settings, "--out", str(folder / "found")]
    for name, file in (
        ("corpus", "corpus.parquet"),
        ("vocabulary", "vocabulary.json"),
        ("features", "features.h5"),
    ):
        words += [f"--{name}", str(folder / file)]
    return [*words, "--runs", *(str(folder / run) for run in runs), "--labels", *runs]


def test_a_blind_model_loses_nothing_and_another_something(files):
    main(arguments(files, "seeing", "blind"))
    found = json.loads((files / "found_other_images.json").read_text())
    assert found["split"] == "test"
    seeing, blind = (found["models"][name] for name in ("seeing", "blind"))
    assert blind["own"] == pytest.approx(blind["other"]) and blind["difference"][
        "mean_difference"
    ] == pytest.approx(0)
    assert seeing["own"] != pytest.approx(seeing["other"], abs=1e-6)
    images = len(Corpus.read(files / "corpus.parquet").captions("test"))
    assert seeing["difference"]["images"] == images
    assert seeing["difference"]["mean_difference"] == pytest.approx(seeing["other"] - seeing["own"])


def test_the_loss_is_that_of_teacher_forcing_without_padding():
    torch.manual_seed(0)
    model = build_model(MODEL, InputSpec({"main": 6}, 12)).eval()
    images = Images.of(torch.randn(2, 4, 6), torch.ones(2, 4, dtype=torch.bool))
    tokens = caption_tensor([[[5, 6, 7], [8]], [[9, 10]]])
    expected = []
    for image, captions in enumerate(tokens):
        memory = model.encode(Images.of(images.main.values[[image]], images.main.mask[[image]]))
        terms = []
        for caption in captions[captions[:, 0] != PAD]:
            words = caption[caption != PAD][None, None]
            scores = model.logits(model.decode(words[..., :-1], memory))[0, 0]
            terms.append(
                torch.nn.functional.cross_entropy(scores, words[0, 0, 1:], reduction="none")
            )
        expected.append(torch.cat(terms).mean())
    torch.testing.assert_close(
        caption_losses(model, images, tokens), torch.stack(expected).detach()
    )


def test_a_label_too_few_and_one_that_is_there_twice_are_refused(files, capsys):
    words = arguments(files, "seeing", "blind")
    for labels, sentence in (
        (["seeing"], "2 runs and 1 labels"),
        (["a", "a"], "give each run its own label"),
    ):
        assert sentence in refused_command(capsys, *words[: words.index("--labels") + 1], *labels)
