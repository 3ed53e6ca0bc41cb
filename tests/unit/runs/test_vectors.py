"""A model reads all vectors of a store, or its settings say how many:
nothing is truncated silently."""

import pytest

from helpers.commands import refused_command
from helpers.feature_stores import write_store
from helpers.plans import edited, planned
from helpers.prepared import prepare
from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.papers.visualgpt.settings import VisualGptModel
from recap.runs.inputs import check_vectors

EXAMPLE = VisualGptModel.example().model_dump()
SECOND_VIEWS = "every image has 98 vectors, and the model would read only the first 50 of each"


def limited_to(limit):
    return VisualGptModel.model_validate({**EXAMPLE, "max_vectors": limit})


@pytest.mark.parametrize(
    ("table", "change", "sentence"),
    [
        ("visualgpt/t3", {"model": {"base": "visual_gpt", "tau": 0}}, SECOND_VIEWS),
        ("acf/t1", {"model": "m2", "features": "swin_l_384_grid"}, "has 144 vectors"),
        ("acf/t1", {"model": "m2", "features": "bottom_up_adaptive"}, None),
    ],
)
def test_a_row_whose_model_would_read_a_part_of_every_image_is_refused(
    params, table, change, sentence
):
    file = "{}/tables/{}.yaml".format(*table.split("/"))
    row = {"id": "r", "label": "r", **change}
    edited(params, file, rows=[row], baseline="r", figures=[])
    if sentence is None:
        planned(params, "paper", [table])
        return
    with refused(ConfigError, f"row 'r' of table '{table}'", sentence, "max_vectors"):
        planned(params, "paper", [table])


def test_a_store_whose_images_would_all_be_truncated_is_refused(tmp_path):
    store = write_store(tmp_path / "views.h5", [3, 8], rows=98)
    with refused(ConfigError, f"views.h5: {SECOND_VIEWS}", "max_vectors"):
        check_vectors(limited_to(50), store)
    check_vectors(limited_to(98), store)
    check_vectors(limited_to(None), store)


def test_a_message_says_how_many_images_are_truncated_where_their_numbers_differ(tmp_path, capsys):
    store = write_store(tmp_path / "regions.h5", [3, 8, 11], rows=lambda image: 2 * image)
    check_vectors(limited_to(10), store)
    said = capsys.readouterr().err
    assert (
        "regions.h5: 2 of 3 images have more than 10 vectors (up to 22); the model reads the first "
        "10"
    ) in said


def test_training_refuses_before_it_begins(tmp_path, capsys):
    files = prepare(tmp_path)  # of four vectors each
    model = {
        "kind": "m2",
        "d_model": 16,
        "heads": 2,
        "d_feed_forward": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
    }
    _, _, _, *words = files.command("short", model_settings={**model, "max_vectors": 3})
    sentence = refused_command(capsys, *words)
    assert [file.name for file in tmp_path.glob("short/**/*") if file.is_file()] == ["lock"]
    assert (
        "features.h5: every image has 4 vectors, and the model would read only the first 3"
        in sentence
    )
