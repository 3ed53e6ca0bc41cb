"""A dozen refusals word for word: whoever changes one of the sentences that users meet most sees it here."""

from collections.abc import Callable
from pathlib import Path

import pytest

from recap.core import errors
from recap.core.device import select_device
from recap.core.errors import RecapError
from recap.data.corpus.corpus import Corpus
from recap.data.files.archives import unpack
from recap.data.files.images import ImageSource
from recap.data.files.json_files import read_jsons
from recap.data.texts import read_texts
from recap.plan.catalog import section_names
from recap.runs.released import import_checkpoint
from recap.settings.params import load_named
from recap.settings.versions import read_versions

NONE = Path("none")
SENTENCES: dict[str, tuple[Callable[[], object], type[RecapError], str]] = {
    "corpus": (
        lambda: Corpus.read(NONE / "corpus.parquet"),
        errors.MissingData,
        "none/corpus.parquet: no such corpus; run `recap data corpus` first",
    ),
    "archive": (
        lambda: unpack(NONE / "a.zip", into=NONE),
        errors.MissingData,
        "none/a.zip: no such archive; fetch it first",
    ),
    "pictures": (
        lambda: ImageSource([NONE]),
        errors.MissingData,
        "none: no such folder or zip of images; correct the paths of the images",
    ),
    "annotations": (
        lambda: read_jsons(NONE / "a.json", "*"),
        errors.MissingData,
        "none/a.json: no such annotation file; correct the key 'annotations' or the inputs folder",
    ),
    "texts": (
        lambda: list(read_texts(NONE / "a.txt")),
        errors.MissingData,
        "none/a.txt: no such file of texts; correct `texts` or the inputs folder",
    ),
    "params": (
        lambda: section_names(NONE, "models"),
        errors.MissingSettings,
        "none: there is no such folder; name that of the parameter files with --params",
    ),
    "outside files": (
        lambda: read_versions(NONE / "data_versions.csv"),
        errors.MissingSettings,
        "none/data_versions.csv: no such list of outside files; say where it is with --list",
    ),
    "checkpoint": (
        lambda: import_checkpoint(kind="xlan", file=NONE / "model.pth", out=NONE / "out"),
        errors.MissingSettings,
        "none/model.pth: no such checkpoint",
    ),
    "name": (
        lambda: load_named(Path("params"), "models", "xlam"),
        errors.UnknownName,
        "params: there is no 'xlam' in models; did you mean 'xlan'?",
    ),
    "device": (lambda: select_device("gpu"), RecapError, "device: there is no 'gpu'; use auto, cpu or cuda"),
}


@pytest.mark.parametrize("each", SENTENCES)
def test_a_refusal_is_told_in_these_words(each):
    act, kind, sentence = SENTENCES[each]
    with pytest.raises(kind) as caught:
        act()
    assert str(caught.value) == sentence
