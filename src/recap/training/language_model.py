"""Trains a small GPT-2 on texts without pictures, for captioners that begin with its weights; resumes exactly."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from recap.core import checksums
from recap.core.device import mixed, select_device
from recap.core.documents import write_json
from recap.core.errors import TrainingError
from recap.core.files import exclusive
from recap.core.hashing import derived_seed, generator, value_hash
from recap.core.log import log, progress
from recap.core.process import GracefulStop
from recap.data.texts import texts_outside
from recap.data.vocabulary import BOS, EOS, PAD, UNK, load_vocabulary
from recap.models.gpt2 import LanguageModel
from recap.models.gpt2_weights import save_language_model
from recap.nn.fast import PackedIndex
from recap.plan.source import code_digest
from recap.settings import CosineSchedule
from recap.settings.models import LanguageModel as Settings
from recap.training.checkpoint import Identity, continued, save_state
from recap.training.distributed import Group
from recap.training.loop import SAVED
from recap.training.optim import finite_loss, set_rate

NAME = "language model"
CHECKPOINT_MINUTES = 5.0


@dataclass
class Progress:
    """Where a training is; all of it is in the checkpoint."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    step: int = 0
    loss: float = 0.0  # sum over the batches of this epoch
    best: float = math.inf  # lowest validation perplexity
    history: list[dict[str, float]] = field(default_factory=list)


def pretrain_language_model(
    *, spec: Settings, corpus: Path, vocabulary: Path, inputs: Path, device: str, threads: int, state: Path, out: Path
) -> None:
    """Train a language model on texts without the data set's captions; write its weights, and beside them a report."""
    torch.set_num_threads(threads)
    words = load_vocabulary(vocabulary)
    texts = texts_outside(spec, corpus=corpus, inputs=inputs)
    longest = spec.positions - 1  # positions are those of <bos> and the words; <eos> is never read
    ids = [words.encode(tokens)[:longest] for tokens in texts.tokens]
    order = generator(spec.seed, "validation texts").permutation(len(ids))
    if len(ids) <= spec.validation_texts:
        raise TrainingError(
            f"{len(ids)} texts leave none to train on; lower validation_texts, now {spec.validation_texts}"
        )
    validation, training = (
        [ids[index] for index in part] for part in (order[: spec.validation_texts], order[spec.validation_texts :])
    )
    log.info(
        f"{NAME}: {len(training)} training and {len(validation)} validation texts of {texts.read} that were read; "
        f"{texts.in_corpus} were left out because the data set has them, duplicates and empty ones, too"
    )
    torch.manual_seed(derived_seed(spec.seed, "weights"))
    model = LanguageModel(
        vocabulary_size=len(words),
        d_model=spec.d_model,
        heads=spec.heads,
        d_feed_forward=spec.d_feed_forward,
        layers=spec.layers,
        positions=spec.positions,
        dropout=spec.dropout,
    ).to(select_device(device))
    identity: Identity = {
        "settings": spec.model_dump(mode="json"),
        "inputs": {"vocabulary_hash": words.hash, "texts_hash": value_hash(ids)},
        "source": code_digest("recap.training.language_model"),
    }
    with exclusive(state / "lock", wait_seconds=60.0, what=f"the state folder {state}"):
        found = LanguageModelTraining(spec, model, training, validation, state, identity)
        done = found.run()
    model.load_state_dict(found.best)
    save_language_model(out, model.decoder, words.hash, heads=spec.heads)
    report = out.with_suffix(".json")
    write_json(
        report,
        {
            "texts_read": texts.read,
            "texts_in_the_data_set": texts.in_corpus,
            "training_texts": len(training),
            "validation_texts": len(validation),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "vocabulary_hash": words.hash,
            "perplexity": done.best,
            "history": done.history,
        },
    )
    checksums.record(report)


