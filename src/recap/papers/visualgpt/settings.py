"""Settings of VisualGPT, its baselines and its ablations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from recap.settings.base import Layers, Probability, Width
from recap.settings.models import MODELS, WithPaddedVectors

GPT2 = "hub:openai-community/gpt2@607a30d783dfa663caf39e06633721c8d4cfcd7e"  # GPT-2 small


@MODELS.register
class VisualGptModel(WithPaddedVectors):
    """GPT-2 with cross-attention to an image encoder, joined by self-resurrecting gates or in another way."""

    implementation: ClassVar[str] = "recap.papers.visualgpt.model:VisualGpt"
    variants: ClassVar[Sequence[Mapping[str, Any]]] = (
        {"gate": "paper"},
        {"normalized": True},
        {"gate_activation": "gelu"},
        {"fusion": "plain"},
        {"fusion": "meshed", "encoder": "memory"},
        {"fusion": "aoa"},
        {"fusion": "aoa_baseline", "encoder": "aoa_baseline"},
    )

    kind: Literal["visual_gpt"]
    d_model: Width = 768
    heads: Width = 12
    d_feed_forward: Width = Field(3072, description="of GPT-2's blocks")
    decoder_layers: Layers = Field(12, description="the first so many blocks of GPT-2")
    positions: Width = Field(1024, description="learned positions: the longest caption in tokens")
    encoder_layers: Layers = 3
    d_encoder_feed_forward: Width = 2048
    encoder: Literal["plain", "memory", "aoa_baseline"] = Field(
        "plain", description="layers of the image encoder; memory: with M2's slots; aoa_baseline: the AoA Transformer's"
    )
    memory_slots: Width = Field(40, description="for encoder memory")
    fusion: Literal["srau", "plain", "meshed", "aoa", "aoa_baseline"] = Field(
        "srau", description="what joins the state with the cross-attention; all but srau and meshed use the last level"
    )
    gate: Literal["released", "paper"] = Field(
        "released", description="srau: learned for each encoder level (the code), or without parameters (paper Eq. 5)"
    )
    tau: float = Field(0.2, ge=0, lt=1, description="srau: gates that are not above it are zero")
    gate_activation: Literal["sigmoid", "leaky_relu", "gelu"] = Field(
        "sigmoid", description="srau: the others have no upper limit, and the training diverges (section 5.4)"
    )
    normalized: bool = Field(False, description="srau: each gate over the sum of both (paper Eq. 6)")
    initialization: Literal["gpt2", "xavier"] = Field("gpt2", description="of the decoder; xavier: 'Random init.'")
    copy_layers: bool = Field(True, description="all decoder blocks begin as copies of the first, as in the code")
    pretrained: bool = Field(True, description="whether the decoder begins with `weights`; false: random")
    weights: str = Field(
        GPT2,
        description="hub:NAME@REVISION, a safetensors file relative to `inputs`, or language_model:NAME (trained "
        "first, params/language_models/NAME.yaml)",
    )
    dropout: Probability = Field(0.1, description="in the layers of encoder and decoder")
    feature_dropout: Probability = Field(0.1, description="on embedded vectors")
    cross_dropout: Probability = Field(0.2, description="on the weights of the cross-attention")
    aoa_dropout: Probability = Field(0.2, description="in attention on attention")

    @model_validator(mode="after")
    def _one_gate_is_open(self) -> Self:
        if self.normalized and self.tau >= 0.5:
            raise ValueError(f"normalized gates need a tau below 0.5, not {self.tau}: both could be zero")
        return self

    @classmethod
    def example(cls) -> Self:
        """Two layers each side of width 16."""
        return cls(
            kind="visual_gpt",
            d_model=16,
            heads=2,
            d_feed_forward=24,
            decoder_layers=2,
            positions=70,
            encoder_layers=2,
            d_encoder_feed_forward=24,
            memory_slots=3,
            pretrained=False,
        )

    def pretrained_weights(self) -> str | None:
        """Where the weights come from that the decoder begins with."""
        return self.weights if self.pretrained else None
