"""``recap train --row``: one training of a table's row, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments
from recap.core.errors import ConfigError
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.plan.by_hand import NAME, ByHand, by_hand
from recap.plan.row_settings import data_parts
from recap.plan.run import Run
from recap.settings.language_models import LANGUAGE_MODEL
from recap.settings.vocabulary import HUB

Command = Callable[[list[str]], None]  # runs the words of a `recap` command


def train_row(a: Arguments, run_command: Command) -> None:
    """Train a row; data and features of finished profiles are used, and what is missing is made where it can be.

    Args:
        a: the arguments of ``recap train``.
        run_command: runs another `recap` command in this process.

    Raises:
        RecapError: a name, key or value is refused, or files are missing; the sentence says how to make them.
    """
    chosen = by_hand(a.params, a.row, scale=a.scale, seed=a.seed, stage=a.stage, changes=a.set)
    files = Files(chosen, a.inputs, run_command)
    found = {name: getattr(files, name)() for name in ("corpus", "vocabulary", "subset", "features", "init", "weights")}
    from recap.runs.vectors import check_vectors
    from recap.training.by_hand import train_by_hand

    check_vectors(chosen.spec.model_settings, found["features"][0])
    out = a.out or folder(a.row, chosen.run)
    shown = train_by_hand(
        spec=chosen.spec,
        execution=chosen.execution,
        evaluation=chosen.evaluation.evaluation,
        **found,
        steps=a.steps,
        overfit_one_batch=a.overfit_one_batch,
        out=out,
    )
    print(shown.text())
    print(f"state and run: {out}")


def folder(row: str, run: Run) -> Path:
    """Return the folder of a row's training by hand."""
    return Path("work") / NAME / row / f"seed-{run.seed}" / run.stage


