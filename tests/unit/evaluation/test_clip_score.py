"""CLIPScore and RefCLIPScore by a tiny CLIP are those of a plain computation from its tensors."""

import json
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from helpers.clip import CHARACTERS, save_clip
from helpers.refusals import refused
from recap.core.errors import MetricError
from recap.data.corpus import Caption, write_corpus
from recap.evaluation.caption_file import score_file
from recap.metrics.scores import score
from recap.statistics.scores import read_metrics

pytestmark = pytest.mark.slow  # transformers takes seconds to import

REFERENCES = {1: ["a dog", "two dogs run"], 2: ["a red boat on a lake"], 5: ["x"]}
# the last is longer than CLIP reads
SAID = {1: "a dog runs", 2: "a very red boat", 5: "word " * 30}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_clip(tmp_path_factory.mktemp("clip") / "tiny")


@pytest.fixture(autouse=True)
def clip(monkeypatch, folder):
    monkeypatch.setenv("RECAP_CLIP", str(folder))


def picture(image_id):
    return Image.fromarray(np.random.default_rng(image_id).integers(0, 255, (32, 40, 3), np.uint8))


def clip_scores(pictures=picture, references=REFERENCES, said=SAID):
    return score(references, said, metrics=["CLIPScore"], pictures=pictures)


def test_scores_are_those_of_the_formula_over_a_plain_clip(folder):
    scores, plain = clip_scores(), Plain(folder)
    for image, caption in SAID.items():
        own, seen = plain.text(caption), plain.picture(picture(image))
        first = 2.5 * max(0.0, float(own @ seen))
        nearest = max(0.0, *(float(own @ plain.text(text)) for text in REFERENCES[image]))
        both = 2 / (1 / first + 1 / nearest) if first and nearest else 0.0
        assert scores.per_image["CLIPScore"][image] == pytest.approx(first, abs=1e-5)
        assert scores.per_image["RefCLIPScore"][image] == pytest.approx(both, abs=1e-5)
    values = list(scores.per_image["CLIPScore"].values())
    assert max(values) > 0.1
    assert len(set(values)) > 1
    assert scores.corpus["CLIPScore"] == pytest.approx(np.mean(values))


def test_a_file_of_captions_is_scored_with_the_pictures_beside_its_corpus_or_those_that_are_named(
    tmp_path, monkeypatch, folder
):
    rows = enumerate((image, text) for image, texts in REFERENCES.items() for text in texts)
    captions = (
        Caption(image, f"{image}.png", "test", n, text, text.split()) for n, (image, text) in rows
    )
    write_corpus(
        captions, tmp_path / "corpus.parquet", dataset="d", kind="test", source_sha256="0" * 64
    )
    (tmp_path / "said.json").write_text(
        json.dumps([{"image_id": i, "caption": text} for i, text in SAID.items()])
    )
    options = {
        "captions": tmp_path / "said.json",
        "corpus": tmp_path / "corpus.parquet",
        "split": "test",
    }
    with refused(MetricError, "RECAP_CLIP_IMAGES", "images.zip"):
        score_file(**options, metrics=["CLIPScore"], out=tmp_path / "out")
    assert not (tmp_path / "out" / "metrics.json").exists()
    (tmp_path / "pictures").mkdir()
    for image in SAID:
        picture(image).save(tmp_path / "pictures" / f"{image}.png")
    monkeypatch.setenv("RECAP_CLIP_IMAGES", str(tmp_path / "pictures"))
    scores = score_file(**options, metrics=["CLIPScore"], out=tmp_path / "out")
    assert scores.per_image == clip_scores().per_image
    assert "clip:" in read_metrics(tmp_path / "out").signature


def test_without_weights_it_says_where_they_are_looked_for(monkeypatch):
    monkeypatch.setenv("RECAP_CLIP", "nowhere")
    reason = clip_scores().failed["CLIPScore"]
    assert all(each in reason for each in ("RECAP_CLIP", "nowhere", "model.safetensors"))


