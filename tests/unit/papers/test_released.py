"""`recap import-checkpoint`: what is read, and what is refused; the names of papers are in tests/parity."""

import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file

from recap.cli import main

STATE = {"word_embed.0.weight": torch.arange(6.0).reshape(3, 2), "logit.bias": torch.ones(3)}


@pytest.fixture
def convert(tmp_path, capsys):
    """Return a function that imports a file and returns its tensors, or the sentence that refuses it."""

    def run(write, kind="up_down", name="released.pth"):
        write(tmp_path / name)
        out = tmp_path / "ours.safetensors"
        try:
            main(["import-checkpoint", kind, str(tmp_path / name), "--out", str(out)])
        except SystemExit as stopped:
            assert stopped.code == 2 and not out.exists()
            return capsys.readouterr().err
        return load_file(out)

    return run


@pytest.mark.parametrize(
    "content",
    [STATE, {"state_dict": STATE, "epoch": 3}, {f"module.{name}": value for name, value in STATE.items()}],
    ids=["tensors", "within a checkpoint", "of data-parallel training"],
)
def test_a_state_dict_gets_our_names(convert, content):
    found = convert(lambda file: torch.save(content, file))
    assert sorted(found) == ["output.bias", "word_embedding.weight"]
    assert torch.equal(found["word_embedding.weight"], STATE["word_embed.0.weight"])


def test_safetensors_are_read_too(convert):
    assert sorted(convert(lambda file: save_file(STATE, file), name="a.safetensors")) == [
        "output.bias",
        "word_embedding.weight",
    ]


class Harmful:
    """Would run code when it is loaded."""

    def __reduce__(self):
        return (pytest.fail, ("code of the file ran",))


def pickled(content):
    return lambda file: file.write_bytes(pickle.dumps(content))


def saved(content):
    return lambda file: torch.save(content, file)


def truncated(file):
    torch.save(STATE, file)
    file.write_bytes(file.read_bytes()[:-200])


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (lambda file: None, "no such checkpoint"),
        (lambda file: file.write_text("<html>404</html>"), "is damaged, or holds more than tensors"),
        (truncated, "is damaged, or holds more than tensors"),
        (pickled(Harmful()), "is damaged, or holds more than tensors"),
        (saved({"model": Harmful()}), "is damaged, or holds more than tensors"),
        (saved([1, 2]), "holds no state dict"),
        (saved({"epoch": 3}), "'epoch' is no tensor"),
        (saved({"logit.bias": torch.tensor([float("nan")])}), "'logit.bias' holds NaN"),
        (saved({"refiner.weight": torch.ones(1)}), "parameter 'refiner.weight' is none of the released model's"),
    ],
)
def test_another_file_is_refused_in_one_sentence(convert, write, sentence):
    said = convert(write)
    assert "released.pth: " in said and sentence in said and "Traceback" not in said and said.count("\n") == 1


def test_a_file_that_lacks_what_its_kind_needs_is_refused(convert):
    assert "is no released checkpoint of kind 'x_transformer'" in convert(
        saved({"att_embed.0.weight": torch.ones(2, 2)}), kind="x_transformer"
    )


def test_a_kind_without_released_checkpoints_is_refused(convert):
    assert "unknown kind of model with released checkpoints 'up_dwn'; did you mean 'up_down'" in convert(
        saved(STATE), kind="up_dwn"
    )
