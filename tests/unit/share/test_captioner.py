"""A photo gets the caption that the workflow gave it, in whatever form and batch it comes."""

import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.refusals import refused
from recap.core.errors import ConfigError, DataError
from recap.data.corpus import Corpus
from recap.features.store import FeatureStore
from recap.settings.recipes import DecodingSettings
from recap.share.captioner import FailedPhoto, PhotoFeatures
from recap.share.photos import read_photo
from recap.share.run_files import find_run_files

pytestmark = pytest.mark.seconds

# of log-probabilities: batches of other sizes sum
# in another order, and features are stored in float16
CLOSE = 1e-3


def test_a_picture_of_the_test_split_gets_the_caption_that_the_evaluation_gave_it(
    results, photos, captioner
):
    given = {}
    for line in (results.scores / "nbest.test.jsonl").read_text().splitlines():
        row = json.loads(line)
        given.setdefault(row["image_id"], []).append(row)
    assert set(given) == set(photos)
    scores = sorted(rows[0]["log_probability"] for rows in given.values())
    assert scores[-1] - scores[0] > 20 * CLOSE  # else any picture would do
    found = captioner.captions(photos.values(), n_best=2)
    for image, result in zip(photos, found, strict=True):
        assert [caption.text for caption in result.captions] == [
            row["caption"] for row in given[image]
        ]
        expected = [row["log_probability"] for row in given[image]]
        assert [caption.log_probability for caption in result.captions] == pytest.approx(
            expected, abs=CLOSE
        )
    assert captioner.decoding.beam == 4 and captioner.decoding.rules.no_repeated_ngram == 2


def test_photos_in_the_batches_of_the_extraction_have_the_bits_of_the_store(results, captioner):
    table, store = Corpus.read(results.data / "corpus.parquet"), FeatureStore(results.store)
    files = find_run_files(results.run)
    encoder = PhotoFeatures(files.extractors, files.vocabulary, torch.device("cpu"))
    with zipfile.ZipFile(results.data / "images.zip") as archive:
        pictures = [
            [Image.open(io.BytesIO(archive.read(table.files()[image]))).convert("RGB")]
            for image in range(4)
        ]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        made = encoder.read(pictures, captioner.model).main
        alone = torch.cat(
            [encoder.read([views], captioner.model).main.values for views in pictures]
        )
    finally:
        torch.set_num_threads(threads)
    values, mask = store.read(range(4))
    assert torch.equal(made.values, values) and torch.equal(made.mask, mask)
    torch.testing.assert_close(alone, values, rtol=2e-3, atol=1e-4)  # a step of float16 at most


def test_the_size_of_a_batch_does_not_matter(photos, captioner):
    whole = captioner.captions(photos.values(), n_best=4, batch_size=3)
    for batch_size in (1, 4, 100):
        other = captioner.captions(photos.values(), n_best=4, batch_size=batch_size)
        for one, two in zip(whole, other, strict=True):
            assert one.photo == two.photo and one.caption == two.caption
            scores = [
                [caption.log_probability for caption in result.captions] for result in (one, two)
            ]
            assert scores[0] == pytest.approx(scores[1], abs=CLOSE)


def test_a_path_a_picture_and_an_array_are_the_same_photo(photo, captioner):
    picture = Image.open(photo)
    given = [photo, str(photo), picture, picture.convert("RGB"), np.asarray(picture.convert("RGB"))]
    found = captioner.captions(given)
    assert {result.caption for result in found} == {captioner(photo)}
    assert [result.photo for result in found] == [str(photo)] * 3 + ["picture 4", "array 5"]


def test_a_wider_search_finds_no_worse_caption_and_n_best_must_fit(photo, captioner):
    narrow, wide = (captioner.captions([photo], beam=beam)[0] for beam in (1, 4))
    assert len(wide.captions) == 1 and wide.log_probability >= narrow.log_probability - CLOSE
    with refused(ConfigError, "captions: ", "beam of 2", "3", "n_best"):
        captioner.captions([photo], beam=2, n_best=3)
    with refused(ConfigError, "batch_size"):
        captioner.captions([photo], batch_size=0)
    with refused(DataError, "n_best", "1"):
        captioner.captions([photo], n_best=0)


