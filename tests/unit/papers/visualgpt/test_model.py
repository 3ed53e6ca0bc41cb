"""Pretrained weights of VisualGPT (what is taken, left random, refused)
and the gates that figures read."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from helpers.golden import with_parameters
from helpers.model_cases import (
    V,
    build_model,
    built,
    inputs,
    log_probabilities,
    random_images,
    random_tokens,
    stepwise,
)
from helpers.refusals import refused
from recap.core.errors import ChangedFile, ConfigError, MissingSettings
from recap.data.vocabulary import Vocabulary
from recap.models.gpt2 import LanguageModel
from recap.papers.visualgpt.model import visual_gates
from recap.papers.visualgpt.settings import VisualGptModel
from recap.runs.inputs import pretrained_file
from recap.runs.pretrained import METADATA, rename_gpt2, save_language_model

CONFIG = VisualGptModel.example()
WORDS = Vocabulary(
    [f"w{number}" for number in range(V - 4)], {"min_count": 1, "max_length": 9, "splits": "train"}
)


def language_model(**changes):
    sizes = {"d_model": 16, "heads": 2, "d_feed_forward": 24, "layers": 3, "positions": 80}
    torch.manual_seed(5)
    return LanguageModel(vocabulary_size=V, dropout=0.0, **{**sizes, **changes})


@pytest.fixture
def weights(tmp_path):
    file = tmp_path / "language_model.safetensors"
    save_language_model(file, language_model().decoder, WORDS.hash, heads=2)
    return file


def model(weights, vocabulary=WORDS, **changes):
    config = VisualGptModel.model_validate({**CONFIG.model_dump(), "pretrained": True, **changes})
    torch.manual_seed(1)
    return build_model(config, replace(inputs(config), weights=weights, vocabulary=vocabulary))


def test_a_decoder_begins_with_the_first_layers_and_positions_of_a_language_model(weights, caplog):
    found, source = model(weights), language_model().decoder
    for layer in range(2):
        ours, theirs = found.decoder.blocks[layer].state_dict(), source.blocks[layer].state_dict()
        assert all(torch.equal(ours[name], value) for name, value in theirs.items())
    assert torch.equal(
        found.decoder.position_embedding.weight, source.position_embedding.weight[:70]
    )
    assert f"taken: {4 + 2 * 16} (word_embedding, " in caplog.text
    assert "left random: 24 (blocks.*.cross.query, " in caplog.text
    assert "of the file not used: 16 (blocks.*.attention.key, " in caplog.text  # the third block


def test_another_vocabulary_is_refused(weights):
    other = Vocabulary([*WORDS.words[1:], "other"], WORDS.rule)
    with refused(ConfigError, weights, "hash", "--vocabulary"):
        model(weights, other)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"d_model": 8}, ["'word_embedding.weight'", "[11, 16]", "[11, 8]"]),
        ({"decoder_layers": 4}, ["'blocks.3.attention_norm.weight'", "decoder_layers"]),
        ({"heads": 4}, ["2 heads", "4"]),
        ({"positions": 90}, ["'position_embedding.weight'", "[80, 16]", "[90, 16]"]),
    ],
)
def test_other_sizes_are_refused(weights, changes, named):
    with refused(ConfigError, weights, *named):
        model(weights, **changes)


@pytest.fixture
def released(tmp_path):
    """A file of GPT-2 with 13 pieces, and its tensors."""
    _, parameters = with_parameters("gpt2_language_model")
    tensors = {name: value.float().contiguous() for name, value in parameters.items()}
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors", tensors


class Pieces:
    """Byte pairs with GPT-2 rows for V ids."""

    hash, rows = "0", [6, 5, 9, 9, 0, 1, 2, 3, 4, 7, 8]


GPT2 = {"d_model": 12, "heads": 3, "d_feed_forward": 48, "decoder_layers": 2, "positions": 12}


def test_the_released_gpt2_is_loaded_with_its_word_table_in_the_order_of_our_ids(released):
    file, tensors = released
    found = model(file, Pieces(), **GPT2).decoder
    assert torch.equal(found.word_embedding.weight, tensors["transformer.wte.weight"][Pieces.rows])
    plain = rename_gpt2(tensors)
    for name, value in found.blocks[1].state_dict().items():
        assert f"blocks.1.{name}" not in plain or torch.equal(value, plain[f"blocks.1.{name}"])


def test_the_released_gpt2_is_refused_for_a_vocabulary_of_words_or_foreign_names(released):
    file, _ = released
    with refused(ConfigError, "model.safetensors", "byte pairs", "`vocabulary: {kind: bpe"):
        model(file, **GPT2)
    save_file({"bert.weight": torch.zeros(2)}, file)
    with refused(ConfigError, "'bert.weight'"):
        model(file)


def test_files_that_are_no_weights_are_refused(tmp_path, weights):
    for name, content in [("model.bin", b"x"), ("model.safetensors", b"x" * 100)]:
        (tmp_path / name).write_bytes(content)
        with refused(ConfigError, name, "safetensors file"):
            model(tmp_path / name)
    with refused(MissingSettings, "missing.safetensors", "`weights`"):
        model(tmp_path / "missing.safetensors")
    save_file(
        {"a": torch.zeros(1)},
        weights,
        metadata={METADATA: json.dumps({"heads": 2, "vocabulary_hash": "0"})},
    )
    with refused(ChangedFile, weights):
        model(weights)


def test_settings_and_files_of_weights_must_agree(tmp_path):
    assert pretrained_file(None, None) is None
    assert (
        pretrained_file("language_model:x", tmp_path / "x.safetensors")
        == tmp_path / "x.safetensors"
    )
    with refused(ConfigError, "--weights"):
        pretrained_file("language_model:x", None)
    with refused(ConfigError, f"--weights {tmp_path}", "`weights`"):
        pretrained_file(None, tmp_path)
    with refused(ConfigError, "'hub:openai-community/gpt2'", "40 digits"):
        pretrained_file("hub:openai-community/gpt2", None)


def test_weights_from_the_hub_are_fetched_at_their_revision(monkeypatch, tmp_path):
    import huggingface_hub

    asked = []
    monkeypatch.setattr(
        huggingface_hub,
        "hf_hub_download",
        lambda *a, **k: asked.append((a, k)) or str(tmp_path / "w.safetensors"),
    )
    revision = "0123456789" * 4
    assert (
        pretrained_file(f"hub:openai-community/gpt2@{revision}", None) == tmp_path / "w.safetensors"
    )
    assert asked == [(("openai-community/gpt2", "model.safetensors"), {"revision": revision})]

    def offline(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", offline)
    with refused(
        ConfigError, f"hub:openai-community/gpt2@{revision}", "no route to host", "`inputs`"
    ):
        pretrained_file(f"hub:openai-community/gpt2@{revision}", None)


def test_a_closed_visual_gate_reads_nothing_of_the_image():
    config = VisualGptModel.model_validate({**CONFIG.model_dump(), "tau": 0.0})
    found, tokens = built(config), random_tokens()
    with torch.no_grad():
        for block in found.decoder.blocks:
            for gate in block.fusion.gate.gates:
                gate.weight.zero_()
                gate.bias.fill_(50.0)  # alpha 1: all language
    one, other = (
        log_probabilities(found, random_images(config, seed=seed), tokens) for seed in (1, 2)
    )
    torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_captions_longer_than_the_positions_are_refused_under_teacher_forcing_and_step_by_step():
    found = built(VisualGptModel.model_validate({**CONFIG.model_dump(), "positions": 4}))
    images, tokens = random_images(CONFIG), random_tokens()
    stepwise(found, images, tokens[..., :4])
    with refused(ConfigError, "6 tokens", "4 positions", "`positions`", "max_length"):
        log_probabilities(found, images, tokens)
    with refused(ConfigError, "5 tokens", "4 positions"):
        stepwise(found, images, tokens)


def test_gates_behind_each_token():
    found = built(CONFIG)
    images, tokens = random_images(CONFIG), random_tokens()
    memory = found.encode(images)
    visual, language = visual_gates(found, tokens, memory)
    assert visual.shape == language.shape == (2, *tokens.shape)
    seen = []
    gate = found.decoder.blocks[1].fusion.gate
    pair = gate.pair
    gate.pair = lambda *a: seen.append(pair(*a)) or seen[-1]
    found.decode(tokens, memory)
    torch.testing.assert_close(visual[1], torch.stack([each[0].mean(-1) for each in seen]).mean(0))
    torch.testing.assert_close(
        language[1], torch.stack([each[1].mean(-1) for each in seen]).mean(0)
    )
    assert not any(module._forward_hooks for module in found.modules())
    with refused(ConfigError, "VisualGpt", "fusion srau"):
        visual_gates(
            built(VisualGptModel.model_validate({**CONFIG.model_dump(), "fusion": "plain"})),
            tokens,
            memory,
        )
