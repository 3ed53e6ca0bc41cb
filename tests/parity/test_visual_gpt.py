"""VisualGPT, its baselines and GPT-2 against the golden vectors (official code and
transformers)."""

import pytest
import torch
from torch import nn

from helpers.golden import close, with_parameters
from helpers.model_cases import build_model, built, log_probabilities, random_images, random_tokens
from recap.models.gpt2 import LanguageModel
from recap.models.images import Images, InputSpec
from recap.models.state import LevelMemory
from recap.nn.rows import Rows, key_mask
from recap.papers.visualgpt.model import AoaEncoderLayer, SelfResurrecting
from recap.papers.visualgpt.released import rename_official
from recap.papers.visualgpt.settings import VisualGptModel
from recap.runs.pretrained import rename_gpt2

D, HEADS, LEVELS = 16, 4, 3
SIZES = {
    "d_model": D,
    "heads": HEADS,
    "d_feed_forward": 64,
    "decoder_layers": 1,
    "d_encoder_feed_forward": 24,
}


def block(official, **changes):
    """Return the first decoder block with the official weights."""
    config = VisualGptModel(
        kind="visual_gpt", positions=9, encoder_layers=LEVELS, **SIZES, **changes
    )
    model = build_model(config, InputSpec({"main": 5}, 9)).double().eval()
    found = model.decoder.blocks[0]
    named = {
        name.removeprefix("decoder.blocks.0."): value
        for name, value in renamed(official, "h.0.").items()
    }
    found.load_state_dict(named)
    return found


def renamed(official, prefix):
    return rename_official({f"{prefix}{name}": value for name, value in official.items()})


def through(module, golden):
    """Run a block on the inputs of a file: one caption for each image."""
    levels = golden["in/encoder_levels"]
    image = module.image(
        LevelMemory(levels[:, -1], torch.ones(levels[:, -1].shape[:2], dtype=torch.bool), levels)
    )
    self_mask = ~golden["in/self_mask"]
    out, _ = module(Rows(golden["in/x"][:, None]), image, self_mask, ~golden["in/enc_mask"])
    return out.values[:, 0]


@pytest.mark.parametrize("tau", [0.0, 0.1, 0.2, 0.3])
def test_released_block(tau):
    golden, official = with_parameters("visualgpt_decoder_layer")
    module = block(official, tau=tau)
    seen = []
    each_level = module.cross.each_level
    module.cross.each_level = lambda *a, **k: seen.append(each_level(*a, **k)) or seen[-1]
    out = through(module, golden)
    real = golden["in/mask_queries"][:, None]
    close(seen[0][:, :, 0].transpose(0, 1) * real, golden["mid/enc_dec_att"] * real)
    close(out * golden["in/mask_queries"], golden[f"out/y_tau{tau}"])


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("baseline_transformer", {"fusion": "plain"}),
        ("baseline_m2", {"fusion": "meshed"}),
        ("baseline_aoa", {"fusion": "aoa_baseline"}),
        ("ablation_gpt2_aoa", {"fusion": "aoa"}),
    ],
)
def test_blocks_of_baselines_and_ablations(name, changes):
    golden, official = with_parameters(f"visualgpt_{name}_decoder_layer")
    found, real = through(block(official, **changes), golden), golden["in/mask_queries"]
    # the AoA baseline leaves padded tokens as they come
    close(found * real, golden["out/y"] * real)


def test_encoder_layer_of_the_aoa_baseline():
    golden, official = with_parameters("visualgpt_baseline_aoa_encoder_layer")
    layer = AoaEncoderLayer(VisualGptModel(kind="visual_gpt", **SIZES)).double().eval()
    named = renamed(official, "encoder.layers.0.")
    layer.load_state_dict({name.removeprefix("encoder.0."): value for name, value in named.items()})
    mask = key_mask(~golden["in/attention_mask"][:, 0, 0])
    close(layer(Rows(golden["in/x"][:, None]), mask).values[:, 0], golden["out/y"])


def test_language_model_equals_gpt2():
    golden, official = with_parameters("gpt2_language_model")
    model = LanguageModel(
        vocabulary_size=13,
        d_model=12,
        heads=3,
        d_feed_forward=48,
        layers=3,
        positions=12,
        dropout=0.1,
    )
    model.double().eval().decoder.load_state_dict(rename_gpt2(official))
    close(model.logits(model(golden["in/tokens"])), golden["out/logits"])


