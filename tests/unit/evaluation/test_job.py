"""Rules of a recipe reach the search and the signature.

The n best captions are written, and not kept when stale.
"""

import json
from dataclasses import dataclass, replace
from itertools import groupby
from shlex import quote
from shutil import copytree

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from helpers.feature_stores import write_store
from helpers.model_cases import build_model
from helpers.refusals import refused
from recap.core.errors import ConfigError, MetricError
from recap.core.hashing import parse_signature
from recap.data.corpus import build_corpus
from recap.data.vocabulary import build_vocabulary, load_vocabulary
from recap.evaluation import decode
from recap.evaluation.decode import evaluate
from recap.metrics import meteor
from recap.metrics import scores as scoring
from recap.metrics.java import java_executable
from recap.models.images import InputSpec
from recap.settings.datasets import ScenesDataset
from recap.settings.params import validate
from recap.settings.recipes import EvaluationSpec, Execution

pytestmark = [pytest.mark.seconds, pytest.mark.usefixtures("no_java")]

MODEL = {"kind": "transformer", "d_model": 16, "heads": 2, "d_feed_forward": 16}
MODEL |= {"encoder_layers": 1, "decoder_layers": 1}


@dataclass
class Prepared:
    files: dict
    model: object
    words: object

    def captions(self, out, **changes):
        """Evaluate, and return the captions by image and the signature's fields."""
        settings = {"beam": 4, "max_length": 8, "metrics": ["BLEU"], **changes}
        spec = validate(EvaluationSpec, {"evaluation": settings}, "spec")
        evaluate(
            spec=spec, execution=Execution(device="cpu"), **self.files, model=[self.model], out=out
        )
        rows = json.loads((out / "captions.test.json").read_text())
        fields = parse_signature(json.loads((out / "metrics.json").read_text())["signature"])
        return {row["image_id"]: row["caption"].split() for row in rows}, fields


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A model with random weights that likes to repeat itself."""
    folder = tmp_path_factory.mktemp("evaluation")
    scenes = ScenesDataset(kind="scenes", train=6, val=2, test=4, size=32)
    build_corpus(name="tiny", spec=scenes, inputs=folder, out=folder)
    files = {
        name: folder / f"{name}.{end}"
        for name, end in (("corpus", "parquet"), ("vocabulary", "json"))
    }
    build_vocabulary(
        corpus=files["corpus"], rule=scenes.vocabulary, inputs=folder, out=files["vocabulary"]
    )

    from recap.data.corpus import Corpus

    write_store(folder / "features.h5", Corpus.read(files["corpus"]).image_ids())
    words = load_vocabulary(files["vocabulary"])
    torch.manual_seed(0)
    model = build_model(MODEL, InputSpec({"main": 6}, len(words)))
    model.output.bias.data[2] = -3.0  # captions are to be long
    save_file(model.state_dict(), folder / "model.safetensors")
    (folder / "config.yaml").write_text(yaml.safe_dump({"spec": {"model_settings": MODEL}}))
    return Prepared({**files, "features": [folder / "features.h5"]}, folder, words)


def repeats(captions):
    return sum(len(words) - len(set(words)) for words in captions.values())


def test_equal_neighbors_are_merged_in_the_text_that_is_scored(prepared, tmp_path):
    stammering = tmp_path / "model"
    copytree(prepared.model, stammering)
    weights = load_file(stammering / "model.safetensors")
    weights["output.bias"][prepared.words.encode(["a"])[0]] += 4.0
    save_file(weights, stammering / "model.safetensors")
    prepared = replace(prepared, model=stammering)
    free, fields = prepared.captions(tmp_path / "free")
    assert any(a == b for words in free.values() for a, b in zip(words, words[1:], strict=False))
    assert "repeats" not in fields
    merged, fields = prepared.captions(tmp_path / "merged", merge_repeats=True, n_best=1)
    assert fields["repeats"] == "merged"
    thinned = {image: [word for word, _ in groupby(words)] for image, words in free.items()}
    assert merged == thinned
    lines = (tmp_path / "merged" / "nbest.test.jsonl").read_text().splitlines()
    assert [json.loads(line)["caption"].split() for line in lines] == list(thinned.values())


def test_rules_reach_the_search_and_the_signature(prepared, tmp_path):
    free, fields = prepared.captions(tmp_path / "free", finished="set_aside")
    assert repeats(free) > 0 and "rules" not in fields and fields["finished"] == "set_aside"
    bound, fields = prepared.captions(tmp_path / "bound", rules={"no_repeated_ngram": 1})
    assert repeats(bound) == 0 and fields["rules"] == "ngram1"
    last = {words[-1] for words in bound.values()}
    rules = {"no_repeated_ngram": 1, "bad_endings": sorted(last)}
    ended, fields = prepared.captions(tmp_path / "ended", rules=rules, max_length=30)
    assert not last & {words[-1] for words in ended.values()}
    assert fields["rules"] == f"ngram1+endings({','.join(sorted(last))})"
    with refused(ConfigError, "'zebrafish'"):
        prepared.captions(tmp_path / "unknown", rules={"bad_endings": ["zebrafish"]})


@pytest.mark.slow
def test_a_failed_meteor_is_tried_again_without_another_search(prepared, tmp_path, monkeypatch):
    killed = tmp_path / "java"
    real = java_executable()
    killed.write_text(
        f'#!/bin/sh\ncase "$*" in *meteor*) kill -9 $$;; *) exec {quote(str(real))} "$@";; esac\n'
    )
    killed.chmod(0o755)
    monkeypatch.setattr(scoring, "java_executable", lambda: killed)
    out = tmp_path / "scores"
    with refused(MetricError, "METEOR", "-9"):
        prepared.captions(out, metrics=["BLEU", "METEOR"], n_best=2)
    assert not {"metrics.json", "captions.test.json", "scores.test.parquet"} & {
        path.name for path in out.iterdir()
    }
    expected, _ = prepared.captions(tmp_path / "unbroken", metrics=["BLEU"], n_best=2)
    monkeypatch.setattr(scoring, "java_executable", lambda: real)
    with monkeypatch.context() as patch:
        patch.setattr(decode, "decode_candidates", lambda *_, **__: pytest.fail("searched again"))
        captions, _ = prepared.captions(out, metrics=["BLEU", "METEOR"], n_best=2)
    assert captions == expected
    assert json.loads((out / "metrics.json").read_text())["scores"]["METEOR"] > 0
    assert n_best(out) == n_best(tmp_path / "unbroken")
    assert not list(out.glob(".decoded*"))


@pytest.mark.parametrize("change", ["another beam", "a damaged file", "other captions"])
def test_kept_captions_of_anything_else_are_not_taken(prepared, tmp_path, monkeypatch, change):
    # it takes seconds, and there is no Java to read it
    monkeypatch.setattr(meteor, "write_matching", lambda *_: None)
    with refused(MetricError, "METEOR", "Java"):
        prepared.captions(tmp_path, metrics=["METEOR"])
    (kept,) = tmp_path.glob(".decoded*")
    if change == "a damaged file":
        kept.write_text(kept.read_text()[:-20])
    if change == "other captions":
        kept.write_text(kept.read_text().replace("[[[", "[[[3, ", 1))
    beam = 2 if change == "another beam" else 4
    captions, _ = prepared.captions(tmp_path, beam=beam)
    expected, _ = prepared.captions(tmp_path / "unbroken", beam=beam)
    assert captions == expected


def n_best(folder):
    return [json.loads(line) for line in (folder / "nbest.test.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("more", [{}, {"length_penalty": 1.0}])
def test_the_n_best_are_ranked_and_begin_with_the_caption(prepared, tmp_path, more):
    captions, _ = prepared.captions(tmp_path, n_best=3, **more)
    rows = n_best(tmp_path)
    assert [(row["image_id"], row["rank"]) for row in rows] == [
        (i, r) for i in sorted(captions) for r in (1, 2, 3)
    ]
    for image in captions:
        own = [row for row in rows if row["image_id"] == image]
        assert own[0]["caption"].split() == captions[image]
        assert [row["score"] for row in own] == sorted((row["score"] for row in own), reverse=True)
        assert all(row["log_probability"] <= row["score"] + 1e-6 < 1e-6 for row in own)
    assert any(row["log_probability"] < row["score"] - 0.1 for row in rows) == (
        "length_penalty" in more
    )


def test_an_old_list_does_not_stay_and_a_beam_is_wide_enough(prepared, tmp_path):
    prepared.captions(tmp_path, n_best=1)
    assert len(n_best(tmp_path)) == 4
    prepared.captions(tmp_path)
    assert not (tmp_path / "nbest.test.jsonl").exists()
    with refused(ConfigError, "evaluation", "beam of 4", "5", "n_best"):
        prepared.captions(tmp_path, n_best=5)
