"""GPT-2's byte pairs in small."""

import json

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from recap.data.vocabulary import SPECIAL_PIECES


def write_byte_pairs(folder, lines):
    """Write byte pairs learnt from lines, in GPT-2's two files: all 256 bytes, merges, then the special pieces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet))
    tokenizer.model.save(str(folder))
    numbers = json.loads((folder / "vocab.json").read_text())
    for piece in dict.fromkeys(SPECIAL_PIECES):
        numbers[piece] = len(numbers)
    (folder / "vocab.json").write_text(json.dumps(numbers))
    return folder
