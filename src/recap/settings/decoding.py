"""How captions are searched: one object from a recipe to the beam search, to the scores and back to `recap.load`."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field, PositiveInt, model_validator

from recap.settings.base import Strict, neutral


class DecodingRules(Strict):
    """What beam search forbids; whatever is set is part of the scores' signature."""

    model_config = ConfigDict(frozen=True)

    no_repeated_ngram: int = Field(0, ge=0, description="no n-gram of this length twice in a caption; 0: no rule")
    no_immediate_repeat: bool = Field(False, description="no word follows itself")
    bad_endings: tuple[str, ...] = Field(default_factory=tuple, description="words a caption may not end on")

    groups: PositiveInt = Field(1, description="diverse beam search: groups into which the beams are divided")
    diversity: float = Field(0.5, gt=0, description="groups: cost of a word that an earlier group says at its place")

    @property
    def text(self) -> str:
        """The rules in a word for signatures, empty where there are none."""
        groups = [f"groups{self.groups}x{self.diversity:g}"] if self.groups > 1 else []
        repeat = ["repeat"] if self.no_immediate_repeat else []
        ngram = [f"ngram{self.no_repeated_ngram}"] if self.no_repeated_ngram else []
        endings = [f"endings({','.join(sorted(self.bad_endings))})"] if self.bad_endings else []
        return "+".join([*ngram, *repeat, *endings, *groups])


class DecodingSettings(Strict):
    """How captions are searched."""

    model_config = ConfigDict(frozen=True)

    beam: PositiveInt = 3
    max_length: PositiveInt = 20
    length_penalty: float = Field(0.0, ge=0, description="scores are divided by length ** this; 0: plain sum")
    rules: DecodingRules = DecodingRules()
    finished: Literal["stay", "set_aside"] = neutral(
        "stay",
        description="captions that have ended compete in the beam to its end, or are set aside and give their place to "
        "open ones (the older form)",
    )
    merge_repeats: bool = neutral(
        False, description="equal neighboring words of a caption are written once, as some released code does"
    )
    n_best: int = Field(0, ge=0, description="write the N best captions of each image, at most `beam`; 0: none")
    batch_size: PositiveInt = 50

    @model_validator(mode="after")
    def _groups_fit(self) -> DecodingSettings:
        if self.beam % self.rules.groups:
            raise ValueError(f"a beam of {self.beam} cannot be divided into {self.rules.groups} groups")
        if self.finished == "set_aside" and self.rules.groups > 1:
            raise ValueError("finished: set_aside goes with one group of beams; leave rules.groups out")
        if self.n_best > self.beam:
            raise ValueError(f"a beam of {self.beam} has no {self.n_best} best captions; widen it or lower n_best")
        return self

    @property
    def signature(self) -> dict[str, str]:
        """Fields of a score's signature, a text for readers: programs read these settings from `metrics.json`."""
        fields = {"beam": f"{self.beam}", "len": f"{self.max_length}", "lp": f"{self.length_penalty:g}"}
        fields |= {"rules": self.rules.text} if self.rules.text else {}
        fields |= {"finished": self.finished} if self.finished != "stay" else {}
        return fields | ({"repeats": "merged"} if self.merge_repeats else {})


class OutsideCaptions(Strict):
    """Takes the place of `DecodingSettings` for captions from a file: how they were searched is not known."""

    model_config = ConfigDict(frozen=True)

    captions_sha256: str = Field(min_length=8, description="of the file")

    @property
    def signature(self) -> dict[str, str]:
        """Field of a score's signature: beginning of the file's hash."""
        return {"captions": f"outside@{self.captions_sha256[:8]}"}
