"""A row of a table trains in one process: what it is made from, what may be different, and what it ends with."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from helpers.plans import edited
from helpers.tiny_workspace import ROOT
from helpers.training import training
from recap.cli import main
from recap.cli.by_hand import Files
from recap.core.errors import ConfigError
from recap.plan.by_hand import by_hand
from recap.training.by_hand import FirstBatches, Shown

PARAMS = ROOT / "tests" / "workflow" / "params"
ASKED = {"scale": None, "seed": 2, "stage": None, "changes": []}


def test_a_row_is_a_spec_with_some_other_values():
    changes = ["xe.schedule.learning_rate=1e-4", "model.d_model=32", "execution.device=cpu", "evaluation.beam=1"]
    found = by_hand(PARAMS, "tiny/zodiac", **ASKED | {"changes": changes})
    assert (found.spec.stage, found.spec.seed, found.spec.model_settings.d_model) == ("xe", 2, 32)
    assert found.spec.stage_settings.schedule.learning_rate == 1e-4
    assert (found.execution.device, found.evaluation.evaluation.beam) == ("cpu", 1)


@pytest.mark.parametrize(
    "row, changes, sentence",
    [
        ("zodiac", [], "name table and row: TABLE/ROW"),
        ("tiny/zodiak", [], "there is no row 'tiny/zodiak'; did you mean 'tiny/zodiac'?"),
        ("tiny/zodiac", ["xe.epochs"], "write KEY=VALUE"),
        ("tiny/zodiac", ["scst.epochs=1"], "this run is of stage xe; add --stage scst to train that one"),
        ("tiny/zodiac", ["modle.d_model=8"], "there is nothing called 'modle' in this run; did you mean 'model'?"),
        ("tiny/zodiac", ["xe.epoch=1"], "unknown key 'stage_settings.epoch'; did you mean 'epochs'?"),
        ("tiny/zodiac", ["xe.epochs=[1"], "--set xe.epochs line 1: not valid YAML"),
        ("tiny/zodiac", ["xe.epochs=2001-13-45"], "--set xe.epochs line 1: '2001-13-45' is no value (month must be"),
        ("tiny/zodiac", ["xe.epochs=" + "- " * 5000], "nested too deep"),
    ],
)
def test_a_wrong_row_or_value_is_one_sentence(row, changes, sentence):
    with pytest.raises(ConfigError) as refusal:
        by_hand(PARAMS, row, **ASKED | {"changes": changes})
    assert sentence in str(refusal.value)


def test_the_first_batches_of_a_training_go_over_epochs_or_stay_the_first(tmp_path):
    batches = training(tmp_path).batches
    whole = [*batches.order(0), *batches.order(1)]
    assert FirstBatches(batches, steps=5, one_batch=False).order(0) == whole[:5]
    assert FirstBatches(batches, steps=4, one_batch=True).order(0) == [whole[0]] * 4


def test_it_ends_with_the_loss_and_a_caption_beside_a_reference():
    text = Shown([2.0, 1.0], {7: ("a red star", "a red circle")}).text()
    assert text == "loss 2.0000 at step 1, 1.0000 at step 2\nimage 7: 'a red star' (a reference: 'a red circle')"


@pytest.mark.slow
def test_one_batch_is_learnt_by_heart_from_nothing_but_parameters(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    words = ["train", "--row", "tiny/transformer", "--stage", "xe", "--params", str(PARAMS), "--steps", "60"]
    words += ["--overfit-one-batch", "--set", "xe.schedule.learning_rate=2e-2", "--set", "execution.device=cpu"]
    words += ["--set", "model.dropout=0", "--set", "model.feature_dropout=0"]
    main(words)
    torch.set_num_threads(threads)
    found = re.search(r"loss (\S+) at step 1, (\S+) at step 60", capsys.readouterr().out)
    assert float(found[1]) > 3 and float(found[2]) < 0.5 * float(found[1])
    out = Path("work/by_hand/tiny/transformer/seed-1/xe")
    assert (out / "run" / "model.safetensors").exists()
    assert not Path("results").exists()


def test_a_language_model_is_made_first_and_a_file_of_weights_is_taken_from_the_inputs(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "params", tmp_path / "params")
    table = {"title": "t", "columns": ["CIDEr"], "baseline": "v"}
    row = {"id": "v", "label": "v", "model": "visual_gpt", "recipe": "visualgpt", "features": "bottom_up_adaptive"}
    written = {**table, "rows": [{**row, "dataset": "coco_bpe"}]}
    edited(tmp_path / "params", "tables/v.yaml", **written)
    monkeypatch.chdir(tmp_path)
    run = []

    def weights(*changes, inputs=None, stage="xe"):
        chosen = by_hand(Path("params"), "v/v", scale="scenes", seed=1, stage=stage, changes=changes)
        return Files(chosen, inputs, run.append).weights()

    made = weights()
    assert made.name == "scenes.language_model.safetensors"
    assert run[-1][0] == "pretrain-lm" and run[-1][-1] == str(made)
    assert json.loads(run[-1][run[-1].index("--spec") + 1])["scenes"]["count"] == 4000
    count = len(run)
    assert weights("model.weights=gpt2/model.safetensors", inputs=Path("in")) == Path("in/gpt2/model.safetensors")
    assert weights("model.pretrained=false") is None
    assert weights(stage="scst") is None  # it begins with the first stage's weights
    with pytest.raises(ConfigError, match="language model 'photos' has outside files"):
        weights("model.weights=language_model:photos")
    assert len(run) == count


@pytest.mark.slow
def test_features_that_are_pooled_from_others_are_made_after_them(tmp_path, monkeypatch, capsys):
    params = shutil.copytree(PARAMS, tmp_path / "params")
    (params / "features" / "boxes.yaml").write_text("{kind: pooled, cells: tiny_grid, areas: boxes}\n")
    (params / "models" / "fusion.yaml").write_text(
        "{kind: fusion, d_model: 16, encoder_layers: 1, decoder_layers: 1}\n"
    )
    (params / "tables" / "fusion.yaml").write_text(
        "{title: T, columns: [CIDEr], baseline: f, rows: [{id: f, label: F, dataset: tiny_scenes, model: fusion, "
        "recipe: short, stage: xe, features: [tiny_grid, boxes]}]}\n"
    )
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    main(["train", "--row", "fusion/f", "--params", str(params), "--steps", "1", "--set", "execution.device=cpu"])
    torch.set_num_threads(threads)
    assert re.search(r"loss \S+ at step 1", capsys.readouterr().out)
    (stores,) = Path("work/by_hand").glob("files-*/features/tiny_scenes")
    assert {path.name for path in stores.glob("*.h5")} == {"tiny_grid.h5", "boxes.h5"}
