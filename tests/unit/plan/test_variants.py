"""Names of variants as parts of paths."""

import pytest

from recap.plan.scaling import LONGEST, variant_name


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "m"),
        ({"b": 2, "a": "relu"}, "m+a=relu,b=2"),
        ({"xe": {"epochs": 1, "schedule": {"learning_rate": 5e-05}}}, "m+xe.epochs=1,xe.schedule.learning_rate=5e-05"),
        ({"on": True, "off": None}, "m+off=null,on=true"),
        ({"betas": [0.9, 0.999]}, "m+betas=0.9_0.999"),
    ],
)
def test_changes_are_readable_in_a_name(changes, name):
    assert variant_name("m", changes) == name


def test_values_that_a_path_cannot_hold_are_told_apart_by_a_hash():
    first, second = (variant_name("m", {"words": words}) for words in (["a b", "c"], ["a/b", "c"]))
    assert first != second
    for name in (first, second):
        assert name.startswith("m+words=a-b_c+")
        assert not set(name) & set(" /@{}'\"$&%")


def test_long_names_are_cut_between_keys_and_told_apart_by_a_hash():
    changes = {f"a_rather_long_key_{number}": number for number in range(20)}
    name, other = variant_name("m", changes), variant_name("m", {**changes, "a_rather_long_key_19": 0})
    assert name != other
    assert len(name) <= LONGEST
    head, digest = name.rsplit("+", 1)
    assert head.startswith("m+a_rather_long_key_0=0,") and head.rsplit("=", 1)[1].isdigit()
    assert len(digest) == 8
