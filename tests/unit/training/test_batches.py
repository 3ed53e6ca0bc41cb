"""Batches of captions, their order, and reading them ahead."""

import pytest
import torch

from helpers.training import CAPTIONS, IMAGES, Store
from recap.core.threads import prefetch
from recap.data.vocabulary import CaptionIds
from recap.runs.inputs import batch_tensor, caption_tensor
from recap.training.batches import CaptionBatches


def test_batches_cover_each_image_once_in_an_order_of_seed_and_epoch():
    batches = CaptionBatches(features=Store(), captions=CAPTIONS, images_per_batch=5, seed=3)
    order = batches.order(0)
    assert sorted(sum(order, [])) == list(range(IMAGES))
    assert len(order) == len(batches) == 3
    assert order == batches.order(0) != batches.order(1)


def test_an_epoch_of_fewer_steps_begins_as_a_whole_one():
    every = {"features": Store(), "captions": CAPTIONS, "images_per_batch": 5, "seed": 3}
    whole = CaptionBatches(**every)
    short = CaptionBatches(**every, most=2)
    assert len(short) == 2
    assert [short.order(epoch) for epoch in (0, 1)] == [whole.order(epoch)[:2] for epoch in (0, 1)]
    assert CaptionBatches(**every, most=9).order(0) == whole.order(0)
    assert len(CaptionBatches(**every, most=9)) == len(whole)


def test_captions_of_images_in_any_order_are_those_of_each():
    captions = CaptionIds.of({4: [[5, 6], [7]], 2: [[8]], 9: [[5, 5, 5], [], [6]]})
    tokens = batch_tensor(captions, [9, 4, 9])
    assert tokens.dtype == torch.int64
    assert tokens.tolist() == caption_tensor([captions[image] for image in (9, 4, 9)]).tolist()
    assert tokens[1].tolist() == [[1, 5, 6, 2, 0], [1, 7, 2, 0, 0], [0] * 5]
    assert tokens[0].tolist() == [[1, 5, 5, 5, 2], [1, 2, 0, 0, 0], [1, 6, 2, 0, 0]]


def test_reading_ahead_hands_errors_over():
    def items():
        yield 1
        raise OSError("gone")

    reader = prefetch(items())
    assert next(reader) == 1
    with pytest.raises(OSError, match="gone"):
        next(reader)


def test_a_training_that_is_cut_short_has_the_first_batches_or_the_first_one_again():
    whole, few, one = (
        CaptionBatches(features=Store(), captions=CAPTIONS, images_per_batch=5, seed=3)
        for _ in range(3)
    )
    few.cut(5, one_batch=False)
    assert few.order(0) == [*whole.order(0), *whole.order(1)][:5]
    one.cut(4, one_batch=True)
    assert len(one) == 4
    assert all(batch == whole.order(0)[0] for batch in one.order(0))
