"""A release in its own names and layout, imported, says what the model says that it came from."""

import json

import pytest
import torch
import yaml

import recap
from helpers.model_cases import build_model
from helpers.released import expressible, official, write_infos, write_torchtext
from recap.cli import main
from recap.data.vocabulary import Vocabulary, load_byte_pairs, load_vocabulary
from recap.models.images import InputSpec
from recap.runs.folder import run_model_config, save_weights
from recap.runs.inputs import FeatureSources
from rehearsal.hub import write_byte_pairs

pytestmark = pytest.mark.seconds

SMALL = {"d_model": 16, "heads": 8, "d_feed_forward": 24, "encoder_layers": 2, "decoder_layers": 2}
RELEASED = {"layer_norm": "unbiased"}
MODELS = {
    "xlan": {"d_model": 16, "heads": 2, "d_joint": 4, "encoder_layers": 2, "activation": "relu"},
    "x_transformer": {**SMALL, "heads": 2, "d_joint": 4, "max_vectors": 3, "alpha": 1.2},
    "up_down": {"d_model": 16, "d_word": 8, "d_attention": 6},
    "aoanet": {"d_model": 16, "heads": 4, "refiner_layers": 2},
    "transformer": {**SMALL, "heads": 4, **RELEASED},
    "zodiac": {**SMALL, "heads": 4, **RELEASED, "rap_scope": "as_released", "gate": "tanh"},
    "m2": {
        **SMALL,
        "encoder_layers": 3,
        "memory_slots": 3,
        "max_tokens": 54,
        "positions": "noise",
        "memory_init": "xavier",
        "max_vectors": 50,
        "padded_vectors": "attended",
    },
    "visual_gpt": {
        "d_model": 128,
        "heads": 2,
        "d_feed_forward": 24,
        "decoder_layers": 2,
        "positions": 70,
        "encoder_layers": 3,
        "d_encoder_feed_forward": 20,
        "max_vectors": 50,
        "padded_vectors": "attended",
        "tau": 0.1,
        "pretrained": False,
    },
}
JDAI = {
    "xlan": {"MODEL": {"TYPE": "XLAN", "SEQ_LEN": 9, "BILINEAR": {"HEAD": 2, "ACT": "RELU"}}},
    "x_transformer": {
        "MODEL": {"TYPE": "XTransformer", "SEQ_LEN": 9, "BILINEAR": {"ELU_ALPHA": 1.2}},
        "DATA_LOADER": {"MAX_FEAT": 3},
        "INFERENCE": {"BEAM_SIZE": 2},
    },
    "up_down": {"MODEL": {"TYPE": "UpDown", "SEQ_LEN": 9, "ATT_ACT": "TANH"}},
}
INFOS = {
    "aoanet": {"caption_model": "aoa", "num_heads": 4, "refine": 1, "max_length": 9},
    "transformer": {"caption_model": "transformer", "num_att_heads": 4, "max_length": 9},
    "zodiac": {"caption_model": "zodiac-tanh", "num_att_heads": 4, "seq_length": 9},
}
M2_CHECKPOINT = (
    "torch_rng_state",
    "numpy_rng_state",
    "random_rng_state",
    "epoch",
    "optimizer",
    "best_cider",
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return write_byte_pairs(
        tmp_path_factory.mktemp("bpe"), ["a red circle above a blue square"] * 5
    )


class Origin:
    """A model of ours with random weights, as a run, and the files that a release of it would
    have."""

    def __init__(self, kind, folder, results, tokenizer):
        self.kind, self.folder, self.results = kind, folder, results
        words = load_vocabulary(results.data / "vocabulary.json").words
        if kind == "visual_gpt":
            vocabulary = load_byte_pairs(tokenizer.name, inputs=tokenizer.parent, max_length=20)
        else:
            vocabulary = Vocabulary(words, {"min_count": 1, "max_length": 9, "splits": "all"})
        torch.manual_seed(4)
        inputs = InputSpec(FeatureSources([results.store]).sizes, len(vocabulary), vocabulary)
        settings = {"kind": kind, **MODELS[kind]}
        model = build_model(settings, inputs)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2).add_(0.05 * torch.randn_like(parameter))  # captions that differ
        self.state = expressible(
            kind, {name: value.detach() for name, value in model.state_dict().items()}
        )
        self.run = folder / "origin"
        self.run.mkdir()
        (self.run / "config.yaml").write_text(
            yaml.safe_dump({"spec": {"model_settings": settings}})
        )
        save_weights(self.run / "model.safetensors", self.state)
        self.vocabulary = self.run / "vocabulary.json"
        vocabulary.save(self.vocabulary)
        self.official = official(kind, self.state, getattr(vocabulary, "rows", ()))
        self.files(words, tokenizer)

    def files(self, words, tokenizer):
        """Write the checkpoint and what is beside it as the release writes them."""
        self.checkpoint, self.options = self.folder / "model.pth", []
        state = self.official
        if self.kind in JDAI:
            state = {f"module.{name}": value for name, value in state.items()}
            (self.folder / "config.yml").write_text(yaml.safe_dump(JDAI[self.kind]))
            (self.folder / "coco_vocabulary.txt").write_text("\n".join([*words, "UNK"]) + "\n")
            self.options = ["--config", "config.yml", "--vocabulary", "coco_vocabulary.txt"]
        elif self.kind in INFOS:
            write_infos(self.folder / "infos.pkl", words, **INFOS[self.kind])
            self.options = ["--config", "infos.pkl"]
        else:
            import numpy as np

            beside = dict.fromkeys(M2_CHECKPOINT, 3)
            state = {
                "state_dict": state,
                **beside,
                "numpy_rng_state": np.random.RandomState(1).get_state(),
            }
            if self.kind == "m2":
                write_torchtext(self.folder / "vocab.pkl", words)
                self.options = ["--vocabulary", "vocab.pkl"]
            else:
                self.options = ["--vocabulary", str(tokenizer), "--set", "tau=0.1"]
        torch.save(
            state, self.checkpoint, _use_new_zipfile_serialization=self.kind not in ("m2", "xlan")
        )

    def imported(self, out, *more):
        own = (".yml", ".txt", ".pkl")
        options = [str(self.folder / word) if word.endswith(own) else word for word in self.options]
        main(
            [
                "import-checkpoint",
                self.kind,
                str(self.checkpoint),
                *options,
                *more,
                "--out",
                str(out),
            ]
        )
        return out

    def said(self, run):
        """Return the captions of the test images, evaluated by the command."""
        out = self.folder / f"scores-{run.name}"
        spec = json.dumps(
            {"evaluation": {"beam": 3, "max_length": 9, "n_best": 3, "metrics": ["BLEU"]}}
        )
        data = [
            "--corpus",
            str(self.results.data / "corpus.parquet"),
            "--features",
            str(self.results.store),
        ]
        files = [
            "--vocabulary",
            str(run / "vocabulary.json"),
            "--model",
            str(run),
            "--out",
            str(out),
        ]
        main(["evaluate", "--spec", spec, *data, *files])
        rows = [json.loads(line) for line in (out / "nbest.test.jsonl").read_text().splitlines()]
        return [row["caption"] for row in rows], [row["log_probability"] for row in rows]


