"""``recap pretrain-lm``: a language model for captioners to begin with."""

from __future__ import annotations

from pathlib import Path

from recap.cli.arguments import Arguments, add_processor, chosen, paths, spec, typed
from recap.cli.parser import Commands, command
from recap.core.process import claim


def add_pretrain_lm(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "pretrain-lm",
        purpose="train a small GPT-2 on texts without pictures, as initial weights of a model",
        example="""
            recap pretrain-lm --spec '{"texts": ["texts/captions.txt"], "epochs": 2}' --corpus corpus.parquet \\
              --vocabulary vocabulary.json --inputs resources --state work/lm --out language_model.safetensors
        """,
    )
    spec(parser, "LanguageModel")
    paths(parser, "corpus", "vocabulary", "inputs")
    paths(parser, state="folder of the resumable state: the same command continues from it")
    paths(parser, out="the weights (.safetensors); a report is written beside them")
    add_processor(parser)
    parser.set_defaults(function=pretrain_lm)


def pretrain_lm(a: Arguments) -> None:
    """Train a language model."""
    settings = typed(a, "LanguageModel")
    claim(a.device)
    from recap.training.language_model import pretrain_language_model

    files: dict[str, Path] = chosen(a, "corpus vocabulary inputs state out")
    pretrain_language_model(spec=settings, device=a.device, threads=a.threads, **files)