@pytest.mark.parametrize("fusion", ["plain", "aoa"])
def test_decoder_equals_gpt2_where_nothing_comes_from_the_image(fusion):
    golden, official = with_parameters("gpt2_language_model")
    sizes = {"d_model": 12, "heads": 3, "d_feed_forward": 48, "decoder_layers": 3, "positions": 12}
    config = VisualGptModel(
        kind="visual_gpt", fusion=fusion, encoder_layers=2, d_encoder_feed_forward=8, **sizes
    )
    model = build_model(config, InputSpec({"main": 5}, 13)).double().eval()
    model.decoder.load_state_dict(rename_gpt2(official), strict=False)
    for block in model.decoder.blocks:
        closed = block.fusion.aoa.linear if fusion == "aoa" else block.cross.output
        for parameter in closed.parameters():
            nn.init.zeros_(parameter)
    images = Images.of(torch.randn(2, 4, 5).double(), torch.ones(2, 4, dtype=torch.bool))
    hidden = model.decode(golden["in/tokens"][:, None], model.encode(images))
    close(model.logits(hidden)[:, 0], golden["out/logits"])


def gate(**changes):
    sizes = {"d_model": 8, "heads": 1, "encoder_layers": 1}
    settings = VisualGptModel(kind="visual_gpt", **sizes, **{"tau": 0.0, **changes})
    return SelfResurrecting(settings).double().eval()


@pytest.mark.parametrize("tau", [0.0, 0.2, 0.3])
@pytest.mark.parametrize("form", ["released", "paper"])
def test_gate(form, tau):
    golden, official = with_parameters("visualgpt_srau_gate")
    unit = gate(gate=form, tau=tau)
    if form == "released":
        unit.gates[0].load_state_dict(
            {key.removeprefix("fc_alpha."): value for key, value in official.items()}
        )
    language, visual = golden["in/language"], golden["in/visual"]
    name = "code" if form == "released" else "paper"
    close(unit(language, visual[None]), golden[f"out/{name}_tau{tau}"])
    if form == "paper":
        seen, said = unit.pair(language, visual, 0)
        close(seen, golden[f"out/paper_Bvis_tau{tau}"])
        close(said, golden[f"out/paper_Blan_tau{tau}"])


@pytest.mark.parametrize(
    ("form", "name"), [("released", "code_normalised"), ("paper", "paper_normalised")]
)
def test_normalized_gate(form, name):
    golden, official = with_parameters("visualgpt_srau_gate")
    unit = gate(gate=form, tau=0.2, normalized=True)
    if form == "released":
        unit.gates[0].load_state_dict(
            {key.removeprefix("fc_alpha."): value for key, value in official.items()}
        )
    close(unit(golden["in/language"], golden["in/visual"][None]), golden[f"out/{name}_tau0.2"])


def test_one_gate_is_zero_where_the_other_has_a_gradient():
    # Section 4.1: near x = 1.4 and -1.4 at tau 0.2 the gradient
    # of the sum is that of the open gate.
    unit = gate(gate="paper", tau=0.2)
    state = torch.tensor([1.4, -1.4, 0.0] + [0.0] * 5, dtype=torch.float64, requires_grad=True)
    visual, language = unit.pair(state, state, 0)
    assert language[0] == 0 and visual[0] > 0.8
    assert visual[1] == 0 and language[1] > 0.8
    (visual + language).sum().backward()
    assert (state.grad[:2].abs() > 0.1).all()
    # both are open: the gradients cancel, the gates are complementary
    assert abs(state.grad[2]) < 1e-12


def test_complementary_gates_sum_to_one_and_normalized_ones_too():
    state = torch.linspace(-4, 4, 8, dtype=torch.float64)
    for unit in (gate(gate="paper", tau=0.0), gate(gate="paper", tau=0.2, normalized=True)):
        visual, language = unit.pair(state, state, 0)
        close(visual + language, torch.ones_like(state))
    visual, language = gate(gate="paper", tau=0.2).pair(state, state, 0)
    assert (visual + language < 1).any()


def counted(**changes):
    with torch.device("meta"):
        config = VisualGptModel(kind="visual_gpt", **changes)
        return build_model(config, InputSpec({"main": 2048}, 50_257))


def numel(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_parameters_of_the_paper_s_size():
    model = counted()
    gates = sum(numel(block.fusion) for block in model.decoder.blocks)
    assert round(gates / 1e6, 1) == 42.5
    unused = 12 * (768 * 3 * 768 + 3 * 768)  # square matrices of the release that nothing reads
    assert round(unused / 1e6, 1) == 21.3
    assert round((numel(model.decoder) + unused) / 1e6, 1) == 216.5
    added = gates + sum(numel(block.cross) for block in model.decoder.blocks)
    assert numel(model.decoder) - added == 124_439_808  # GPT-2 small


def test_the_mask_of_the_release_hides_nothing():
    config = VisualGptModel.example()
    images, tokens = random_images(config), random_tokens()
    hidden = built(config)
    faulty = built(
        VisualGptModel.model_validate(
            {**config.model_dump(), "padded_vectors": "attended", "max_vectors": 9}
        )
    )
    ours, theirs = (log_probabilities(model, images, tokens) for model in (hidden, faulty))
    close(ours[[0, 2]], theirs[[0, 2]])  # no padding
    assert (ours[1] - theirs[1]).abs().max() > 1e-4
