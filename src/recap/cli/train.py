"""``recap train``, ``recap evaluate`` and their neighbors: one stage of one run."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from recap.cli.commands import Section, argument, command
from recap.cli.options import PARAMS, Device, Paths, read_execution, snakefile
from recap.core.errors import ConfigError, RecapError
from recap.core.files import write_text
from recap.core.log import LABELS
from recap.core.process import acquire_gpus, ending_with_us, limited_memory
from recap.plan.run import row_setting, series_of

if TYPE_CHECKING:
    from recap.plan.single import SingleRun
    from recap.settings.recipes import ExecutionFile, RunSpec

OF_SPEC = Section("a run of a spec, as the workflow trains it")
OF_ROW = Section(
    "a row of a table, in this process",
    "Snakemake makes the files that it is trained on, once: in results/single or\n"
    "results/single_SCALE, or, with --profile, where that profile has them. At scale\n"
    "scenes these are 3,300 pictures and a backbone, which takes minutes. The run goes\n"
    "to work/single/runs.",
)
CHANGES = (
    "another value, as xe.epochs=1, model.d_model=64, evaluation.beam=1, execution.threads=2; "
    "repeat it. execution.max_steps=N ends after N steps; execution.overfit_one_batch=true takes "
    "the first batch at every step: the loss must go to 0"
)
RELEASED_WORDS = (
    "its words: .txt with one a line, .json, .pkl, or GPT-2's tokenizer (default: those in "
    "--config)"
)
RELEASED_SETTING = "a setting of the model that no file of the release has, as tau=0.2; repeat it"
WEIGHTS = "pretrained weights that the model's settings name (.safetensors)"
SET: dict[str, Any] = {"flag": "--set", "action": "append", "nargs": None, "default": []}
SHOWN = 2  # captions of a first look of --row
NEEDED = ("corpus", "vocabulary", "subset", "features", "state")


@command(
    """
        recap train --row mine/t3/wide --scale scenes --set xe.schedule.warmup=20 \\
          --set execution.max_steps=10
        recap train --row mine/t3/wide --scale scenes --set execution.overfit_one_batch=true
        recap train --spec spec.json --corpus corpus.parquet --vocabulary vocabulary.json \\
          --subset subset.json --features features.h5 --state work/run --out run
    """,
    spec="recipes:RunSpec",
)
def train(
    *,
    spec: Annotated[Any, OF_SPEC] = None,
    execution: Annotated[Path | None, OF_SPEC] = None,
    corpus: Annotated[Path | None, OF_SPEC] = None,
    vocabulary: Annotated[Path | None, OF_SPEC] = None,
    subset: Annotated[Path | None, OF_SPEC] = None,
    features: Annotated[Paths | None, OF_SPEC] = None,
    state: Annotated[Path | None, OF_SPEC] = None,
    init: Annotated[Path | None, "run folder whose weights are the start", OF_SPEC] = None,
    weights: Annotated[Path | None, WEIGHTS, OF_SPEC] = None,
    row: Annotated[str | None, "row of a table of the parameters", "TABLE/ROW", OF_ROW] = None,
    profile: Annotated[
        Path | None, "profile whose files, scale and inputs are used", "FILE", OF_ROW
    ] = None,
    scale: Annotated[
        str | None, "scale of the table (default: the profile's, or none)", OF_ROW
    ] = None,
    seed: Annotated[int, "seed of the run (1)", OF_ROW] = 1,
    stage: Annotated[
        Literal["xe", "scst"] | None, "xe: cross-entropy; scst: self-critical (the row's)", OF_ROW
    ] = None,
    changes: Annotated[Sequence[str], CHANGES, "KEY=VALUE", SET, OF_ROW] = (),
    inputs: Annotated[Path | None, "folder of outside files (the profile's)", OF_ROW] = None,
    params: Annotated[Path, OF_ROW] = PARAMS,
    out: Annotated[Path | None, "the run folder (with --row: folder of state and run)"] = None,
) -> None:
    """Train one stage of one run, given by a spec or by a table row."""
    if (row is None) == (spec is None):
        raise ConfigError("give a run with --spec, or a row of a table with --row TABLE/ROW")
    files: dict[str, Any] = {
        "corpus": corpus,
        "vocabulary": vocabulary,
        "subset": subset,
        "features": features,
        "state": state,
        "init": init,
        "weights": weights,
    }
    config = {"profile": profile, "scale": scale, "seed": seed, "inputs": inputs}
    if row is not None:
        _refuse({**files, "execution": execution}, way="--row", other="--spec")
        train_row(row, params=params, stage=stage, changes=list(changes), out=out, **config)
        return
    of_row = {**config, "stage": stage, "changes": tuple(changes), "params": params}
    _refuse(of_row, way="--spec", other="--row")
    missing = [f"--{name}" for name in NEEDED if files[name] is None]
    if missing or out is None:
        words = missing if out else [*missing, "--out"]
        raise ConfigError(f"--spec goes with {', '.join(words)}")
    run_training(spec=spec, execution=read_execution(execution), out=out, **files)


def _refuse(values: dict[str, Any], *, way: str, other: str) -> None:
    """Refuse options of the other way to name a run, by their parameters."""
    unused = []
    for parameter in train.parameters:
        if parameter.name in values and values[parameter.name] != parameter.default:
            _, word, _ = argument(parameter)
            unused.append(word)
    if unused:
        raise ConfigError(
            f"{way} is not for {', '.join(unused)}, which {other} alone knows; leave them out"
        )


def train_row(
    row: str,
    *,
    params: Path,
    stage: str | None,
    changes: list[str],
    out: Path | None,
    **config_of: Any,
) -> None:
    """Train a row on files that Snakemake makes,
    and print some of its captions; ``config_of``: profile, seed, ..."""
    import yaml

    from recap.plan.outside import missing_files, refuse_missing
    from recap.plan.profiles import row_config
    from recap.plan.single import single_job, single_jobs, single_run

    config = row_config(params, row, **config_of)
    chosen = single_run(config, stage=stage, changes=changes)
    folder = out or chosen.folder
    plan = chosen.plan
    inputs = single_job(chosen).inputs
    # else this is one of several processes, and the first one had them made
    if "WORLD_SIZE" not in os.environ:
        # Outside files of changed settings, too, which no plan of the workflow has.
        refuse_missing(missing_files(plan, single_jobs(chosen)), plan.profile)
        workflow = snakefile("--row")
        configfile = folder / "profile.yaml"
        write_text(configfile, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
        results: list[str] = []
        for names in inputs.values():
            results += [file for file in names if file.startswith(f"{plan.files.results}/")]
        if _snakemake(
            *results, "--snakefile", workflow, "--configfile", configfile, "--cores", "all"
        ):
            raise RecapError(f"{row}: its files could not be made; the messages above say why")
    files: dict[str, Any] = {
        "corpus": Path(inputs["corpus"][0]),
        "vocabulary": Path(inputs["vocabulary"][0]),
        "features": [Path(store) for store in inputs["features"]],
    }
    images = run_training(
        spec=chosen.spec,
        execution=chosen.execution,
        **files,
        subset=Path(inputs["subset"][0]),
        init=Path(inputs["init"][0]).parent if "init" in inputs else None,
        weights=next(map(Path, inputs.get("weights", [])), None),
        state=folder / "state",
        out=folder / "run",
    )
    if os.environ.get("RANK", "0") == "0":
        _print_captions(chosen, folder / "run", images, **files)
        print(f"state and run: {folder}")


def _print_captions(
    chosen: "SingleRun", run: Path, images: Sequence[int], *, corpus: Path, **files: Any
) -> None:
    """Print captions of images, or of the validation split, beside a reference each."""
    from recap.data.corpus import Corpus
    from recap.evaluation.decode import Decoder

    evaluation = chosen.evaluation.evaluation
    decoder = Decoder([run], evaluation, device=chosen.execution.device, **files)
    references = Corpus.read(corpus).captions(None if images else "val")
    shown = list(images or references)[:SHOWN]
    for image, ranked in decoder.candidates(shown, "captions").items():
        print(f"image {image}: {decoder.text(ranked[0])!r} (a reference: {references[image][0]!r})")


def _snakemake(*words: str | Path) -> int:
    """Run Snakemake, whose messages go to standard error, and return its exit status.

    It ends with this process.
    """
    command = ending_with_us([sys.executable, "-P", "-m", "snakemake", *words])
    with subprocess.Popen(command, stdout=2) as process:
        return process.wait()


def run_training(
    spec: "RunSpec", execution: "ExecutionFile", *, state: Path, **files: Any
) -> list[int]:
    """Train one stage, in this process or in several that take its place.

    If it is cut short, return images of it.
    """
    # what cannot be made is heard of now, not after hours
    files["out"].parent.mkdir(parents=True, exist_ok=True)
    become_processes(spec, execution)
    _label(execution, f"{row_setting(spec.model_dump())}/{spec.stage}")
    from recap.training.run import train as train_stage
    from recap.training.run import try_out

    if execution.is_short:
        return try_out(spec=spec, execution=execution, **files)
    train_stage(spec=spec, execution=execution, state=state, **files)
    return []


@command(
    """
        recap evaluate --spec '{"evaluation": {"beam": 5}}' --corpus corpus.parquet \\
          --vocabulary vocabulary.json --features features.h5 --model run --out scores
    """,
    spec="recipes:EvaluationSpec",
)
def evaluate(
    *,
    spec: Any,
    execution: Path | None = None,
    corpus: Path,
    vocabulary: Path,
    features: Paths,
    model: Paths,
    out: Annotated[Path, "folder of captions and scores"],
) -> None:
    """Decode a split with a trained run and score the captions."""
    how = read_execution(execution)
    out.mkdir(parents=True, exist_ok=True)  # what cannot be made is heard of now, not after hours
    acquire_gpus(how.device)
    from recap.evaluation.decode import evaluate as evaluate_run

    _label(how, series_of(out))
    evaluate_run(
        spec=spec,
        execution=how,
        corpus=corpus,
        vocabulary=vocabulary,
        features=features,
        model=model,
        out=out,
    )


def become_processes(spec: "RunSpec", execution: "ExecutionFile") -> None:
    """Take the GPUs of a training; where its spec wants several processes, become the torchrun that
    starts them."""
    if "WORLD_SIZE" in os.environ:  # one of those processes
        return
    if spec.processes > 1 and "-" in sys.argv:
        raise ConfigError(
            f"--spec -: {spec.processes} processes cannot all read standard input; name a file"
        )
    acquire_gpus(execution.device, spec.processes)
    if spec.processes > 1:
        python = [sys.executable, "-P", "-m"]  # without the working folder on the path of modules
        each = ["--standalone", "--nproc-per-node", str(spec.processes), "--no-python"]
        words = [*python, "torch.distributed.run", *each, *python, "recap", *sys.argv[1:]]
        os.execvp(sys.executable, words)


def _label(execution: "ExecutionFile", series: str) -> None:
    """Let messages begin with the label of a run, where the workflow gives one."""
    name = series.rpartition("/")[0].rpartition("/")[2]
    LABELS[name] = execution.labels.get(series, name)


@command(
    """
        recap pretrain-lm --spec '{"texts": ["texts/captions.txt"], "epochs": 2}' \\
          --corpus corpus.parquet --vocabulary vocabulary.json --inputs resources \\
          --state work/lm --out language_model.safetensors
    """,
    spec="models:LanguageModel",
    calls="recap.training.language_model:pretrain_language_model",
)
def pretrain_lm(
    *,
    spec: Any,
    corpus: Path,
    vocabulary: Path,
    inputs: Path,
    state: Path,
    out: Annotated[Path, "the weights (.safetensors); a report is written beside them"],
    device: Device = "auto",
    threads: int = 2,
) -> None:
    """Train a small GPT-2 on texts without pictures, as initial weights of a model."""


@command(
    "recap import-checkpoint transformer model.pth --config infos_transformer.pkl --out "
    "released/transformer"
)
def import_checkpoint(
    kind: Annotated[str, "kind of the model, as in params/models", "KIND"],
    file: Annotated[Path, "the released weights (torch.save or safetensors)", "FILE"],
    *,
    config: Annotated[
        Path | None, "the release's own configuration: config.yml, or infos_*.pkl", "FILE"
    ] = None,
    vocabulary: Annotated[Path | None, RELEASED_WORDS] = None,
    changes: Annotated[Sequence[str], RELEASED_SETTING, "KEY=VALUE", SET] = (),
    dataset: Annotated[str, "data set that it was trained on (coco)"] = "coco",
    out: Annotated[Path, "the run folder"],
) -> None:
    """Turn a paper's released checkpoint into a run, which evaluates and captions like any
    other."""
    from recap.core.documents import parse
    from recap.runs import released

    settings = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not (key and equals):
            raise ConfigError(f"--set {change}: write KEY=VALUE, as tau=0.2")
        settings[key] = parse(value, f"--set {key}")
    with limited_memory(file):
        released.import_checkpoint(
            kind=kind,
            file=file,
            dataset=dataset,
            changes=settings,
            config=config,
            vocabulary=vocabulary,
            out=out,
        )
