"""Settings of human studies: folders ``studies/``."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from recap.core.errors import ConfigError
from recap.settings.base import Id, Strict, check_distinct, check_known, only_with, reject_if

Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]
SIMULATED = "simulated"  # in place of a folder of responses
PLACEHOLDER = "[name and address of the person who runs this study]"
MOST_CAPTIONS = 9  # that one question offers: each has a digit key
# what the forms of a study are: items and answers, pictures, pages, a batch for crowd workers
STUDY_FILES = ("sheets.json", "gold.md", "pictures.zip", "pages.zip", "batch.csv", "template.html")
RESPONSE_ENDINGS = (".csv", ".json")  # of files of responses


class StudySystem(Strict):
    """A model whose captions are rated, or the people who wrote the reference captions."""

    id: Id
    label: Text
    reference: bool = Field(
        False, description="a reference caption of each image, drawn by the seed; needs no row"
    )


class Setup(Strict):
    """One column of a preference table, e.g. a fraction of the training data.

    Its images are drawn separately.
    """

    id: Id
    label: Text
    rows: dict[str, str] = Field(
        {}, description="system -> <table>/<row>; its first seed's test captions are shown"
    )


Answer = Literal["no", "yes"]


class RightAnswers(Strict):
    """Right answers to a question about gold items.

    Leave out what a careful rater might answer either way.
    """

    own: Answer | None = Field(None, description="where a caption of the image is shown")
    other: Answer | None = Field(None, description="where a caption of another image is shown")


class Question(Strict):
    """A question about one caption, answered with no or yes."""

    id: Id
    label: Text = Field(description="heading in the table")
    text: Text = Field(description="what raters read")
    gold: RightAnswers = RightAnswers()


class Gold(Strict):
    """Items with a known right answer, shown to every rater among the others."""

    count: int = Field(5, ge=0)
    captions: dict[int, str] = Field(
        {}, description="image id -> a verified caption; default: drawn from references"
    )


class Exclusions(Strict):
    """Which raters are left out; each rule is counted in the report.

    A rater goes by the first rule that holds.
    """

    wrong_gold: int = Field(0, ge=0, description="most gold items that a rater may answer wrongly")
    answered: Share = Field(1.0, description="least share of items answered")
    seconds: float = Field(
        0, ge=0, description="least median time per item; forms without times are not judged by it"
    )
    same_position: Share = Field(
        1.0, description="most preferences at one position, as a share; 1: any"
    )


class SimulatedRaters(Strict):
    """Raters drawn at random, to try a study before anyone is asked.

    Marked in all that is made of them.
    """

    seed: int = 1
    clickers: Share = Field(0.1, description="share of raters who click at random")
    votes: dict[str, Weight] = Field({}, description="system -> weight of its vote; default: 1")
    yes: dict[str, Share] = Field({}, description="system -> share of yes; default: 0.3")


class Study(Strict):
    """``params/<paper>/studies/<name>.yaml``: what raters see, and who is left out."""

    title: Text = Field(description="of the table")
    heading: Text = Field(description="title of the forms; must not tell raters what is compared")
    contact: Text = Field(
        PLACEHOLDER, description="whom the consent text names; needed before people are asked"
    )
    source: str = Field("", description="where the printed numbers are from")
    note: str = Field("", description="sentences under the table")
    kind: Literal["preference", "questions"] = Field(
        description="the best of several captions; no or yes about one"
    )
    instruction: Text = Field(description="what raters read above each item")
    questions: list[Question] = Field([], description="of kind `questions`")
    systems: list[StudySystem] = Field(min_length=2, max_length=MOST_CAPTIONS)
    setups: list[Setup] = Field(min_length=1)
    seed: int = Field(
        1, description="decides the images, the order of items and captions, and the gold items"
    )
    images: PositiveInt = Field(description="per setup and system, drawn from the test split")
    raters: PositiveInt = Field(description="per image and system")
    items: PositiveInt = Field(description="most items of one rater, without gold items")
    gold: Gold = Gold()
    exclusions: Exclusions = Exclusions()
    raw_references: bool = Field(
        False, description="show references as people wrote them, not in the corpus's words"
    )
    pixels: int = Field(640, ge=64, le=4096, description="longer side of the pictures shown")
    pictures: Literal["inside", "beside"] = Field(
        "inside", description="of offline pages: within, or in one folder"
    )
    picture_url: str = Field(
        "https://example.org/{file}",
        pattern=r"^https://.*\{file\}",
        description="where the crowd platform finds the files of pictures.zip",
    )
    responses: str | None = Field(
        None, description="folder below `inputs`, or `simulated`; none: forms alone are made"
    )
    simulated: SimulatedRaters = SimulatedRaters()
    printed: dict[str, dict[str, list[float | None]]] = Field(
        {},
        description=(
            "printed numbers by setup or question, then line (share; no, yes, no rate): one per "
            "system"
        ),
    )

    def check_contact(self) -> None:
        """Refuse to ask people with a consent text that names nobody."""
        if self.contact == PLACEHOLDER and self.responses != SIMULATED:
            raise ConfigError(
                "the consent text names nobody; set `contact` in the study's file to the name and "
                f"address of whoever runs the study, or `responses: {SIMULATED}` to try "
                "the study without people"
            )

    _asked = only_with("questions", when=("kind", "questions"))

    _of_one_setup = reject_if(
        lambda study: study.kind == "questions" and len(study.setups) > 1,
        "kind `questions` takes one setup; write a study for each",
    )
    _has_a_choice = reject_if(
        lambda study: (
            study.kind == "preference" and sum(not system.reference for system in study.systems) < 2
        ),
        "a preference study needs two models beside the reference captions",
    )

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        ids: dict[str, list[str]] = {}
        for key in ("systems", "setups", "questions"):
            ids[key] = [each.id for each in getattr(self, key)]
            check_distinct(key, ids[key])
        models = [system.id for system in self.systems if not system.reference]
        for setup in self.setups:
            check_known(f"setup {setup.id!r}: rows", setup.rows, models)
        check_known("simulated.votes", self.simulated.votes, ids["systems"])
        check_known("simulated.yes", self.simulated.yes, ids["systems"])
        asks = self.kind == "questions"
        lines = ["no", "yes", "no rate"] if asks else ["share"]
        check_known("printed", self.printed, ids["questions" if asks else "setups"])
        for block, values in self.printed.items():
            check_known(f"printed.{block}", values, lines)
            for line, numbers in values.items():
                if len(numbers) != len(self.systems):
                    raise ValueError(
                        f"printed.{block}.{line} has {len(numbers)} numbers for "
                        f"{len(self.systems)} systems"
                    )
        return self
