"""``recap import-checkpoint``: a released checkpoint as safetensors with our names."""

from __future__ import annotations

from pathlib import Path

from recap.cli.arguments import Arguments, paths
from recap.cli.parser import Commands, command


def add_import_checkpoint(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "import-checkpoint",
        purpose="turn a paper's released checkpoint into safetensors with the names of our model",
        example="recap import-checkpoint transformer model.pth --out transformer.safetensors",
    )
    parser.add_argument("kind", metavar="KIND", help="kind of the model, as in params/models")
    parser.add_argument("file", type=Path, metavar="FILE", help="the released file (torch.save or safetensors)")
    paths(parser, out="the safetensors")
    parser.set_defaults(function=_import_checkpoint)


def _import_checkpoint(a: Arguments) -> None:
    from recap.runs.released import import_checkpoint

    import_checkpoint(kind=a.kind, file=a.file, out=a.out)
