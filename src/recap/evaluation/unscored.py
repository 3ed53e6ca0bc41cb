"""Captions of a part of COCO by a trained model or an ensemble, unscored, in the form that COCO's server takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from recap.core.checksums import record
from recap.core.device import select_device
from recap.core.documents import read_json, write_json
from recap.core.errors import DataError, RecapError
from recap.core.hashing import sha256_file, value_hash
from recap.core.log import log
from recap.data.corpus import Corpus
from recap.data.datasets.coco import check_size
from recap.evaluation.decode import best, caption_text, decode_candidates, ending_ids
from recap.metrics.base import sanitize
from recap.plan.identities import job_code
from recap.runs.saved import open_runs, run_model_config
from recap.settings import EvaluationSpec, Execution

PIECE = 2_000  # pictures whose captions are lost, at most, when the search is stopped

Captions = dict[int, str]  # image id -> caption


def caption_part(
    *,
    spec: EvaluationSpec,
    execution: Execution,
    part: str,
    partial: bool,
    corpus: Path,
    vocabulary: Path,
    features: Sequence[Path],
    model: Sequence[Path],
    out: Path,
) -> None:
    """Write one caption of each picture of a part as ``[{"image_id": 1, "caption": "..."}, ...]``, ids rising.

    An interrupted search is taken up after its last finished piece of pictures. `part` is the folder of the pictures'
    names (val2014, test2014), of which a `partial` corpus may have another number than COCO; it needs no captions. Of
    the spec, split and metrics do not count. Several `model` folders are the members of an ensemble.
    """
    settings, device = spec.evaluation, select_device(execution.device)
    torch.set_num_threads(execution.threads)
    images = _images(Corpus.read(corpus), part, partial=partial)
    captioner, sources, vocab = open_runs(
        model, vocabulary=vocabulary, features=features, device=device, other_pictures=True
    )
    sources.require(images)
    endings = ending_ids(settings.rules, vocab)

    def search(ids: list[int]) -> Captions:
        name = f"{part} {ids[0]} to {ids[-1]}, beam {settings.beam}"
        found = best(decode_candidates(captioner, sources, ids, settings, endings, device=device, name=name))
        return {image: sanitize(caption_text(vocab, tokens, settings)) for image, tokens in found.items()}

    made_by = [settings.model_dump(mode="json"), vocab.hash, sources.hash_of(images), _models(model)]
    captions, pieces = _in_pieces(images, search, out, value_hash(made_by))
    _refuse_empty(captions, model[0])
    write_json(out, [{"image_id": image, "caption": caption} for image, caption in captions.items()])
    record(out)
    for piece in pieces:
        piece.unlink()
    log.info(f"{out}: captions of {len(captions):,} pictures of {part}")


def _images(corpus: Corpus, part: str, *, partial: bool) -> list[int]:
    """Return the ids, rising, of the pictures whose names are in the folder of a part."""
    images = [image for image, file in corpus.files().items() if file.startswith(f"{part}/")]
    if not images:
        raise DataError(
            f"{corpus.path}: no picture's name begins with {part}/; take the corpus of COCO with its pictures of 2014"
        )
    check_size(part, len(images), str(corpus.path), partial=partial)
    return images


def _models(folders: Sequence[Path]) -> list[str]:
    """Return what tells models and their code from others."""
    files = [folder / name for folder in folders for name in ("config.yaml", "model.safetensors")]
    kinds = sorted({run_model_config(folder).kind for folder in folders})
    return [*map(sha256_file, files), job_code("recap.evaluation.decode", *kinds)]


def _in_pieces(
    images: list[int], search: Callable[[list[int]], Captions], out: Path, identity: str
) -> tuple[Captions, list[Path]]:
    """Return the captions, each piece searched or read from a file beside ``out``, and those files."""
    captions: Captions = {}
    files = []
    for first in range(0, len(images), PIECE):
        ids, file = images[first : first + PIECE], out.with_name(f".{out.stem}.{first}.json")
        made_by = value_hash([identity, ids])
        found = _read_piece(file, made_by)
        if found is None:
            searched = search(ids)
            found = [searched[image] for image in ids]
            write_json(file, {"made_by": made_by, "captions": found})
        captions |= dict(zip(ids, found, strict=True))
        files.append(file)
    return captions, files


def _read_piece(file: Path, made_by: str) -> list[str] | None:
    """Return the captions of a finished piece; None: there is none, it is damaged, or another search made it."""
    if not file.exists():
        return None
    try:
        piece = read_json(file)
    except RecapError:
        log.warning(f"{file}: damaged; its captions are searched again")
        return None
    return piece["captions"] if isinstance(piece, dict) and piece.get("made_by") == made_by else None


def _refuse_empty(captions: Captions, model: Path) -> None:
    empty = [image for image, caption in captions.items() if not caption]
    if empty:
        raise DataError(
            f"{model}: the caption of image {empty[0]} is empty ({len(empty)} such images of {len(captions)}), which "
            "COCO's server refuses; train the model longer"
        )
