"""The losses of a training: cross-entropy, and self-critical sequence training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from recap.core.errors import ConfigError, TrainingError
from recap.data.vocabulary import BANNED, BOS, EOS, PAD, UNK, AnyVocabulary
from recap.decoding.beam import beam_search
from recap.decoding.sampling import draw, sample
from recap.decoding.step import DecodingBatch, Step, ban_tokens, with_banned_tokens
from recap.metrics.rewards import CiderD, DocumentFrequencies, caption_units
from recap.models.base import Captioner
from recap.models.compiled import is_compiled
from recap.models.state import Memory
from recap.nn.fast import fixed_weights
from recap.nn.rows import PackedIndex
from recap.settings import CrossEntropy, DecodingSettings, SelfCritical
from recap.training.batches import Batch


@dataclass(frozen=True)
class Logged:
    """The loss of a batch, and numbers to log beside it."""

    loss: Tensor  #: scalar, the mean over `num_averaged` tokens, or positions of captions
    num_averaged: int  #: what the loss and the numbers weigh where several processes share a batch
    #: means to log, by name (columns of history.csv); a stage logs the same names in every step.
    #: Scalars on a GPU stay there until the step is queued.
    numbers: dict[str, float | Tensor] = field(default_factory=dict)
    #: scalar that is added to the loss, the mean over `num_added` other tokens; None for nothing
    added: Tensor | None = None
    num_added: int = 0  #: what it weighs where several processes share a batch


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Mean cross-entropy over R tokens: scores [R, V], token ids [R].

    With smoothing s the target puts 1 - s on the token and s / (V - 1) on each other one, and the
    target's own entropy is subtracted (the KL form of the captioning code bases), so a perfect
    model has loss 0.
    """
    log_probabilities = logits.log_softmax(-1)
    correct = log_probabilities.gather(-1, targets[:, None])[:, 0]
    if smoothing == 0:
        return -correct.mean()
    mass = smoothing / (logits.shape[-1] - 1)
    target_entropy = (1 - smoothing) * math.log(1 - smoothing) + smoothing * math.log(mass)
    expected = (1 - smoothing) * correct + mass * (log_probabilities.sum(-1) - correct)
    return (target_entropy - expected).mean()


@fixed_weights()
def sampled_inputs(model: Captioner, memory: Memory, inputs: Tensor, rate: float) -> Tensor:
    """Replace tokens of captions [B, C, T], each with probability `rate`,
    by draws from the model (scheduled sampling).

    Token t is drawn after the tokens before it, replaced ones among them; the loss is taken in one
    teacher-forced pass over all. Released code draws on the way, so that a token is drawn under the
    dropout masks it is trained under.
    """
    step = with_banned_tokens(model.step, BANNED)
    batch, captions, length = inputs.shape
    state = model.start(memory).reorder(
        torch.zeros(batch, captions, dtype=torch.long, device=inputs.device)
    )
    tokens = [inputs[..., 0]]
    for position in range(1, length):
        log_probabilities, state = step(tokens[-1], state)
        chosen = torch.rand(batch, captions, device=inputs.device) < rate
        reference = inputs[..., position]
        tokens.append(torch.where(chosen & (reference != PAD), draw(log_probabilities), reference))
    return torch.stack(tokens, -1)


def truncated_to_words(tokens: Tensor, begins_word: Tensor) -> Tensor:
    """Cut captions [B, C, T + 1] of byte pairs to as many tokens
    as the one with the most words would have as words.

    `begins_word` [V] is True for pieces that begin a word after the first.
    """
    others = begins_word.to(tokens.device)[tokens].sum(-1)  # [B, C]
    words = others + (tokens[..., 1] > UNK)  # no space precedes the first word
    return tokens[..., : int(words.max()) + 2]