class LanguageModelTraining:
    """Next-token training of one language model on texts, each token ids without <bos> and <eos>.

    A checkpoint in the folder `state` of anything but `identity` is set aside.

    Attributes:
        best: the weights of the epoch with the lowest validation perplexity so far.
    """

    def __init__(
        self,
        spec: Settings,
        model: LanguageModel,
        training: list[list[int]],
        validation: list[list[int]],
        state: Path,
        identity: Identity,
    ) -> None:
        self.spec, self.model, self.training, self.validation = spec, model, training, validation
        self.state, self.identity = state, identity
        self.device = next(model.parameters()).device
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=0.0, betas=(0.9, 0.98), weight_decay=spec.weight_decay, fused=True
        )
        self.schedule = CosineSchedule(learning_rate=spec.learning_rate, warmup=spec.warmup)
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self._stop = GracefulStop(NAME)

    def run(self) -> Progress:
        """Train to the end, continuing where a killed training of the same identity was."""
        self._resume()
        with self._stop:
            while self.progress.epoch < self.spec.epochs:
                self._epoch()
        return self.progress

    def _resume(self) -> None:
        saved = continued(self.state, self.identity)
        if saved is None:
            return
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.best, self.progress = saved["best"], Progress(**saved["progress"])
        log.info(f"{NAME}: continuing at epoch {self.progress.epoch + 1}, batch {self.progress.batch + 1}")

    def _save(self) -> None:
        state: dict[str, Any] = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "best": self.best,
            "progress": asdict(self.progress),
        }
        random_states = Group(device=self.device).random_states()
        save_state(self.state, state, identity=self.identity, random_states=random_states)

    def _epoch(self) -> None:
        done = self.progress
        batches = self.batches(done.epoch)
        name, saved = f"{NAME}, epoch {done.epoch + 1}/{self.spec.epochs}", time.monotonic()
        self.model.train()
        for chosen in progress(batches[done.batch :], name=name, unit="batches"):
            self._step([self.training[index] for index in chosen], len(batches))
            if self._stop.received is not None or time.monotonic() - saved > 60 * CHECKPOINT_MINUTES:
                self._save()
                saved = time.monotonic()
                if self._stop.received is not None:
                    raise self._stop.exit(SAVED)
        perplexity = self.perplexity()
        loss = done.loss / len(batches)
        if perplexity < done.best:
            done.best = perplexity
            self.best = {key: value.detach().cpu().clone() for key, value in self.model.state_dict().items()}
        done.history.append({"epoch": done.epoch + 1, "loss": loss, "perplexity": perplexity})
        log.info(f"{name}: loss {loss:.4f}, validation perplexity {perplexity:.2f}")
        done.epoch, done.batch, done.loss = done.epoch + 1, 0, 0.0
        self._save()

    def batches(self, epoch: int) -> list[list[int]]:
        """Return the texts of each batch of an epoch, by index; the order depends on seed and epoch alone."""
        order = generator(self.spec.seed, "texts", epoch).permutation(len(self.training)).tolist()
        size = self.spec.texts_per_batch
        return [order[first : first + size] for first in range(0, len(order), size)]

    def _step(self, texts: list[list[int]], batches: int) -> None:
        done = self.progress
        rate = set_rate(
            self.optimizer,
            self.schedule,
            step=done.step + 1,
            epoch=done.epoch,
            lr_drops=0,
            d_model=self.spec.d_model,
            steps=self.spec.epochs * batches,
        )
        with mixed(self.spec.precision, self.device):
            loss = self.loss(texts).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.spec.clip_norm)
        try:
            value = finite_loss(loss, norm, done.step + 1)
        except FloatingPointError as error:
            raise TrainingError(f"{NAME}: {error}; lower learning_rate, now {rate:.3g}") from error
        self.optimizer.step()
        done.step, done.batch, done.loss = done.step + 1, done.batch + 1, done.loss + value

    def loss(self, texts: list[list[int]]) -> Tensor:
        """Return the cross-entropy of each token of some texts and of their ends, [R].

        Words without an id are read, but never predicted: a captioner does not say them.
        """
        rows = [torch.tensor([BOS, *text, EOS]) for text in texts]
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD).to(self.device)
        targets = tokens[:, 1:]
        real = targets != PAD
        hidden = self.model(tokens[:, :-1], PackedIndex(real[:, None]))
        packed = targets[real]
        known = packed != UNK
        return cross_entropy(self.model.logits(hidden[known]).float(), packed[known], reduction="none")

    @torch.no_grad()
    def perplexity(self) -> float:
        """Return exp of the mean cross-entropy of a token of the validation texts."""
        self.model.eval()
        size = self.spec.texts_per_batch
        parts = [self.loss(self.validation[first : first + size]) for first in range(0, len(self.validation), size)]
        return math.exp(torch.cat(parts).double().mean().item())
