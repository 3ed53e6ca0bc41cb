"""Runs spice-1.0.jar where its parser models are installed; never downloads, never reports 0 for "not run"."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recap.core.errors import MetricError
from recap.metrics.java import run_java

MODEL_JARS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
NO_MODELS = f"{' and '.join(MODEL_JARS)} are not installed in pycocoevalcap/spice/lib"
# The bundled serialiser (fst 2.47) reaches into these packages, which Java 16 and later close.
_OPENED = ("lang", "math", "util", "util.concurrent", "net", "text", "io", "time")


def spice_status(*, java: Path | None, folder: Path) -> str:
    """Say whether SPICE can run, from files alone: ``ok``, ``no-models`` or, with them, ``no-java``.

    Args:
        java: the executable, or None.
        folder: the folder of spice-1.0.jar.
    """
    if not all((folder / "lib" / name).is_file() for name in MODEL_JARS):
        return "no-models"
    return "no-java" if java is None else "ok"


def spice_scores(
    references: Mapping[int, Sequence[str]],
    hypotheses: Mapping[int, str],
    *,
    java: Path,
    folder: Path,
    timeout_seconds: float,
) -> tuple[float, dict[int, float]]:
    """Score tokenized captions.

    Returns:
        The mean F score and the F score of each image, fractions of 1.

    Raises:
        MetricError: SPICE failed, did not finish in time, or left an image without a number.
    """
    with tempfile.TemporaryDirectory(prefix="recap-spice-") as name:
        scratch = Path(name)
        items = [{"image_id": i, "test": hypotheses[i], "refs": list(references[i])} for i in hypotheses]
        (scratch / "in.json").write_text(json.dumps(items), encoding="utf-8")
        (scratch / "cache").mkdir()
        run_java(
            java=java,
            arguments=[*_options(), "-jar", str(folder / "spice-1.0.jar"), str(scratch / "in.json")]
            + ["-cache", str(scratch / "cache"), "-out", str(scratch / "out.json"), "-subset", "-silent"],
            cwd=scratch,
            timeout_seconds=timeout_seconds,
            what="SPICE",
        )
        per_image = _parse(scratch / "out.json", set(hypotheses))
    return sum(per_image.values()) / len(per_image), {image_id: per_image[image_id] for image_id in hypotheses}


def _options() -> list[str]:
    """Return the JVM options; Java 8 ignores those that it does not know."""
    packages = [f"java.base/java.{package}" for package in _OPENED] + ["java.sql/java.sql"]
    opened = [option for package in packages for option in ("--add-opens", f"{package}=ALL-UNNAMED")]
    return ["-XX:+IgnoreUnrecognizedVMOptions", *opened, "-Xmx8G"]


def _parse(path: Path, expected: set[int]) -> dict[int, float]:
    """Read SPICE's result file: image id -> F score over all tuples."""
    try:
        items: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        scores = {int(item["image_id"]): float(item["scores"]["All"]["f"]) for item in items}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MetricError(f"SPICE ended without a readable result ({type(error).__name__}: {error})") from error
    bad = sorted(expected ^ set(scores)) or sorted(i for i, value in scores.items() if not math.isfinite(value))
    if bad:
        raise MetricError(f"SPICE gave no number for image {bad[0]} ({len(bad)} such images)")
    return scores