class CrossEntropyObjective:
    """Teacher forcing with dropout, the first stage.

    `truncate_to_words` asks the vocabulary which pieces begin one.
    """

    def __init__(
        self, model: Captioner, stage: CrossEntropy, vocabulary: AnyVocabulary | None = None
    ) -> None:
        self.model = model
        self.smoothing = stage.label_smoothing
        self.sampling = stage.scheduled_sampling
        self.begins_word: Tensor | None = None
        if stage.truncate_to_words:
            begins = getattr(vocabulary, "begins_word", None)
            if begins is None:
                raise ConfigError(
                    "xe.truncate_to_words: the vocabulary has words, not byte pairs; leave it out"
                )
            self.begins_word = torch.tensor(begins)

    def __call__(self, batch: Batch, epoch: int = 0) -> Logged:
        """Return the mean loss per token; logits are made for real tokens only."""
        self.model.train()
        tokens, index = batch.tokens, batch.index
        if self.begins_word is not None:
            tokens = truncated_to_words(tokens, self.begins_word)
            index = PackedIndex(tokens[..., 1:] != PAD)
        inputs, targets = tokens[..., :-1], tokens[..., 1:]
        memory = self.model.encode(batch.images)
        rate = self.sampling.rate(epoch) if self.sampling else 0.0
        if rate:
            inputs = sampled_inputs(self.model, memory, inputs, rate)
        hidden = self.model.decode_words(inputs, index, memory)  # [R, D]
        logits = self.model.logits(hidden)  # [R, V]
        return Logged(
            smoothed_cross_entropy(logits.float(), index.pack(targets), self.smoothing), len(hidden)
        )


@torch.no_grad()
def policy_numbers(log_probabilities: Tensor, tokens: Tensor) -> dict[str, float | Tensor]:
    """Return means per token, in nats: the log-probability
    of tokens [R] and the entropy of their distributions [R, V].

    A log-probability of samples that keeps falling, or an entropy that runs to 0, comes hundreds of
    steps before the reward breaks down.
    """
    chosen = log_probabilities.gather(-1, tokens[:, None])
    # What is banned has log-probability -inf and adds 0.
    entropy = -(
        log_probabilities.exp() * log_probabilities.clamp(min=torch.finfo(torch.float32).min)
    ).sum(-1)
    return {"log_probability": chosen.mean(), "entropy": entropy.mean()}


def advantages(rewards: Tensor, baseline: Tensor | None, *, own: bool = False) -> Tensor:
    """Reward minus baseline, [B, S].

    The baseline is the reward [B] of what the model finds by search, or the mean over the image's
    other captions, or with `own` over all of them: that is (S - 1) / S times the former.
    """
    if baseline is not None:
        return rewards - baseline[:, None]
    if own:
        return rewards - rewards.mean(1, keepdim=True)
    others = (rewards.sum(1, keepdim=True) - rewards) / (rewards.shape[1] - 1)
    return rewards - others


def policy_loss(
    log_probabilities: Tensor, index: PackedIndex, advantage: Tensor, count: int
) -> Tensor:
    """Sum over the index of -advantage [B, S] * log-probability [B, S, T], over a count."""
    weighted = -(advantage[..., None] * log_probabilities)
    return index.pack(weighted).sum() / count


def gather_log_probabilities(log_policy: Tensor, sampled: Tensor, index: PackedIndex) -> Tensor:
    """Log-probability [B, S, T] of each sampled token, 0 at padding.

    `log_policy` [R, V] has rows of tokens alone.
    """
    tokens = log_policy.gather(-1, index.pack(sampled)[:, None])[:, 0]
    return index.unpack(tokens)