def test_a_damaged_file_and_a_pickle_in_its_place_are_refused_and_nothing_runs(
    tmp_path, monkeypatch, folder
):
    ran = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return ran.touch, ()

    other = tmp_path / "clip"
    other.mkdir()
    for path in folder.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    monkeypatch.setenv("RECAP_CLIP", str(other))
    whole = (folder / "model.safetensors").read_bytes()
    for content in (whole[: len(whole) // 2], pickle.dumps(Evil()), b""):
        (other / "model.safetensors").write_bytes(content)
        (other / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))
        assert str(other) in clip_scores().failed["CLIPScore"]
    tensors = load_file(folder / "model.safetensors")
    del tensors["visual_projection.weight"]
    save_file(tensors, other / "model.safetensors", metadata={"format": "pt"})
    assert "visual_projection.weight" in clip_scores().failed["CLIPScore"]
    assert not ran.exists()


class Plain:
    """CLIP, computed a token and a picture at a time from the tensors of its file."""

    def __init__(self, folder):
        self.tensors = load_file(folder / "model.safetensors")
        self.heads = 2

    def text(self, caption):
        characters = [
            c
            for word in f"a photo depicts {caption}".split()
            for c in (*word[:-1], f"{word[-1]}</w>")
        ]
        words = [*CHARACTERS, *(f"{each}</w>" for each in CHARACTERS)]
        ids = [52, *[words.index(each) for each in characters][:75], 53]
        x = self("text_model.embeddings.token_embedding.weight")[ids]
        x = x + self("text_model.embeddings.position_embedding.weight")[: len(ids)]
        x = self.blocks("text_model", x, causal=True)
        return self.unit(
            self.norm("text_model.final_layer_norm", x)[-1] @ self("text_projection.weight").T
        )

    def picture(self, image):
        image = image.crop((4, 0, 36, 32))
        mean = np.array([0.48145466, 0.4578275, 0.40821073])
        std = np.array([0.26862954, 0.26130258, 0.27577711])
        pixels = torch.from_numpy((np.asarray(image) / 255 - mean) / std).float().permute(2, 0, 1)
        patches = [
            pixels[:, 16 * i : 16 * i + 16, 16 * j : 16 * j + 16].flatten()
            for i in range(2)
            for j in range(2)
        ]
        x = (
            torch.stack(patches)
            @ self("vision_model.embeddings.patch_embedding.weight").flatten(1).T
        )
        x = torch.cat([self("vision_model.embeddings.class_embedding")[None], x])
        x = x + self("vision_model.embeddings.position_embedding.weight")
        x = self.blocks("vision_model", self.norm("vision_model.pre_layrnorm", x), causal=False)
        return self.unit(
            self.norm("vision_model.post_layernorm", x[0]) @ self("visual_projection.weight").T
        )

    def blocks(self, tower, x, *, causal):
        for layer in range(2):
            name = f"{tower}.encoder.layers.{layer}"
            y = self.norm(f"{name}.layer_norm1", x)
            q, k, v = (
                self.linear(f"{name}.self_attn.{each}_proj", y)
                .unflatten(-1, (self.heads, -1))
                .transpose(0, 1)
                for each in "qkv"
            )
            scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
            if causal:
                scores = scores + torch.full_like(scores, -torch.inf).triu(1)
            x = x + self.linear(
                f"{name}.self_attn.out_proj", (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)
            )
            y = self.linear(f"{name}.mlp.fc1", self.norm(f"{name}.layer_norm2", x))
            x = x + self.linear(f"{name}.mlp.fc2", y * torch.sigmoid(1.702 * y))
        return x

    def __call__(self, name):
        return self.tensors[name]

    def linear(self, name, x):
        return x @ self(f"{name}.weight").T + self(f"{name}.bias")

    def norm(self, name, x):
        return torch.nn.functional.layer_norm(
            x, x.shape[-1:], self(f"{name}.weight"), self(f"{name}.bias")
        )

    def unit(self, x):
        return x / x.norm()