QUICK = ("up_down", "zodiac", "m2", "visual_gpt")  # one of each form of files


@pytest.fixture(
    params=[
        kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in MODELS
    ]
)
def origin(request, tmp_path, results, tokenizer):
    return Origin(request.param, tmp_path, results, tokenizer)


def test_an_imported_release_says_what_the_model_says_that_it_came_from(origin, tmp_path):
    run = origin.imported(tmp_path / "released")
    theirs, scores = origin.said(origin.run)
    captions, log_probabilities = origin.said(run)
    assert captions == theirs and len(set(theirs)) > 1 and all(theirs)
    assert log_probabilities == pytest.approx(scores, abs=1e-4)
    settings, expected = run_model_config(run), run_model_config(origin.run)
    assert {k: v for k, v in settings.model_dump().items() if not k.endswith("dropout")} == {
        k: v for k, v in expected.model_dump().items() if not k.endswith("dropout")
    }
    report = json.loads((run / "import.json").read_text())
    assert set(report["taken"]) == set(origin.state) and report["sha256"]
    unused = {"transformer": 1, "zodiac": 1, "m2": 3, "visual_gpt": 6}
    assert len(report["left_out"]) == unused.get(origin.kind, 0)


def test_an_imported_run_captions_a_photo(results, photo, tmp_path, tokenizer):
    run = Origin("up_down", tmp_path, results, tokenizer).imported(tmp_path / "released")
    captioner = recap.load(run, features=[results.store], device="cpu")
    assert captioner(photo) and captioner.name == "up_down model.pth"
    assert (captioner.decoding.beam, captioner.decoding.max_length) == (3, 9)


@pytest.fixture
def up_down(results, tmp_path, tokenizer):
    return Origin("up_down", tmp_path, results, tokenizer)


def refusal(origin, capsys, *more):
    out = origin.folder / "refused"
    with pytest.raises(SystemExit) as stopped:
        origin.imported(out, *more)
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and not out.exists() and "Traceback" not in said
    return said.splitlines()[-1]


def test_what_does_not_fit_is_refused_in_one_sentence(up_down, capsys):
    words = up_down.folder / "coco_vocabulary.txt"
    given, config = words.read_text(), up_down.folder / "config.yml"
    words.write_text(given + "another\n")
    assert "'word_embedding.weight' of the checkpoint has" in refusal(up_down, capsys)
    words.write_text(given)
    config.write_text("MODEL: {TYPE: XLAN}")
    assert "the option MODEL.TYPE is 'XLAN' in the release's configuration" in refusal(
        up_down, capsys
    )
    config.write_text("MODEL: {TYPE: UpDown}")
    assert "the option MODEL.ATT_ACT is 'RELU'" in refusal(up_down, capsys)
    config.write_text("MODEL: {TYPE: UpDown, ATT_ACT: TANH}")
    left = {name: value for name, value in up_down.official.items() if name != "att.Wah.weight"}
    torch.save(left, up_down.checkpoint)
    assert "is no released checkpoint of kind 'up_down'" in refusal(up_down, capsys)
    up_down.options = []
    torch.save(up_down.official, up_down.checkpoint)
    assert "give them with --vocabulary FILE" in refusal(up_down, capsys)


def test_what_no_model_here_does_is_said(up_down, capsys):
    for kind, why in (
        ("acf", "appends a mask word"),
        ("fusion", "no checkpoint of the Fusion Transformer"),
    ):
        up_down.kind = kind
        assert why in refusal(up_down, capsys)
