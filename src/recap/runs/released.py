"""Released checkpoints: what a paper says of its own (names, settings, words, and what is not
needed), and the way from the files of the authors to the folder of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from torch import Tensor

from recap.core.checksums import record
from recap.core.documents import read_json, read_mapping, write_json
from recap.core.errors import ConfigError, RecapError, first_line
from recap.core.files import reading, write_text
from recap.core.hashing import sha256_file
from recap.core.log import log
from recap.data.files.pickles import read_plain_pickle
from recap.data.tokenizer import is_storable, one_line
from recap.data.vocabulary import BOS, PAD, SPECIAL, AnyVocabulary, Vocabulary, load_byte_pairs
from recap.features.tensors import read_tensors
from recap.models.base import build_model
from recap.models.images import InputSpec
from recap.runs.folder import CONFIG, WEIGHTS, misfit, save_weights
from recap.settings import Model, ModelConfig
from recap.settings.models import RELEASED
from recap.settings.params import flat, validate
from recap.settings.recipes import DecodingSettings

ANNOTATED = {
    r"^att_embed\.0\.": "feature_embedding.",
    r"^model\.tgt_embed\.0\.lut\.": "word_embedding.",
    r"^model\.generator\.proj\.": "output.",
    r"^model\.(encoder|decoder)\.norm\.": r"\1_norm.",
    r"^model\.(encoder|decoder)\.layers\.(\d+)\.": r"\1.\2.",
    r"\.self_attn\.": ".attention.",
    r"\.src_attn\.": ".cross.",
    r"\.feed_forward\.w_1\.": ".feed_forward.inner.",
    r"\.feed_forward\.w_2\.": ".feed_forward.outer.",
    r"\.sublayer\.0\.": ".around_attention.",
    r"^(encoder\.\d+)\.sublayer\.1\.": r"\1.around_feed_forward.",
    r"^(decoder\.\d+)\.sublayer\.1\.": r"\1.around_cross.",
    r"^(decoder\.\d+)\.sublayer\.2\.": r"\1.around_feed_forward.",
    r"\.a_2$": ".weight",
    r"\.b_2$": ".bias",
}
"""Names of a Transformer in the Annotated Transformer's form, as ImageCaptioning.pytorch has it."""


def rename_annotated(state: Mapping[str, Tensor], projections: Sequence[str]) -> dict[str, Tensor]:
    """Map the names of a Transformer in the Annotated Transformer's form to ours.

    `projections` are our names of an attention's `linears.0`, `linears.1` and so on.
    """
    linears = {rf"\.linears\.{index}\.": f".{ours}." for index, ours in enumerate(projections)}
    return rename(state, ANNOTATED | linears)


def rename(state: Mapping[str, Tensor], rules: Mapping[str, str]) -> dict[str, Tensor]:
    """Apply all rules (pattern and replacement) to every name,
    in order; a name that none applies to is refused.

    A tensor whose new name has alternatives, such as `query+key+value`, is cut into as many parts.
    """
    renamed: dict[str, Tensor] = {}
    for name, value in state.items():
        ours = name
        for pattern, replacement in rules.items():
            ours = re.sub(pattern, replacement, ours)
        if ours == name:
            raise ConfigError(
                f"parameter {name!r}, {[*value.shape]}, is none of those that the release has; "
                "docs/guides/released_checkpoints.md lists what can be read"
            )
        joined = max(ours.split("."), key=lambda part: part.count("+"))
        parts = joined.split("+")
        for part, rows in zip(parts, value.chunk(len(parts)), strict=True):
            renamed[ours.replace(joined, part)] = rows
    return renamed


Tensors = Mapping[str, Tensor]
Options = Mapping[str, Any]  # of the release's configuration; nested keys are joined by dots
# Options of the releases' searches,
# a later one before an earlier one -> keys of `DecodingSettings`.
SEARCH = {"INFERENCE.BEAM_SIZE": "beam", "MODEL.SEQ_LEN": "max_length"}
SEARCH |= {"seq_length": "max_length", "max_length": "max_length"}
BUFFERS = {r"(^|\.)running_\w+$": "a buffer of its decoding"}
SINUSOID = {r"model\.tgt_embed\.1\.pe": "the table of positions, which is computed"}


