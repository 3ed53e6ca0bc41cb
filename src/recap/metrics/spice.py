"""SPICE (Anderson et al. 2016) by its jar where its parser models are installed.

It downloads nothing by itself.
"""

from __future__ import annotations

import json
import math
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from recap.core.errors import MetricError
from recap.core.files import atomic_path
from recap.core.log import log
from recap.metrics.base import Captions, Gap
from recap.metrics.coco import CocoMetric
from recap.metrics.java import java_program, package_folder

if TYPE_CHECKING:
    from recap.data.files.download import Transfer
    from recap.settings.versions import OutsideFile

# One file in each that SPICE always needs: a jar may be a whole zip without it.
MODEL_JARS = {
    "stanford-corenlp-3.6.0.jar": "edu/stanford/nlp/pipeline/StanfordCoreNLP.class",
    "stanford-corenlp-3.6.0-models.jar": (
        "edu/stanford/nlp/models/pos-tagger/english-left3words/english-left3words-distsim.tagger"
    ),
}
SPICE_MODELS = tuple(f"spice/{jar}" for jar in MODEL_JARS)  # in the list of outside files
# The bundled serialiser (fst 2.47) reaches into these packages,
# which Java 16 and later close; Java 8 knows no option.
_OPENED = ("lang", "math", "util", "util.concurrent", "net", "text", "io", "time")
_JVM_OPTIONS = [
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED),
    "--add-opens=java.sql/java.sql=ALL-UNNAMED",
    "-Xmx8G",
]


class Spice(CocoMetric):
    """F score over all tuples; the score of the corpus is the mean."""

    names: ClassVar[tuple[str, ...]] = ("SPICE",)
    needs: ClassVar[frozenset[Literal["java", "pictures"]]] = frozenset({"java"})

    def _compute(self, captions: Captions) -> Sequence[tuple[float, Sequence[float]]]:
        if missing := spice_models_missing():
            raise missing
        texts = captions.tokenized
        items = [
            {"image_id": i, "test": texts.hypotheses[i], "refs": texts.references[i]}
            for i in captions.ids
        ]
        with TemporaryDirectory(prefix="recap-spice-") as name:
            scratch = Path(name)
            source = scratch / "in.json"
            cache = scratch / "cache"
            result = scratch / "out.json"
            source.write_text(json.dumps(items), encoding="utf-8")
            cache.mkdir()
            jar = package_folder("spice") / "spice-1.0.jar"
            arguments = [*_JVM_OPTIONS, "-jar", str(jar), str(source), "-cache", str(cache)]
            arguments += ["-out", str(result), "-subset", "-silent"]
            with java_program(arguments, java=captions.java, cwd=scratch, what="SPICE") as spice:
                spice.finish()
            try:
                entries: list[dict[str, Any]] = json.loads(result.read_text(encoding="utf-8"))
                scores = {
                    int(entry["image_id"]): float(entry["scores"]["All"]["f"]) for entry in entries
                }
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise MetricError(
                    f"SPICE ended without a readable result ({type(error).__name__}: {error})"
                ) from error
        if bad := [i for i in captions.ids if not math.isfinite(scores.get(i, math.nan))]:
            raise MetricError(f"SPICE gave no number for image {bad[0]} ({len(bad)} such images)")
        return [(sum(scores.values()) / len(scores), [scores[i] for i in captions.ids])]


def spice_models_missing() -> MetricError | None:
    """Return the error about the model that pycocoevalcap lacks or has damaged, if any."""
    try:
        for jar in MODEL_JARS:
            _check(package_folder("spice") / "lib" / jar)
    except MetricError as error:
        return error
    return None


def _check(jar: Path) -> None:
    """Refuse a jar that lacks what SPICE needs of it.

    No checksum of it is published in the list of outside files.
    """
    if not jar.is_file():
        # without the folder: a gap is published with the run, and the folder is this machine's
        raise Gap(f"{jar.name} is not installed; run `recap data spice`")
    if zipfile.is_zipfile(jar):
        with zipfile.ZipFile(jar) as archive:
            if MODEL_JARS[jar.name] in archive.namelist():
                return
    raise MetricError(
        f"{jar}: is damaged, it holds no {MODEL_JARS[jar.name]}; remove {jar.name} from "
        f"{package_folder('spice')}/lib and, with its .fetched.json, from spice/ of the inputs "
        "folder, and run `recap data spice` again"
    )


def install_spice_models(
    files: Mapping[str, OutsideFile], *, into: Path, transfer: Transfer
) -> list[Path]:
    """Fetch and verify the models in the profile's inputs,
    copy those that pycocoevalcap lacks, return their places."""
    from recap.data.files.fetch import fetch_files

    places = []
    for fetched in fetch_files(
        [files[name] for name in SPICE_MODELS], into=into, transfer=transfer
    ):
        place = package_folder("spice") / "lib" / fetched.path.name
        _check(fetched.path)
        # One of another size was left by a download that was cut.
        if not place.is_file() or place.stat().st_size != fetched.path.stat().st_size:
            with atomic_path(place) as temporary:
                shutil.copyfile(fetched.path, temporary)
            log.info(f"{place}: installed from {fetched.path} (checked: {fetched.checked})")
        places.append(place)
    return places