def test_samples_are_equal_for_a_seed_whatever_else_is_captioned(photos, captioner):
    paths = list(photos.values())
    options = {"sample": 5, "temperature": 2.0, "seed": 3}
    whole = captioner.captions(paths, **options)
    assert all(len({caption.text for caption in result.captions}) > 1 for result in whole)
    for place, path in enumerate(paths):
        (alone,) = captioner.captions([path], **options)
        assert [caption.text for caption in alone.captions] == [
            caption.text for caption in whole[place].captions
        ]
    other = captioner.captions(paths, **{**options, "seed": 4})
    assert [result.captions for result in other] != [result.captions for result in whole]


def test_samples_at_a_low_temperature_are_the_caption_of_the_narrowest_search(
    photos, captioner, monkeypatch
):
    # The search has a rule that samples do not have.
    monkeypatch.setattr(
        captioner, "decoding", DecodingSettings(max_length=captioner.decoding.max_length)
    )
    greedy = captioner.captions(photos.values(), beam=1)
    samples = captioner.captions(photos.values(), sample=2, temperature=0.001)
    for searched, drawn in zip(greedy, samples, strict=True):
        assert [caption.text for caption in drawn.captions] == [searched.caption] * 2
        found = [caption.log_probability for caption in drawn.captions]
        assert found == pytest.approx([searched.log_probability] * 2, abs=CLOSE)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"sample": 0}, "sample"),
        ({"sample": 2, "beam": 3}, "beam"),
        ({"sample": 2, "n_best": 2}, "n_best"),
        ({"sample": 2, "temperature": 0.0}, "temperature"),
        ({"sample": 2, "temperature": float("nan")}, "temperature"),
        ({"temperature": 0.5}, "sample"),
        ({"seed": 1}, "sample"),
    ],
)
def test_nonsense_about_samples_is_one_sentence(options, named, photo, captioner):
    with refused(ConfigError, named):
        captioner.captions([photo], **options)


def test_views_of_one_thing_have_one_caption(photos, captioner):
    first, second = list(photos.values())[:2]
    (result,) = captioner.captions([(first, second)])
    assert result.photo == f"{first} + {second}" and result.caption
    assert captioner.views == 1
    with refused(DataError, "tuple 1"):
        captioner(())


def test_a_photo_whose_features_are_not_finite_is_named_and_the_others_keep_their_captions(
    photos, captioner, monkeypatch
):
    (encoder,) = captioner.features._encoders
    path = list(photos.values())[1]
    bad, encode = Image.open(path).convert("RGB"), type(encoder).__call__
    spoiled = encoder.prepare(0, [bad]).pixels

    def spoil(self, items):
        for record, item in zip(encode(self, items), items, strict=True):
            factor = np.nan if np.array_equal(item.pixels, spoiled) else 1.0
            yield replace(record, values=record.values * factor)

    expected = captioner.captions(photos.values())
    monkeypatch.setattr(type(encoder), "__call__", spoil)
    found = list(captioner.stream(photos.values(), batch_size=3))
    failed = found.pop(1)
    assert isinstance(failed, FailedPhoto) and failed.reason.startswith(
        f"{path}: grid/values hold NaN"
    )
    assert [result.caption for result in found] == [
        result.caption for result in expected[:1] + expected[2:]
    ]


def test_only_a_very_large_photo_is_halved(photo, monkeypatch):
    whole = read_photo(photo, "a")
    monkeypatch.setattr("recap.share.photos.MOST_PIXELS", whole.width * whole.height)
    assert read_photo(photo, "a").tobytes() == whole.tobytes()
    monkeypatch.setattr("recap.share.photos.MOST_PIXELS", whole.width * whole.height - 1)
    assert read_photo(photo, "a").tobytes() == whole.reduce(2).tobytes()
