"""``recap train --row``: one training of a table's row in this process, on files that Snakemake makes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from recap.cli.options import snakefile
from recap.cli.train import run_training
from recap.core.errors import RecapError
from recap.core.files import write_text
from recap.core.process import ending_with_us
from recap.plan.outside import refuse_missing, requirements
from recap.plan.paths import Paths
from recap.plan.profiles import ROW, row_config, single_run

SHOWN = 2  # captions of a first look


def train_row(
    row: str, *, params: Path, stage: str | None, changes: list[str], out: Path | None, **config_of: Any
) -> None:
    """Train a row, and print some of its captions; ``config_of`` are profile, scale, seed and inputs."""
    config = row_config(params, row, **config_of)
    chosen = single_run(config, stage=stage, changes=changes)
    folder = out or chosen.folder
    model, paths = chosen.spec.model_settings, Paths(chosen.plan)
    inputs = paths.training_inputs(chosen.run, model)
    if "WORLD_SIZE" not in os.environ:  # else this is one of several processes, and the first one had them made
        # Outside files of changed settings, too, which no plan of the workflow has.
        refuse_missing(requirements(paths, model if chosen.run.stage == "xe" else None), paths)
        _make(inputs, f"{paths.results}/", folder / "profile.yaml", config)
    files: dict[str, Any] = {
        "corpus": Path(inputs["corpus"]),
        "vocabulary": Path(inputs["vocabulary"]),
        "features": [Path(store) for store in inputs["features"]],
    }
    images = run_training(
        spec=chosen.spec,
        execution=chosen.execution,
        **files,
        subset=Path(inputs["subset"]),
        init=Path(inputs["init"]).parent if "init" in inputs else None,
        weights=next(map(Path, inputs.get("weights", [])), None),
        state=folder / "state",
        out=folder / "run",
    )
    if os.environ.get("RANK", "0") == "0":
        from recap.data.corpus import Corpus
        from recap.evaluation.decode import Decoder

        corpus, device = Corpus.read(files.pop("corpus")), chosen.execution.device
        decoder = Decoder([folder / "run"], chosen.evaluation.evaluation, device=device, **files)
        references = corpus.captions(None if images else "val")
        for image, ranked in decoder.candidates(list(images or references)[:SHOWN], "captions").items():
            print(f"image {image}: {decoder.text(ranked[0])!r} (a reference: {references[image][0]!r})")
        print(f"state and run: {folder}")


def _make(inputs: dict[str, Any], results: str, configfile: Path, config: dict[str, Any]) -> None:
    """Let Snakemake make those of the files that are results, as it does for a table."""
    workflow = snakefile("--row")
    write_text(configfile, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
    files = [file for each in inputs.values() for file in ([each] if isinstance(each, str) else each)]
    outputs = [file for file in files if file.startswith(results)]
    words: list[str | Path] = ["--snakefile", workflow, "--configfile", configfile, "--cores", "all"]
    command = ending_with_us([sys.executable, "-P", "-m", "snakemake", *outputs, *words])
    with subprocess.Popen(command, stdout=2) as process:  # its messages go to standard error
        if process.wait():
            raise RecapError(f"{config[ROW]}: its files could not be made; the messages above say why")
