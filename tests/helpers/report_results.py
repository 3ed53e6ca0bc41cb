"""Files of a tiny profile as its jobs leave them, invented, for tests of its report."""

import json
import shutil
import zipfile
from pathlib import Path

from helpers.generators import jpeg
from helpers.score_files import write_run
from recap.data.corpus import Caption, write_corpus
from recap.plan.profiles import named_plan
from recap.plan.run import file_name
from recap.statistics.compare import compare_table

PARAMS = Path(__file__).resolve().parents[1] / "workflow" / "params"
IMAGES = range(12)
HOSTILE = "<script>alert('x')</script> & \"both\""


class ReportFolder:
    """A folder in which the report of the profile `tiny` is made.

    The working folder must be this one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(PARAMS, folder / "params")
        path = folder / "params" / "tables" / "tiny.yaml"
        path.write_text(path.read_text().replace("label: ZoDIAC", f"label: {json.dumps(HOSTILE)}"))

    def plan(self):
        return named_plan(Path("params"), "tiny", inputs="inputs")

    def write_data(self):
        """Write the corpus and its pictures."""
        plan = self.plan()
        for dataset in plan.datasets:
            captions = [
                Caption(i, f"{i}.jpg", split, 10 * i + n, f"{HOSTILE} {i}", ["a"])
                for i, split in [*((i, "test") for i in IMAGES), (100, "train"), (101, "val")]
                for n in range(2)
            ]
            corpus = Path(plan.files.of("corpus", dataset=dataset)["corpus"])
            corpus.parent.mkdir(parents=True, exist_ok=True)
            write_corpus(captions, corpus, dataset=dataset, kind="test", source_sha256="ab" * 32)
            with zipfile.ZipFile(corpus.with_name("images.zip"), "w") as archive:
                for image in IMAGES:
                    archive.writestr(f"{image}.jpg", jpeg(image))

    def write_training(self, run, seconds=1800.0):
        """Write the record of a training."""
        folder = Path(self.plan().files.results) / "runs" / run.path
        folder.mkdir(parents=True, exist_ok=True)
        record = {
            "seconds": seconds,
            "git_commit": "c0ffee",
            "torch": "2.13.0",
            "features": "tiny",
            "parameters": 1e6,
            "steps": 10,
        }
        (folder / "training.json").write_text(
            json.dumps({**record, "feature_hash": "fade", "device": "cpu"})
        )

    def write_scores(self, run, more=0.0):
        """Write the scores of a run."""
        better = more + 0.1 * (run.model == "zodiac")
        scores = {name: [0.3 + better + 0.01 * i for i in IMAGES] for name in ("BLEU-4", "CIDEr")}
        write_run(
            Path(self.plan().files.results) / "scores" / run.path, scores, ids=IMAGES, not_run=()
        )

    def write_all(self):
        """Write what a finished profile has, of its first table."""
        plan = self.plan()
        self.write_data()
        for run in plan.trained:
            self.write_training(run)
        for run in plan.scored:
            self.write_scores(run)
        self.write_statistics()

    def write_statistics(self):
        """Compare the rows of every table."""
        plan = self.plan()
        results = Path(plan.files.results)
        for table_id in plan.tables:
            compare_table(
                table=plan.tables[table_id],
                name=file_name(table_id),
                seeds=plan.seeds[table_id],
                scores_root=results / "scores",
                statistics_out=results / "statistics" / f"{file_name(table_id)}.json",
                trainings={
                    run.path: [results / "runs" / stage.path for stage in plan.stages(run)]
                    for run in plan.table_runs(table_id)
                },
            )


def write_claim(profile: ReportFolder) -> None:
    """Let a paper claim something about the rows of the profile's table."""
    folder = profile.folder / "params" / "mine"
    folder.mkdir()
    check = {"table": "tiny", "row": "zodiac", "against": "transformer"}
    claim = {"id": "mine.c1", "sentence": f"ZoDIAC wins {HOSTILE}", "where": "1", "checks": [check]}
    (folder / "claims.yaml").write_text(json.dumps({"claims": [claim]}))
