"""Settings of vocabularies: the key ``vocabulary`` of a data set."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, PositiveInt, Tag

from recap.settings.outside import NamesFiles, OutsideFile

HUB = "hub:"


class VocabularyRule(NamesFiles):
    """Which words get an id (COCO's rule: lower case, count >= 6 over all splits, 16 words)."""

    min_count: PositiveInt = Field(6, description="words seen less often become <unk>")
    splits: Literal["train", "all"] = Field("train", description="where words are counted; COCO's 9,487 need 'all'")
    max_length: PositiveInt = Field(16, description="captions are cut to this many words in training")


class BytePairRule(NamesFiles):
    """GPT-2's byte pairs in place of words."""

    kind: Literal["bpe"]
    tokenizer: OutsideFile = Field(
        description="a folder with vocab.json and merges.txt, or a tokenizer.json, relative to the profile's `inputs`; "
        "or `hub:openai-community/gpt2@COMMIT`"
    )
    max_length: PositiveInt = Field(60, description="captions are cut to this many pieces, between two words")

    def outside_files(self) -> list[str]:
        """Return the files that the tokenizer is loaded from, relative to `inputs`: none for the hub."""
        if self.tokenizer.startswith(HUB):
            return []
        if self.tokenizer.endswith(".json"):
            return [self.tokenizer]
        return [f"{self.tokenizer}/vocab.json", f"{self.tokenizer}/merges.txt"]


def _rule(values: Any) -> str:
    """Byte pairs say their kind; words, the usual rule, do not."""
    says = "kind" in values if isinstance(values, dict) else isinstance(values, BytePairRule)
    return "BytePairRule" if says else "VocabularyRule"


VocabularyConfig = Annotated[
    Annotated[VocabularyRule, Tag("VocabularyRule")] | Annotated[BytePairRule, Tag("BytePairRule")],
    Discriminator(_rule),
]
