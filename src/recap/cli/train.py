"""``recap train`` and ``recap evaluate``: one stage of one run."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recap.cli.arguments import (
    Arguments,
    Group,
    add_execution,
    add_params_folder,
    chosen,
    given_execution,
    paths,
    spec,
    typed,
)
from recap.cli.parser import Commands, command
from recap.core.errors import ConfigError
from recap.core.log import labelled
from recap.core.process import claim
from recap.plan.labels import row_setting, series_of

if TYPE_CHECKING:
    from recap.settings import ExecutionFile, RunSpec
    from recap.training.short import ShortTraining

FILES = ("corpus", "vocabulary", "subset", "features")
WITH_SPEC = (*FILES, "state", "init", "weights", "execution")
WITH_ROW = ("profile", "scale", "seed", "stage", "set", "inputs", "params")


def add_train(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "train",
        purpose="train one stage of one run, given by a spec or by a table row",
        example="""
            recap train --row mine/t3/wide --scale scenes --set xe.schedule.warmup=20 --set execution.max_steps=10
            recap train --row mine/t3/wide --scale scenes --set execution.overfit_one_batch=true
            recap train --spec spec.json --corpus corpus.parquet --vocabulary vocabulary.json \\
              --subset subset.json --features features.h5 --state work/run --out run
        """,
    )
    whole = parser.add_argument_group("a run of a spec, as the workflow trains it")
    spec(parser, "RunSpec", among=whole)
    add_execution(whole)
    paths(whole, *FILES, required=False)
    paths(whole, state="folder of the resumable state: the same command continues from it", required=False)
    whole.add_argument("--init", type=Path, metavar="PATH", help="run folder whose weights are the start")
    whole.add_argument(
        "--weights", type=Path, metavar="PATH", help="pretrained weights that the model's settings name (.safetensors)"
    )
    _add_row(
        parser.add_argument_group(
            "a row of a table, in this process",
            "Snakemake makes the files that it is trained on, once: in results/single or\n"
            "results/single_SCALE, or, with --profile, where that profile has them. At scale\n"
            "scenes these are 3,300 pictures and a backbone, which takes minutes. The run goes\n"
            "to work/single/runs.",
        )
    )
    paths(parser, out="the run folder (with --row: folder of state and run)", required=False)
    parser.set_defaults(function=partial(train, default=parser.get_default))


def _add_row(group: Group) -> None:
    group.add_argument("--row", metavar="TABLE/ROW", help="row of a table of the parameters")
    group.add_argument("--profile", type=Path, metavar="FILE", help="profile whose files, scale and inputs are used")
    group.add_argument("--scale", metavar="NAME", help="scale of the table (default: the profile's, or none)")
    group.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the run (1)")
    group.add_argument("--stage", choices=["xe", "scst"], help="xe: cross-entropy; scst: self-critical (the row's)")
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="another value, as xe.epochs=1, model.d_model=64, evaluation.beam=1, execution.threads=2; repeat it. "
        "execution.max_steps=N ends after N steps; execution.overfit_one_batch=true takes the first batch at every "
        "step: the loss must go to 0",
    )
    group.add_argument("--inputs", type=Path, metavar="PATH", help="folder of outside files (the profile's)")
    add_params_folder(group)


def train(a: Arguments, default: Callable[[str], Any]) -> None:
    """Train one stage; `default`: name of an argument -> its value where it is not given."""
    if (a.row is None) == (a.spec is None):
        raise ConfigError("give a run with --spec, or a row of a table with --row TABLE/ROW")
    way, other, names = ("--spec", "--row", WITH_ROW) if a.row is None else ("--row", "--spec", WITH_SPEC)
    unused = [f"--{name.replace('_', '-')}" for name in names if getattr(a, name) != default(name)]
    if unused:
        raise ConfigError(f"{way} is not for {', '.join(unused)}, which {other} alone knows; leave them out")
    if a.row is not None:
        from recap.cli.train_row import train_row

        train_row(a)
        return
    missing = [f"--{name}" for name in (*FILES, "state", "out") if getattr(a, name) is None]
    if missing:
        raise ConfigError(f"--spec goes with {', '.join(missing)}")
    files = chosen(a, "corpus vocabulary subset features init weights state out")
    run_training(spec=typed(a, "RunSpec"), execution=given_execution(a), **files)


def run_training(spec: RunSpec, execution: ExecutionFile, **files: Any) -> ShortTraining | None:
    """Train one stage, whole or cut short, in this process or in several that take its place.

    `files` are those of :func:`recap.training.job.train`; a training that is cut short returns what it ends with.
    """
    _refuse_impossible(files["out"])
    _compare(spec, **files)
    become_processes(spec, execution)
    with _labelled(execution, f"{row_setting(spec.model_dump())}/{spec.stage}"):
        if execution.is_short:
            from recap.training.short import train_short

            return train_short(spec=spec, execution=execution, **files)
        from recap.training.job import train as whole

        whole(spec=spec, execution=execution, **files)
    return None


def add_evaluate(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "evaluate",
        purpose="decode a split with a trained run and score the captions",
        example="""
            recap evaluate --spec '{"evaluation": {"beam": 5}}' --corpus corpus.parquet --vocabulary vocabulary.json \\
              --features features.h5 --model run --out scores
        """,
    )
    spec(parser, "EvaluationSpec")
    add_execution(parser)
    paths(parser, "corpus", "vocabulary", "features", "model", out="folder of captions and scores")
    parser.set_defaults(function=evaluate)


def evaluate(a: Arguments) -> None:
    """Decode and score."""
    settings, execution = typed(a, "EvaluationSpec"), given_execution(a)
    _refuse_impossible(a.out)
    claim(execution.device)
    from recap.evaluation.job import evaluate as run

    with _labelled(execution, series_of(a.out)):
        run(spec=settings, execution=execution, **chosen(a, "corpus vocabulary features model out"))


def become_processes(spec: RunSpec, execution: ExecutionFile) -> None:
    """Take the GPUs of a training; where its spec wants several processes, become the torchrun that starts them.

    In a Slurm job of several nodes it becomes the srun that starts a torchrun on each.
    """
    if "WORLD_SIZE" in os.environ:  # one of those processes
        return
    if spec.processes > 1 and "-" in sys.argv:
        raise ConfigError(f"--spec -: {spec.processes} processes cannot all read standard input; name a file")
    here = execution.per_node(spec.processes) if "SLURM_JOB_ID" in os.environ else spec.processes
    claim(execution.device, here)
    if spec.processes > 1:
        nodes = spec.processes // here
        python = [sys.executable, "-P", "-m"]  # without the working folder on the path of modules
        srun, where = _several_nodes(nodes, execution.threads * here) if nodes > 1 else ([], ["--standalone"])
        torchrun = ["torch.distributed.run", *where, "--nproc-per-node", str(here), "--no-python"]
        command = [*srun, *python, *torchrun, *python, "recap", *sys.argv[1:]]
        os.execvp(command[0], command)


def _several_nodes(nodes: int, threads: int) -> tuple[list[str], list[str]]:
    """Return the srun that starts a command on every node, and where its torchruns meet: on this node."""
    with socket.socket() as found:
        found.bind(("", 0))
        port = found.getsockname()[1]
    srun = ["srun", f"--nodes={nodes}", f"--ntasks={nodes}", f"--cpus-per-task={threads}", "--kill-on-bad-exit"]
    meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint={socket.gethostname()}:{port}"]
    return srun, [f"--nnodes={nodes}", *meeting, f"--rdzv-id={os.environ['SLURM_JOB_ID']}"]


def _labelled(execution: ExecutionFile, series: str) -> AbstractContextManager[None]:
    """Return the context in which messages begin with the label of a run, where the workflow gives one."""
    name = series.rpartition("/")[0].rpartition("/")[2]
    return labelled(name, execution.labels.get(series, name))


def _refuse_impossible(out: Path) -> None:
    """Fail now, not after hours, if the output folder cannot be created; nothing is left behind."""
    if os.environ.get("RANK", "0") == "0" and not out.is_dir():  # of several processes the first looks
        out.mkdir(parents=True)
        out.rmdir()


def _compare(spec: RunSpec, *, vocabulary: Path, features: Sequence[Path], init: Path | None, **_: Any) -> None:
    """Fail before the training where the model leaves out vectors, or the run it begins with had other inputs."""
    if os.environ.get("RANK", "0") == "0":
        from recap.runs.vectors import check_vectors

        check_vectors(spec.model_settings, features[0])
        if init is not None:
            from recap.data.vocabulary.words import load_vocabulary
            from recap.features.store import FeatureStore
            from recap.runs.saved import check_inputs

            stores = [FeatureStore(path) for path in features]
            check_inputs(init, vocabulary, load_vocabulary(vocabulary), stores, other_pictures=True)