class SelfCriticalObjective:
    """Self-critical sequence training (Rennie et al. 2017),
    the second stage: REINFORCE on sampled captions' CIDEr-D.

    Captions are drawn without a graph and with caches, then scored in one teacher-forced pass that
    has the gradient. Both passes run without dropout, so that the gradient is that of the policy
    that drew the captions. With `dropout`, as in released code, images are encoded and captions are
    scored under dropout.

    `references`: token ids of the training captions by image, without <bos> and <eos>; a sampled
    caption has at most `max_length` tokens, the end token among them. Rewards count words of byte
    pairs if the vocabulary is given.
    """

    def __init__(
        self,
        model: Captioner,
        stage: SelfCritical,
        *,
        references: Mapping[int, list[list[int]]],
        max_length: int,
        vocabulary: AnyVocabulary | None = None,
    ) -> None:
        self.model, self.stage, self.max_length = model, stage, max_length
        captions, self.units = caption_units(
            references, vocabulary if stage.units == "words" else None
        )
        ended = captions.ended(EOS) if stage.reward_end_token else captions
        frequencies = DocumentFrequencies.of(ended, document=stage.document)
        self.scorer = CiderD(ended, frequencies=frequencies)

    def __call__(self, batch: Batch, epoch: int = 0) -> Logged:
        """Sample, reward, and return the policy loss with the batch's reward statistics."""
        stage, model = self.stage, self.model
        model.train(stage.dropout)
        # once: what is scored saw the image as what was drawn did
        memory = model.encode(batch.images)
        model.eval()
        with fixed_weights():
            sampled, greedy = self.draw(memory)  # [B, S, T]
            rewards = self.reward(batch.image_ids, sampled)
            baseline = self.baseline(batch.image_ids, memory, rewards, greedy)
        index = PackedIndex(sampled != PAD)
        num_tokens = len(index.rows)  # known by now: no wait for the pass below
        model.train(stage.dropout)
        advantage = advantages(rewards, baseline, own=stage.baseline == "mean").to(
            batch.images.device
        )
        log_policy = self.log_policy(memory, sampled, index)
        log_probabilities = gather_log_probabilities(log_policy, sampled, index)
        captions = advantage.numel()
        count = num_tokens if stage.loss_over == "tokens" else captions * self.max_length
        loss = policy_loss(log_probabilities, index, advantage.to(log_probabilities.dtype), count)
        numbers: dict[str, float | Tensor] = {
            "reward": rewards.mean().item(),
            "reward_sd": rewards.std().item(),
        }
        numbers |= policy_numbers(log_policy.detach(), index.pack(sampled))
        if baseline is not None:
            numbers["reward_greedy" if stage.baseline == "greedy" else "reward_beam"] = (
                baseline.mean().item()
            )
        numbers["length"] = num_tokens / captions
        if not stage.cross_entropy:
            return Logged(loss, count, numbers)
        inputs, targets = batch.tokens[..., :-1], batch.tokens[..., 1:]
        logits = model.logits(model.decode_words(inputs, batch.index, memory))
        added = cross_entropy(logits.float(), batch.index.pack(targets))
        return Logged(loss, count, numbers, stage.cross_entropy * added, len(logits))

    def baseline(
        self, image_ids: list[int], memory: Memory, rewards: Tensor, greedy: Tensor | None
    ) -> Tensor | None:
        """Return the reward [B] of the greedy caption, or the mean over the beams.

        None for a mean of samples.
        """
        if greedy is not None:
            return self.reward(image_ids, greedy)[:, 0]
        if self.stage.baseline != "mean_of_beam":
            return None
        if self.stage.sampling == "multinomial":
            rewards = self.reward(image_ids, self.search(memory, self.stage.samples))
        return rewards.mean(1)

    def draw(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Draw S captions per image, [B, S, T], T the longest,
        and the greedy one [B, 1, max_length] if it is used."""
        greedy = self.stage.baseline == "greedy"
        samples = self.stage.samples
        if self.stage.sampling == "beam":
            tokens = self.search(memory, samples)
            best = self.search(memory, 1) if greedy else None
        else:
            begin = self.begin(memory)
            both = sample(*begin, max_length=self.max_length, samples=samples, greedy=greedy)
            tokens = both[:, :samples]
            best = both[:, samples:] if greedy else None
        return tokens[..., : int((tokens != PAD).sum(-1).max())], best

    def search(self, memory: Memory, beam: int) -> Tensor:
        """Return the captions [B, beam, max_length] of a beam search."""
        settings = DecodingSettings(beam=beam, max_length=self.max_length)
        return beam_search(*self.begin(memory), settings).tokens

    def begin(self, memory: Memory) -> tuple[Step[Any], Any, DecodingBatch]:
        """Return what a search begins with: the model's step, its state, the batch."""
        step = with_banned_tokens(self.model.step, BANNED)
        device = memory.values.device
        batch = DecodingBatch(len(memory.values), BOS, EOS, PAD, device, is_compiled(self.model))
        return step, self.model.start(memory), batch

    def reward(self, image_ids: list[int], tokens: Tensor) -> Tensor:
        """Reward of captions [B, S, T] -> [B, S] float64 on the CPU."""
        drop = {PAD} if self.stage.reward_end_token else {PAD, EOS}
        captions = []
        for row in tokens.flatten(0, 1).tolist():
            captions.append(self.units([token for token in row if token not in drop]))
        owners = torch.tensor(image_ids).repeat_interleave(tokens.shape[1]).tolist()
        rewards = torch.from_numpy(self.scorer.score(owners, captions))
        lost = (~torch.isfinite(rewards)).nonzero()
        if len(lost):
            raise TrainingError(f"the reward of image {owners[int(lost[0])]} is NaN or infinite")
        return rewards.unflatten(0, tuple(tokens.shape[:2]))

    def log_policy(self, memory: Memory, sampled: Tensor, index: PackedIndex) -> Tensor:
        """Log-probabilities [R, V] of what may stand at each
        of R sampled tokens, whose positions are the index."""
        start = torch.full_like(sampled[..., :1], BOS)
        inputs = torch.cat([start, sampled[..., :-1]], -1)
        hidden = self.model.decode_words(inputs, index, memory)
        return ban_tokens(self.model.logits(hidden).float(), BANNED)
