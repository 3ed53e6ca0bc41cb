"""The ids that every vocabulary has."""

from __future__ import annotations

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
BANNED = (PAD, BOS, UNK)  # never part of a decoded caption
