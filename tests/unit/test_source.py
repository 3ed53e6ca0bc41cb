"""A job's digest covers what the job runs, and no more."""

import pytest

from recap.core.config.models import source_module
from recap.core.source import code_digest, imported


def test_training_depends_on_its_layers_and_random_numbers_but_not_on_tables_or_tracking():
    files = imported("training/job")
    assert {"training/loop", "models/base", "layers/fast/linear", "metrics/cider_d", "core/seeding"} <= files
    assert not {"tracking/publish", "reporting/tables", "metrics/coco"} & files
    assert not any(file.startswith("core/config") for file in files)


def test_what_is_left_out_is_not_followed():
    files = imported("training/job", without=["training/objectives/self_critical"])
    assert "training/loop" in files
    assert not {"training/objectives/self_critical", "metrics/bleu_ids"} & files


def test_a_model_is_followed_only_where_it_is_named():
    assert not {"models/transformer", "models/zodiac", "layers/zoneup"} & imported("training/job")
    files = imported("training/job", source_module("transformer"))
    assert "models/transformer" in files and not {"models/zodiac", "layers/zoneup"} & files
    assert {"models/zodiac", "models/transformer"} <= imported(source_module("zodiac"))


def test_imports_inside_functions_count():
    assert "data/datasets/scenes/build" in imported("data/corpus/build")


def test_the_digest_is_that_of_the_files():
    assert code_digest("training/job") == code_digest("training/job", "training/loop")
    assert code_digest("training/job") != code_digest("training/job", without=["training/loop"])


def test_an_unknown_module_is_refused():
    with pytest.raises(FileNotFoundError, match="training/jobb"):
        code_digest("training/jobb")
    with pytest.raises(FileNotFoundError, match="models/registri"):
        code_digest("training/job", without=["models/registri"])
