"""``recap import-checkpoint``: a released checkpoint as a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, chosen, paths
from recap.cli.parser import Commands, command
from recap.core.errors import ConfigError
from recap.core.process import limited_memory


def add_import_checkpoint(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "import-checkpoint",
        _import_checkpoint,
        purpose="turn a paper's released checkpoint into a run, which evaluates and captions like any other",
        example="""
            recap import-checkpoint transformer model.pth --config infos_transformer.pkl --out released/transformer
        """,
    )
    parser.add_argument("kind", metavar="KIND", help="kind of the model, as in params/models")
    parser.add_argument("file", type=Path, metavar="FILE", help="the released weights (torch.save or safetensors)")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="the release's own configuration: config.yml, or infos_*.pkl"
    )
    parser.add_argument(
        "--vocabulary",
        type=Path,
        metavar="PATH",
        help="its words: .txt with one a line, .json, .pkl, or GPT-2's tokenizer (default: those in --config)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the model that no file of the release has, as tau=0.2; repeat it",
    )
    parser.add_argument("--dataset", default="coco", metavar="NAME", help="data set that it was trained on (coco)")
    paths(parser, out="the run folder")


def _import_checkpoint(a: Arguments) -> None:
    from recap.runs.released import import_checkpoint

    with limited_memory(a.file):
        import_checkpoint(**chosen(a, "kind file config vocabulary dataset out"), changes=dict(map(_change, a.set)))


def _change(text: str) -> tuple[str, Any]:
    from recap.core.documents import parse

    key, equals, value = text.partition("=")
    if not (key and equals):
        raise ConfigError(f"--set {text}: write KEY=VALUE, as tau=0.2")
    return key, parse(value, f"--set {key}")
