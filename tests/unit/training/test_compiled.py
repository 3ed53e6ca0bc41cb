"""Compiled passes (traced as for `inductor`, run by torch) give the loss
and gradient of plain ones with few graphs."""

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.testing import CompileCounterWithBackend

from helpers.model_cases import BOS, EOS, PAD, build_model, built, cases, random_images, still
from recap.decoding.beam import beam_search
from recap.decoding.sampling import sample
from recap.decoding.step import DecodingBatch
from recap.models.compiled import compile_passes, is_compiled
from recap.models.images import Images, InputSpec
from recap.papers.xlan.model import bilinear_pool
from recap.runs.folder import Counters
from recap.runs.inputs import caption_tensor
from recap.settings import CrossEntropy, DecodingSettings
from recap.training.batches import Batch
from recap.training.distributed import Group
from recap.training.loop import OptimizerStep
from recap.training.objectives import CrossEntropyObjective

SMALL = {
    "d_model": 16,
    "heads": 2,
    "d_feed_forward": 24,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "dropout": 0.0,
}
PLAIN = (
    "feature_dropout",
    "word_dropout",
    "attention_dropout",
    "joint_dropout",
    "mix_dropout",
    "context_dropout",
)
KINDS = {
    "transformer": {**SMALL, "kind": "transformer", "feature_dropout": 0.0},
    "xlan": {
        "kind": "xlan",
        "d_model": 16,
        "d_joint": 8,
        "heads": 2,
        "encoder_layers": 1,
        **dict.fromkeys(PLAIN, 0.0),
    },
}
OWN_STEP = ("transformer", "acf", "x_transformer", "xlan")  # which their searches do not share
# images, captions, longest caption: one bucket
SIZES = [(3, 2, 9), (4, 3, 12), (2, 2, 10), (5, 4, 14)]


def batch(images, captions, longest):
    generator = torch.Generator().manual_seed(longest)
    lengths = torch.randint(2, longest + 1, (images, captions), generator=generator)
    lengths[0, 0] = longest
    words = [
        [torch.randint(4, 11, (n,), generator=generator).tolist() for n in row]
        for row in lengths.tolist()
    ]
    mask = torch.ones(images, 9, dtype=torch.bool)
    mask[1, 5:] = False
    features = Images.of(torch.randn(images, 9, 7, generator=generator), mask)
    return Batch.of(list(range(images)), features, caption_tensor(words))


def losses(model, sizes):
    objective = CrossEntropyObjective(model, CrossEntropy(epochs=1, learning_rate=1e-3))
    result = []
    for size in sizes:
        loss = objective(batch(*size)).loss
        gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        result.append((loss.detach(), [each for each in gradients if each is not None]))
    return result


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_set_of_graphs_serves_all_lengths_with_the_plain_loss(kind):
    torch._dynamo.reset()
    torch.manual_seed(0)
    config = KINDS[kind]
    plain, compiled = (build_model(config, InputSpec({"main": 7}, 11)) for _ in range(2))
    compiled.load_state_dict(plain.state_dict())
    counter = CompileCounterWithBackend("aot_eager")
    compile_passes(compiled, backend=counter)
    result = losses(compiled, SIZES[:2])
    graphs = counter.frame_count
    assert graphs > 0
    result += losses(compiled, SIZES[2:])
    expected = losses(plain, SIZES)
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=0)
    for (_, gradients), (_, exact) in zip(result, expected, strict=True):
        # Of a key's bias, whose gradient is 0 by the softmax,
        # nothing but rounding is left: 1e-9 of the whole.
        least = 1e-4 * torch.cat([each.flatten() for each in exact]).norm()
        for found, right in zip(gradients, exact, strict=True):
            assert (found - right).norm() < 1e-4 * right.norm().clamp(min=least)
    assert counter.frame_count == graphs
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.parametrize("name, config", [case for case in cases() if case[0] in OWN_STEP])
def test_a_compiled_search_finds_the_plain_captions_with_few_graphs(name, config):
    torch._dynamo.reset()
    model, images = built(still(config)), random_images(config)
    counter = CompileCounterWithBackend("eager")

    def captions():
        torch.manual_seed(0)
        with torch.no_grad():
            memory = model.encode(images)
            start = DecodingBatch(3, BOS, EOS, PAD, torch.device("cpu"), together=True)
            beams = beam_search(
                model.step, model.start(memory), start, DecodingSettings(beam=2, max_length=6)
            )
            drawn = sample(
                model.step, model.start(memory), start, max_length=6, samples=2, greedy=True
            )
        return beams.tokens, beams.scores, drawn

    plain = captions()
    compile_passes(model, backend=counter)
    torch.testing.assert_close(captions(), plain)
    graphs = counter.frame_count
    assert graphs <= 4  # not one for each word; sizes that are equal by chance cost some
    captions()
    assert counter.frame_count == graphs
    torch._dynamo.reset()


@pytest.mark.slow
def test_a_compiled_pooling_takes_no_function_with_a_gradient_by_hand():
    torch.manual_seed(0)
    pooling = torch.randn(2, 3), torch.randn(2), torch.randn(2), torch.full((1, 1, 1, 4), 0.25)
    q, k = torch.randn(1, 1, 2, 3), torch.randn(1, 1, 4, 3)
    compiled = torch.compile(bilinear_pool, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(q, k, *pooling), bilinear_pool(q, k, *pooling))


@pytest.mark.slow
@pytest.mark.parametrize("part", ["fw_compiler", "bw_compiler"])
def test_a_step_that_does_not_compile_is_done_plainly_with_the_random_numbers_of_a_plain_one(
    part, caplog
):
    def refuses(*_):
        raise RuntimeError("no such kernel")

    torch._dynamo.reset()
    stage = CrossEntropy(epochs=1, learning_rate=1e-3)
    weights = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = build_model({**KINDS["transformer"], "dropout": 0.1}, InputSpec({"main": 7}, 11))
        if compiled:
            compile_passes(
                model,
                backend=aot_autograd(**{"fw_compiler": lambda graph, _: graph, part: refuses}),
            )
            assert is_compiled(model)
        objective = CrossEntropyObjective(model, stage)
        step = OptimizerStep(
            model=model,
            objective=objective,
            stage=stage,
            d_model=16,
            group=Group(device=torch.device("cpu")),
        )
        step(batch(*SIZES[0]), Counters(), steps=1)
        weights.append([*model.parameters()])
    torch.testing.assert_close(*weights)
    assert "the compiled step fails" in caplog.text and not is_compiled(model)
    torch._dynamo.reset()
