import numpy as np
import pytest

from recap.data.vocabulary import CaptionIds, padded

CAPTIONS = {30: [[5, 6, 7], []], 4: [[8]], 11: [[9, 10], [4], [12, 13, 14, 15]]}


def test_arrays_hold_what_lists_hold_by_rising_image():
    held = CaptionIds.of(CAPTIONS)
    assert list(held) == [4, 11, 30]
    assert dict(held) == CAPTIONS
    assert len(held) == 3
    assert 5 not in held
    assert CaptionIds.of(held) is held
    assert dict(CaptionIds.of({})) == {}


def test_rows_in_any_order_and_repeated_are_grouped_by_image():
    images, lengths = np.array([9, 2, 9, 5]), np.array([2, 1, 0, 3])
    tokens = np.array([11, 12, 21, 51, 52, 53], np.int32)
    result = CaptionIds.by_image(images, lengths, tokens, np.array([2, 0, 1, 0]))
    assert dict(result) == {2: [[21]], 9: [[], [11, 12], [11, 12]]}


def test_a_token_ends_each_caption_and_nothing_else():
    held = CaptionIds.of(CAPTIONS)
    assert dict(held.ended(2)) == {image: [[*row, 2] for row in rows] for image, rows in CAPTIONS.items()}
    assert dict(held) == CAPTIONS


@pytest.mark.parametrize("image", [-1, 5, 10**9])
def test_an_unknown_image_is_named(image):
    with pytest.raises(KeyError, match=str(image)):
        CaptionIds.of(CAPTIONS).places([4, image])


def test_chosen_captions_are_padded():
    lengths, tokens = CaptionIds.of(CAPTIONS).flat(np.array([5, 1, 4]))
    assert padded(lengths, tokens, longest=4).tolist() == [[0] * 4, [9, 10, 0, 0], [5, 6, 7, 0]]
