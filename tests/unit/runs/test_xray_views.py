"""From the archives of IU X-ray to a model: both views of a study are read."""

import pytest
import torch

from helpers.backbones import spec
from helpers.model_cases import build_model
from helpers.xray_files import SPEC, names, png, write_iu_xray
from recap.data.corpus import build_corpus
from recap.features.extraction import ExtractionJob
from recap.features.grid import extract_grid
from recap.models.images import InputSpec
from recap.runs.inputs import FeatureSources
from recap.settings.models import MODELS

CELLS, WORDS = 4, 11


def sources_of(folder, **pictures):
    """Return the features of archives whose pictures have other brightness, by name."""
    inputs = write_iu_xray(
        folder / "in",
        images=lambda pngs: pngs.update({f"{name}.png": png(n) for name, n in pictures.items()}),
    )
    build_corpus(name="xrays", spec=SPEC, inputs=inputs, out=folder)
    files = {
        "corpus": folder / "corpus.parquet",
        "images": [folder / "images.zip"],
        "inputs": inputs,
    }
    extract_grid(
        spec(), ExtractionJob(**files, shards=folder / "shards", out=folder / "f.h5", device="cpu")
    )
    return FeatureSources([folder / "f.h5"])


@pytest.mark.parametrize("kind", ["visual_gpt", "transformer"])
def test_another_second_view_gives_other_words_to_that_study_alone(tmp_path, kind):
    first = sources_of(tmp_path / "first")
    other = sources_of(tmp_path / "other", **{names(8)[1]: 200})
    inputs = InputSpec(first.sizes, WORDS)
    torch.manual_seed(0)
    model = build_model(MODELS.classes()[kind].example(), inputs).eval()
    tokens = torch.tensor([[[1, 4, 5]]] * 2)

    def words(sources):
        sources.choose([model], inputs)
        images = sources.read([8, 9])
        assert images.main.values.shape[1] == 2 * CELLS and images.main.mask.all()
        with torch.no_grad():
            return model.log_probabilities(model.decode(tokens, model.encode(images)))

    difference = (words(first) - words(other)).abs().amax((1, 2, 3))
    assert difference[0] > 1e-6 and difference[1] == 0