@dataclass(frozen=True, kw_only=True)
class Release:
    """A paper's released checkpoints."""

    #: from tensors by their released names to tensors by ours
    rename: Callable[[Tensors], dict[str, Tensor]]
    #: from tensors by our names, and the release's options, to the keys of our model's settings
    settings: Callable[[Tensors, Options], dict[str, Any]]
    #: keys of `DecodingSettings` as the release decodes, if its options do not say
    decoding: Mapping[str, Any]
    #: the rows of its word tables. end_first: begin, end and padding are row 0, the unknown word is
    #: the last;
    #: torchtext: <unk>, <pad>, <bos>, <eos>, words; byte_pairs: GPT-2's pieces.
    words: Literal["end_first", "torchtext", "byte_pairs"] = "end_first"
    #: pattern of released names -> why these tensors are left out
    unused: Mapping[str, str] = field(default_factory=dict)
    #: our names of the tensors with a row for each word
    tables: Sequence[str] = ("word_embedding.weight", "output.weight", "output.bias")
    #: our names of tensors whose columns are those of
    #: the visual vectors; the first one that is there
    features: Sequence[str] = ("feature_embedding.weight",)

    def left_out(self, state: Tensors) -> dict[str, str]:
        """Return the released names of tensors that are not needed, each with the reason."""
        reasons = {}
        for name in state:
            for pattern, why in self.unused.items():
                if re.search(pattern, name):
                    reasons[name] = why
        return reasons

    def renamed(self, state: Tensors) -> dict[str, Tensor]:
        """Return the tensors that are needed, by our names."""
        unused = self.left_out(state)
        return self.rename({name: value for name, value in state.items() if name not in unused})

    def feature_size(self, tensors: Tensors) -> int:
        """Return the width of the visual vectors."""
        return next(tensors[name].shape[1] for name in self.features if name in tensors)

    def search(self, options: Options) -> dict[str, Any]:
        """Return the keys of `DecodingSettings`."""
        return {
            **self.decoding,
            **{key: options[name] for name, key in SEARCH.items() if name in options},
        }


def layers(tensors: Tensors, stack: str) -> int:
    """Return how many layers ``<stack>.0``, ``<stack>.1``, ... there are."""
    numbers = re.findall(rf"^{re.escape(stack)}\.(\d+)\.", "\n".join(tensors), re.MULTILINE)
    return max(map(int, numbers), default=-1) + 1


def agree(options: Options, expected: Mapping[str, Any]) -> None:
    """Check the release's options, where given, against its tensors or our model."""
    for name, value in expected.items():
        if options.get(name, value) != value:
            raise ConfigError(
                f"the option {name} is {options[name]!r} in the release's configuration, and "
                f"{value!r} in the model that is built here; give the configuration that "
                "belongs to the checkpoint"
            )


# From a file to a run

VOCABULARY, REPORT = "vocabulary.json", "import.json"
STAGE = "released"  # takes the place of a training stage
# score of an id that the release does not have: its probability is 0 in every precision
NEVER = -1e4
TORCHTEXT = ["<unk>", "<pad>", "<bos>", "<eos>"]  # the first ids of a release in this form
# keys that hold words: the first two of pickles, the last of JSON
_WORDS = ("itos", "vocab", "ix_to_word")


def import_checkpoint(
    *,
    kind: str,
    file: Path,
    out: Path,
    config: Path | None = None,
    vocabulary: Path | None = None,
    changes: Mapping[str, Any] | None = None,
    dataset: str = "coco",
) -> None:
    """Write a released checkpoint as a run.

    `changes` are keys of the model that no file of the release has.
    """
    release, tensors, left_out = released_tensors(kind, file)
    options = read_options(config) if config else {}
    words = vocabulary or (config if config and config.suffix == ".pkl" else None)
    if words is None:
        raise ConfigError(
            f"{file}: a run needs the release's words; give them with --vocabulary FILE"
        )
    with naming(file, kind):
        values = {**release.settings(tensors, options), **(changes or {})}
        width = release.feature_size(tensors)
    settings: ModelConfig = validate(Model, values, f"{config or file}: model")
    search: DecodingSettings = validate(
        DecodingSettings, release.search(options), f"{config or file}: decoding"
    )
    own, rows = read_vocabulary(words, release, max_length=search.max_length)
    ordered = _in_our_order(tensors, release, rows, words)
    # Clones, because released tables may be tied,
    # and safetensors refuses tensors that share memory.
    weights = {name: value.float().contiguous().clone() for name, value in ordered.items()}
    with torch.device("meta"):
        model = build_model(settings, InputSpec({"main": width}, len(own), own))
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise ConfigError(
            f"{file}: {misfit(error)}; give the release's own --config, or --set"
        ) from error
    origin = {"file": file.name, "sha256": sha256_file(file), "kind": kind}
    names = {
        "dataset": dataset,
        "subset": "full",
        "features": STAGE,
        "model": kind,
        "recipe": STAGE,
    }
    made_from = {
        "spec": {**names, "seed": 0, "model_settings": settings.model_dump(mode="json")},
        "stage": STAGE,
        "released": origin,
        "feature_size": width,
        "decoding": search.model_dump(mode="json"),
        "vocabulary_hash": own.hash,
    }
    own.save(out / VOCABULARY)
    save_weights(out / WEIGHTS, weights)
    taken = {name: list(value.shape) for name, value in sorted(weights.items())}
    parameters = sum(map(Tensor.numel, weights.values()))
    write_json(
        out / REPORT, {**origin, "taken": taken, "left_out": left_out, "parameters": parameters}
    )
    write_text(out / CONFIG, yaml.safe_dump(made_from, sort_keys=True))
    record(*(out / name for name in (CONFIG, VOCABULARY, REPORT)))
    log.info(
        f"{out}: {len(weights)} tensors, {parameters / 1e6:.1f} million numbers, {len(own):,} "
        f"ids; {len(left_out)} tensors left out ({REPORT} says why)"
    )


