"""`recap import-checkpoint`: what is read, and what is refused.

The names of papers are in tests/parity.
"""

import argparse
import pickle

import pytest
import torch
from safetensors.torch import save_file

from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.runs.released import read_options, read_vocabulary, released_tensors
from recap.settings.models import RELEASED

STATE = {"word_embed.0.weight": torch.arange(6.0).reshape(3, 2), "logit.bias": torch.ones(3)}


@pytest.fixture
def convert(tmp_path):
    """Return a function that reads a file and returns its tensors, or the sentence that refuses
    it."""

    def run(write, kind="up_down", name="released.pth"):
        write(tmp_path / name)
        try:
            return released_tensors(kind, tmp_path / name)[1]
        except ConfigError as error:
            return str(error)

    return run


@pytest.mark.parametrize(
    "content",
    [
        STATE,
        {"state_dict": STATE, "epoch": 3},
        {f"module.{name}": value for name, value in STATE.items()},
    ],
    ids=["tensors", "within a checkpoint", "of data-parallel training"],
)
def test_a_state_dict_gets_our_names(convert, content):
    found = convert(lambda file: torch.save(content, file))
    assert sorted(found) == ["output.bias", "word_embedding.weight"]
    assert torch.equal(found["word_embedding.weight"], STATE["word_embed.0.weight"])
    assert sorted(convert(lambda file: save_file(STATE, file), name="a.safetensors")) == sorted(
        found
    )


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
        (lambda file: None, "no such weights"),
        (
            lambda file: file.write_text("<html>404</html>"),
            "is damaged, or holds more than tensors",
        ),
        (truncated, "is damaged, or holds more than tensors"),
        (pickled(Harmful()), "is damaged, or holds more than tensors"),
        (saved({"model": Harmful()}), "is damaged, or holds more than tensors"),
        (saved([1, 2]), "'state_dict' is no tensor"),
        (saved({"epoch": 3}), "'epoch' is no tensor"),
        (
            saved({"logit.bias": torch.tensor([float("nan")])}),
            "'logit.bias' is no tensor of finite numbers",
        ),
        (saved({"refiner.weight": torch.ones(1)}), "parameter 'refiner.weight'"),
    ],
)
def test_another_file_is_refused_in_one_sentence(convert, write, sentence):
    said = convert(write)
    assert "released.pth: " in said and sentence in said and "\n" not in said


@pytest.mark.parametrize(
    "write", [lambda file: file.write_text("<html>404</html>"), truncated, pickled({"a": {1, 2}})]
)
def test_a_refused_file_is_told_of_in_our_words_with_what_to_do(convert, write):
    said = convert(write)
    assert "weights_only=False" in said and "safetensors" in said  # what to do
    assert "PyTorch" not in said and "Pytorch" not in said


def test_a_file_that_lacks_what_its_kind_needs_is_refused(convert):
    assert "is no released checkpoint of kind 'x_transformer'" in convert(
        saved({"att_embed.0.weight": torch.ones(2, 2)}), kind="x_transformer"
    )


def shared():
    values = {}
    for _ in range(40):
        values = {"a": values, "b": values}
    return values


def cyclic():
    values = {}
    values["opt"] = values
    return values


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (pickle.dumps({"opt": Harmful()}), "which could run code"),
        (pickle.dumps([1]), "holds no options"),
        (
            pickle.dumps({"opt": argparse.Namespace(a=1)})[:-9],
            "cannot be read as settings or words",
        ),
        (b"cos\nsystem\n(S'false'\ntR.", "names 'os.system', which could run code"),
        (pickle.dumps({"opt": shared()}), "cannot be read"),
        (pickle.dumps(cyclic()), "cannot be read"),
        (b"\x80\x02" + b"}U\x01a" * 100_000 + b"}" + b"s" * 100_000 + b".", "cannot be read"),
        (pickle.dumps({"opt": {"num_heads": 10**10_000}}), "cannot be read"),
        (pickle.dumps({"opt": {10**10_000: 1}}), "cannot be read"),
        (pickle.dumps({"opt": {(1, 2): 1}}), "cannot be read"),
        (b"\x80\x02" + b"(" + b"(t" * 20_000 + b"t.", "more than 10,000 tuples"),
        (
            b"\x80\x04\x8e" + (2**62).to_bytes(8, "little") + b"a.",
            "cannot be read as settings or words",
        ),
        (b"", "cannot be read as settings or words"),
    ],
)
def test_a_pickle_of_options_that_is_none_is_refused(tmp_path, content, sentence):
    file = tmp_path / "infos.pkl"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=sentence) as caught:
        read_options(file)
    assert str(caught.value).startswith(f"{file}: ")


def test_attributes_of_a_dictionary_do_not_stand_in_front_of_its_own(tmp_path):
    file = tmp_path / "infos.pkl"
    file.write_bytes(
        b"\x80\x02}U\x03optccollections\nOrderedDict\n)RU\x01aK\x01s}U\x05itemsK\x03sbs."
    )
    assert read_options(file) == {"a": 1}


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.with_suffix(".pkl").write_bytes(
            pickle.dumps({"vocab": {float("inf"): "a"}})
        ),
        lambda path: path.with_suffix(".pkl").write_bytes(
            pickle.dumps({"vocab": {"1": "a\u2028b", "2": "c"}})
        ),
        lambda path: path.with_suffix(".json").write_text(
            '{"ix_to_word": {"1": "a\\nb", "2": "c"}}'
        ),
        lambda path: path.with_suffix(".txt").write_text("a\nb\x85c\nd\n", encoding="utf-8"),
    ],
)
def test_words_that_are_none_are_refused(tmp_path, write):
    write(tmp_path / "words")
    (file,) = tmp_path.iterdir()
    with refused(ConfigError, file):
        read_vocabulary(file, RELEASED.get("up_down"), max_length=20)


def test_words_of_lines_are_read_whatever_the_last_line_ends_with(tmp_path):
    for text in ("a\nb\nUNK", "a\nb\nUNK\n", "a\r\nb\r\nUNK\r\n"):
        (tmp_path / "words.txt").write_bytes(text.encode())
        words, rows = read_vocabulary(
            tmp_path / "words.txt", RELEASED.get("up_down"), max_length=20
        )
        assert words.words == ["a", "b"] and rows == [0, 0, 0, 3, 1, 2]
