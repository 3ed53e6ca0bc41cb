"""Self-critical sequence training (Rennie et al. 2017): REINFORCE on the CIDEr-D of sampled captions.

Captions are drawn without a graph and with caches, then scored in one teacher-forced pass that has the gradient.
Both passes run without dropout, so that the gradient is that of the very policy that drew the captions. Released code
samples with dropout on and differentiates those passes, which is why it must keep the graph of every step; with
`dropout` images are encoded and captions are scored under dropout, and drawn from the images so encoded without more.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from recap.core.errors import TrainingError
from recap.data.caption_ids import CaptionIds
from recap.data.vocabulary import BANNED, BOS, EOS, PAD
from recap.decoding.beam import beam_search
from recap.decoding.sampling import nucleus, sample, within
from recap.decoding.step import DecodingBatch, ban_tokens, with_banned_tokens
from recap.metrics.rewards import Bleu4, CiderD, DocumentFrequencies
from recap.models.base import Captioner
from recap.models.state import Memory
from recap.nn.fast import fixed_weights
from recap.settings import DecodingSettings, SelfCritical
from recap.training.batches import Batch
from recap.training.objectives.logged import Logged, policy_numbers


def advantages(rewards: Tensor, baseline: Tensor | None, *, own: bool = False) -> Tensor:
    """Reward minus baseline, [B, S].

    The baseline is the reward [B] of what the model finds by search, or the mean over the image's other captions, or
    with `own` over all of them: that is (S - 1) / S times the former.
    """
    if baseline is not None:
        return rewards - baseline[:, None]
    if own:
        return rewards - rewards.mean(1, keepdim=True)
    others = (rewards.sum(1, keepdim=True) - rewards) / (rewards.shape[1] - 1)
    return rewards - others


def policy_loss(log_probabilities: Tensor, token_mask: Tensor, advantage: Tensor, count: int) -> Tensor:
    """Sum over tokens of -advantage * log-probability, [B, S, T], [B, S, T] (True = token), [B, S], over a count."""
    weighted = -(advantage[..., None] * log_probabilities)
    return weighted[token_mask].sum() / count


def of_tokens(policy: Tensor, sampled: Tensor, token_mask: Tensor) -> Tensor:
    """Log-probability [B, S, T] of each sampled token, 0 at padding; the policy [R, V] has rows of tokens alone."""
    tokens = policy.gather(-1, sampled[token_mask][:, None])[:, 0]
    return torch.zeros_like(sampled, dtype=tokens.dtype).masked_scatter(token_mask, tokens)


class SelfCriticalObjective:
    """The loss of the second stage.

    `references` are the token ids of the training captions by image, without <bos> and <eos>; a sampled caption has at
    most `max_length` tokens, the end token among them.
    """

    def __init__(
        self, model: Captioner, stage: SelfCritical, *, references: Mapping[int, list[list[int]]], max_length: int
    ) -> None:
        self.model, self.stage, self.max_length = model, stage, max_length
        captions = CaptionIds.of(references)
        ended = captions.ended(EOS) if stage.reward_end_token else captions
        frequencies = DocumentFrequencies.of(ended, document=stage.document)
        self.scorers: list[tuple[float, CiderD | Bleu4]] = [(stage.cider_d, CiderD(ended, frequencies=frequencies))]
        if stage.bleu4:
            self.scorers.append((stage.bleu4, Bleu4(ended)))

    def __call__(self, batch: Batch, epoch: int = 0) -> Logged:
        """Sample, reward, and return the policy loss with the batch's reward statistics."""
        self.model.train(self.stage.dropout)
        memory = self.model.encode(batch.images)  # once: what is scored saw the image as what was drawn did
        self.model.eval()
        with fixed_weights():
            sampled, greedy = self.draw(memory)  # [B, S, T]
            rewards = self.reward(batch.image_ids, sampled)
            baseline = self.baseline(batch.image_ids, memory, rewards, greedy)
        num_tokens = int((sampled != PAD).sum())  # the tokens are known by now: no wait for the pass below
        self.model.train(self.stage.dropout)
        advantage = advantages(rewards, baseline, own=self.stage.baseline == "mean").to(batch.images.device)
        policy, token_mask = self.policy(memory, sampled)
        log_probabilities = of_tokens(policy, sampled, token_mask)
        captions = token_mask[..., 0].numel()
        count = num_tokens if self.stage.loss_over == "tokens" else captions * self.max_length
        loss = policy_loss(log_probabilities, token_mask, advantage.to(log_probabilities.dtype), count)
        numbers: dict[str, float | Tensor] = {"reward": rewards.mean().item(), "reward_sd": rewards.std().item()}
        numbers |= policy_numbers(policy.detach(), sampled[token_mask])
        if baseline is not None:
            name = "reward_greedy" if self.stage.baseline == "greedy" else "reward_beam"
            numbers[name] = baseline.mean().item()
        numbers["length"] = num_tokens / captions
        if not self.stage.cross_entropy:
            return Logged(loss, count, numbers)
        added, num_added = self.teacher_forcing(memory, batch.tokens)
        return Logged(loss, count, numbers, self.stage.cross_entropy * added, num_added)

    def baseline(self, image_ids: list[int], memory: Memory, rewards: Tensor, greedy: Tensor | None) -> Tensor | None:
        """Return the reward [B] of the greedy caption, or the mean over the beams; None for a mean of samples."""
        if greedy is not None:
            return self.reward(image_ids, greedy)[:, 0]
        if self.stage.baseline != "mean_of_beam":
            return None
        if self.stage.sampling == "multinomial":
            rewards = self.reward(image_ids, self.search(memory, self.stage.samples))
        return rewards.mean(1)

    def draw(self, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Draw S captions per image, [B, S, T], T the longest, and the greedy one [B, 1, max_length] if it is used."""
        greedy, samples = self.stage.baseline == "greedy", self.stage.samples
        if self.stage.sampling == "beam":
            tokens, best = self.search(memory, samples), self.search(memory, 1) if greedy else None
        else:
            step, start = with_banned_tokens(self.model.step, BANNED), self.model.start(memory)
            both = sample(
                step,
                start,
                self._batch(memory),
                max_length=self.max_length,
                samples=samples,
                top_p=self.stage.top_p,
                greedy=greedy,
            )
            tokens, best = both[:, :samples], both[:, samples:] if greedy else None
        return tokens[..., : int((tokens != PAD).sum(-1).max())], best

    def search(self, memory: Memory, beam: int) -> Tensor:
        """Return the captions [B, beam, max_length] of a beam search."""
        step = with_banned_tokens(self.model.step, BANNED)
        settings = DecodingSettings(beam=beam, max_length=self.max_length)
        return beam_search(step, self.model.start(memory), self._batch(memory), settings).tokens

    def _batch(self, memory: Memory) -> DecodingBatch:
        return DecodingBatch(len(memory.values), BOS, EOS, PAD, memory.values.device)

    def reward(self, image_ids: list[int], tokens: Tensor) -> Tensor:
        """Reward of captions [B, S, T] -> [B, S] float64 on the CPU."""
        drop = {PAD} if self.stage.reward_end_token else {PAD, EOS}
        captions = [[token for token in row if token not in drop] for row in tokens.flatten(0, 1).tolist()]
        owners = [image for image in image_ids for _ in range(tokens.shape[1])]
        parts = [weight * scorer.score(owners, captions) for weight, scorer in self.scorers if weight]
        rewards = torch.from_numpy(sum(parts[1:], parts[0]))
        if not torch.isfinite(rewards).all():
            raise TrainingError(
                f"the reward of image {owners[int((~torch.isfinite(rewards)).nonzero()[0])]} is NaN or infinite"
            )
        return rewards.unflatten(0, tuple(tokens.shape[:2]))

    def policy(self, memory: Memory, sampled: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities [R, V] of what may stand at each of R sampled tokens, and where these are (True)."""
        start = torch.full_like(sampled[..., :1], BOS)
        inputs = torch.cat([start, sampled[..., :-1]], -1)
        token_mask = sampled != PAD
        hidden = self.model.decode_words(inputs, token_mask, memory)
        allowed = ban_tokens(self.model.logits(hidden).float(), BANNED)  # [R, V]
        if self.stage.top_p < 1:  # the policy is the nucleus
            chosen = sampled[token_mask][:, None]
            allowed = within(allowed, nucleus(allowed.detach(), self.stage.top_p).isfinite().scatter(-1, chosen, True))
        return allowed, token_mask

    def teacher_forcing(self, memory: Memory, tokens: Tensor) -> tuple[Tensor, int]:
        """Return the cross-entropy of the references [B, C, T + 1] per token, and the number of tokens."""
        inputs, targets = tokens[..., :-1], tokens[..., 1:]
        token_mask = targets != PAD
        logits = self.model.logits(self.model.decode_words(inputs, token_mask, memory))
        return cross_entropy(logits.float(), targets[token_mask]), len(logits)