def released_tensors(kind: str, file: Path) -> tuple[Release, dict[str, Tensor], dict[str, str]]:
    """Return a paper's `Release`, a file's tensors by our names, the others with the reason."""
    release = RELEASED.get(kind)
    if not isinstance(release, Release):
        raise ConfigError(f"{kind}: {release}")
    state: Any = read_tensors(file, ConfigError)
    if isinstance(state, dict):
        state = state.get("state_dict", state)
    if not isinstance(state, dict):
        state = {"state_dict": state}
    tensors = {}
    for name, value in state.items():
        if not (isinstance(value, Tensor) and value.isfinite().all()):
            raise ConfigError(
                f"{file}: {name!r} is no tensor of finite numbers; give the file of the model's "
                "tensors"
            )
        tensors[str(name).removeprefix("module.")] = value  # of data-parallel training
    with naming(file, kind):
        return release, release.renamed(tensors), release.left_out(tensors)


@contextmanager
def naming(file: Path, kind: str) -> Iterator[None]:
    """Put the name of the checkpoint before what is wrong with its tensors."""
    try:
        yield
    except RecapError as error:
        raise ConfigError(f"{file}: {error}") from error
    except (LookupError, ValueError, RuntimeError, StopIteration, TypeError) as error:
        # missing, or of another shape
        raise ConfigError(
            f"{file}: is no released checkpoint of kind {kind!r} ({first_line(error)})"
        ) from error


def read_options(path: Path) -> dict[str, Any]:
    """Return the options of a release; nested keys are joined by dots (`MODEL.BILINEAR.HEAD`)."""
    values = read_plain_pickle(path) if path.suffix == ".pkl" else read_mapping(path)
    if isinstance(values, dict):
        values = values.get("opt", values)
    if not isinstance(values, dict):
        raise ConfigError(
            f"{path}: holds no options; give the release's config.yml or infos pickle"
        )
    return flat(values)


def read_vocabulary(
    path: Path, release: Release, *, max_length: int
) -> tuple[AnyVocabulary, list[int]]:
    """Return our vocabulary of a release's words, and by our id the row of its tables."""
    # GPT-2's: a folder with vocab.json and merges.txt, or tokenizer.json
    if release.words == "byte_pairs":
        pairs = load_byte_pairs(path.name, inputs=path.parent, max_length=max_length)
        return pairs, pairs.rows
    words = _words(path)
    if release.words == "torchtext":
        first = len(TORCHTEXT)
        if words[:first] != TORCHTEXT:
            raise ConfigError(
                f"{path}: its first words are not {', '.join(TORCHTEXT)}; give the release's own "
                "file"
            )
        words = words[first:]
        special = [TORCHTEXT.index(name) for name in SPECIAL]
    else:  # id 0 begins, ends and pads; the last word is the unknown one
        first = 1
        special = [0, 0, 0, len(words)]
        words = words[:-1]
    rule = {"min_count": 1, "max_length": max_length, "splits": "all"}
    return Vocabulary(words, rule), [*special, *range(first, first + len(words))]


def _words(path: Path) -> list[str]:
    """Return the words of a file in the order of their ids, from the first that it has."""
    with reading(path, ConfigError, damaged="give the release's own file of words"):
        read = _READERS.get(path.suffix, read_json)
        words = _listed(read(path))
    seen = set()
    for word in words:
        if not _is_word(word) or word in seen:
            raise ConfigError(
                f"{path}: holds {word!r}, which is no word or duplicated; give the release's own "
                "file of words"
            )
        seen.add(word)
    return words


def _text_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


# by the suffix of a file; all others are JSON
_READERS: dict[str, Callable[[Path], Any]] = {".txt": _text_lines, ".pkl": read_plain_pickle}


def _listed(words: Any) -> list[Any]:
    """Return words that are given as a list, or by their numbers, on their own or under a key."""
    if isinstance(words, dict):
        words = next((words[key] for key in _WORDS if key in words), words)
    if isinstance(words, dict):
        numbered = {int(str(number)): word for number, word in words.items()}
        first = min(numbered)
        words = [numbered.get(number) for number in range(first, first + len(numbered))]
    return words if isinstance(words, list) else []


def _is_word(word: Any) -> bool:
    if not isinstance(word, str) or not is_storable(word):
        return False
    return word != "" and word.strip() == word == one_line(word)


def _in_our_order(
    tensors: Tensors, release: Release, rows: Sequence[int], path: Path
) -> dict[str, Tensor]:
    """Return the tensors with their word tables in the order of our ids.

    A table twice used is two tensors.
    """
    ordered = dict(tensors)
    count = max(rows) + 1
    for name in filter(tensors.__contains__, release.tables):
        table = tensors[name]
        if len(table) != count:
            sizes = (
                f"has words for {count:,} rows, and {name!r} of the checkpoint has {len(table):,}"
            )
            raise ConfigError(
                f"{path}: {sizes}; give the vocabulary that the checkpoint was trained with"
            )
        ordered[name] = table[torch.tensor(rows)]
        if release.words == "end_first" and name.startswith("output."):
            ordered[name][[PAD, BOS]] = NEVER if table.dim() == 1 else 0.0
    return ordered
