"""Builds the signature that is stored with every score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from recap.core.hashing import format_signature


def signature(
    *,
    tokenizer: str,
    references: str,
    images: int,
    split: str,
    split_hash: str,
    decoding: Any,
    versions: Mapping[str, str] | None = None,
) -> str:
    """Return how a score was made, e.g. ``pycocoevalcap:1.2|tok:ptb|refs:5|images:1000|split:test@ab12|beam:3|...``.

    Args:
        tokenizer: ``ptb`` or ``simple``.
        references: captions per image, ``5`` or ``4-7`` (see :func:`reference_range`).
        images: number of images scored.
        split: ``val`` or ``test``.
        split_hash: the corpus's hash of which image is in which split.
        decoding: how the captions were searched, `DecodingSettings`, or which file they are from, `OutsideCaptions`.
        versions: fields that say which versions of metrics scored, beside pycocoevalcap's.
    """
    return format_signature(
        {
            "pycocoevalcap": version("pycocoevalcap"),
            **(versions or {}),
            "tok": tokenizer,
            "refs": references,
            "images": str(images),
            "split": f"{split}@{split_hash}",
            **decoding.signature,
            "recap": version("recap"),
        }
    )


def reference_range(references: Mapping[int, Sequence[str]]) -> str:
    """Return how many references an image has: ``5``, or ``4-7`` where images differ."""
    counts = [len(captions) for captions in references.values()]
    return str(counts[0]) if min(counts) == max(counts) else f"{min(counts)}-{max(counts)}"