@dataclass
class Files:
    """The files of a training: those below results/, or made below work/by_hand by the commands of the workflow.

    Args:
        chosen: the training.
        inputs: folder of outside files, or None.
        run_command: runs a command.
    """

    chosen: ByHand
    inputs: Path | None
    run_command: Command

    def corpus(self) -> Path:
        """Return the captions of the data set."""
        name = self.chosen.run.dataset

        def make(file: Path) -> None:
            spec = self._spec("datasets", name)
            spec.pop("vocabulary")
            self._run(
                "data", "corpus", "--name", name, "--spec", spec, "--inputs", self._inputs(), "--out", file.parent
            )

        return self._file(f"data/{name}/corpus.parquet", make)

    def vocabulary(self) -> Path:
        """Return the vocabulary of the data set."""

        def make(file: Path) -> None:
            spec = self._spec("datasets", self.chosen.run.dataset)["vocabulary"]
            words = ["--corpus", self.corpus(), "--spec", spec, "--inputs", self._inputs(), "--out", file]
            self._run("data", "vocabulary", *words)

        return self._file(f"data/{self.chosen.run.dataset}/vocabulary.json", make)

    def subset(self) -> Path:
        """Return the training captions that the run sees."""
        run = self.chosen.run

        def make(file: Path) -> None:
            words = ["--name", run.subset, "--spec", self._spec("subsets", run.subset), "--seed", run.seed]
            self._run("data", "subset", "--corpus", self.corpus(), *words, "--out", file)

        return self._file(f"data/{run.dataset}/subsets/{run.subset}/seed-{run.seed}.json", make)

    def features(self) -> list[Path]:
        """Return the feature stores."""
        return [self._store(name) for name in self.chosen.plan.feature_names(self.chosen.run.features)]

    def init(self) -> Path | None:
        """Return the run folder of the cross-entropy stage, for a second stage."""
        chosen = self.chosen
        if chosen.run.stage == "xe":
            return None
        first = chosen.plan.first_stage(chosen.run)
        found = [path.parent for path in sorted(Path("results").glob(f"*/runs/{first.path}/model.safetensors"))]
        own = folder(chosen.row, first) / "run"
        found += [own] if (own / "model.safetensors").exists() else []
        if not found:
            raise ConfigError(
                f"stage {chosen.run.stage} begins with the weights of {first.path}, which are not made yet; train the "
                "row with --stage xe first, or let snakemake make it"
            )
        log.info(f"begins with the weights of {found[0]}")
        return found[0]

    def weights(self) -> Path | None:
        """Return the pretrained weights that the model begins with; those from the hub are fetched by the training."""
        run = self.chosen.run
        source = self.chosen.spec.model_settings.pretrained_weights()
        if source is None or source.startswith(HUB) or run.stage == "scst":
            return None
        if not source.startswith(LANGUAGE_MODEL):
            return self._inputs() / source
        name = source.removeprefix(LANGUAGE_MODEL)

        def make(file: Path) -> None:
            spec = self._spec("language_models", name)
            if spec["texts"] and self.inputs is None:
                raise self._missing(file, f"language model {name!r} has outside files")
            words = ["--corpus", self.corpus(), "--vocabulary", self.vocabulary(), "--inputs", self._inputs()]
            compute = ["--device", self.chosen.execution.device, "--threads", 2]
            state = file.with_suffix(".state")
            self._run("pretrain-lm", "--spec", spec, *words, *compute, "--state", state, "--out", file)

        return self._file(f"features/{run.dataset}/{name}.language_model.safetensors", make)

    def _store(self, name: str) -> Path:
        dataset = self.chosen.run.dataset

        def make(file: Path) -> None:
            spec, shards = self._spec("features", name), file.with_suffix(".shards")
            if spec["kind"] == "pooled":
                settings = self.chosen.plan.get("features", name)
                products = [self.corpus().with_name(product) for product in settings.products()]
                words = ["--corpus", self.corpus(), "--inputs", self._inputs()]
                words += ["--cells", self._store(settings.cells_from())]
                words += ["--products", *products] if products else []
                self._run("features", "extract", "--spec", spec, *words, "--shards", shards, "--out", file)
                return
            if spec["kind"] != "grid":
                raise self._missing(file, f"features of kind {spec['kind']!r} are not made by hand")
            images = self._images()
            compute = ["--device", self.chosen.execution.device, "--threads", 2]
            trained: list[Any] = []
            if spec["weights"] == "boxes":
                weights = file.with_suffix(".backbone.safetensors")
                if not weights.exists():
                    boxes = ["--boxes", self.corpus().with_name("boxes.json"), "--images", *images, *compute]
                    self._run("features", "pretrain", "--spec", spec, *boxes, "--out", weights)
                trained = ["--trained", weights]
            words = ["--corpus", self.corpus(), "--images", *images, "--inputs", self._inputs(), *trained, *compute]
            self._run("features", "extract", "--spec", spec, *words, "--shards", shards, "--out", file)

        return self._file(f"features/{dataset}/{name}.h5", make)

    def _images(self) -> list[Path]:
        """Return what holds the pictures: the packed ones beside the corpus, or those of outside."""
        packed = self.corpus().with_name("images.zip")
        if packed.exists():
            return [packed]
        return [self._inputs() / name for name in self._spec("datasets", self.chosen.run.dataset)["images"]]

    def _file(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return a file of a finished profile, or the one made by hand, which is made first if it is not there."""
        found = sorted(Path("results").glob(f"*/{name}"))
        if found:
            log.info(f"{found[0]}: taken")
            return found[0]
        own = Path("work") / NAME / f"files-{self._settings_hash()}" / name
        if not own.exists():
            kind = self.chosen.plan.get("datasets", self.chosen.run.dataset).kind
            if self.inputs is None and kind != "scenes":
                raise self._missing(name, f"data set {self.chosen.run.dataset!r} has outside files")
            log.info(f"{own}: made first, because no profile in results/ has it; the next training takes it from there")
            own.parent.mkdir(parents=True, exist_ok=True)
            make(own)
        return own

    def _settings_hash(self) -> str:
        """Return the hash of all that files made by hand depend on, so that none of other settings is taken."""
        parts = data_parts(self.chosen.plan, self.chosen.run, self.chosen.spec.model_settings)
        return value_hash([self._spec(section, name) for section, name in parts])

    def _missing(self, file: Path | str, why: str) -> ConfigError:
        return ConfigError(
            f"{file}: in none of results/, and {why}; give the folder of the outside files with --inputs, or take a "
            "profile with this row: snakemake data_all features_all --cores all --configfile params/PROFILE.yaml"
        )

    def _inputs(self) -> Path:
        return self.inputs or Path("resources")

    def _spec(self, section: str, name: str) -> dict[str, Any]:
        return self.chosen.plan.spec(section, name)

    def _run(self, *words: Any) -> None:
        """Run a command of the workflow's rules."""
        self.run_command([json.dumps(word) if isinstance(word, dict) else str(word) for word in words])
