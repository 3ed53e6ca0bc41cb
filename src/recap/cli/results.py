"""Finished results: ``recap report``, ``runs``, ``tables``, ``track`` and ``artifacts``."""

import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from recap.cli.commands import Group
from recap.cli.options import PARAMS, RESULTS, InputsFolder, Paths, above_0, print_columns
from recap.core.errors import (
    ConfigError,
    DataError,
    MissingData,
    RecapError,
    UnknownName,
    counted,
    nearest,
)

if TYPE_CHECKING:
    from recap.settings.specs import ClaimsSpec

REPORT = Group("report", "write tables, figures and pages of results")
RUNS = Group("runs", "list and show finished runs")
TABLES = Group("tables", "show finished tables")
ARTIFACTS = Group("artifacts", "push, pull, verify or remove results")
FIGURES = (
    "begin of the files' paths: with figures/mine, attention.png becomes figures/mine_attention.png"
)
PAPERS = "papers, or folders results/<paper>_<scale> (default: all papers)"
PUSHED = "its name (default: all in dvc.profiles.yaml that have results)"
PULLED = "its name (default: all in dvc.profiles.yaml whose results dvc.lock names)"
PART = "only runs with this text in their key or name"
PHOTOS = "folders or zips with the photos (the data set's own, if drawn)"
TABLE = "name of a table, as in params (mine/t3); without, all are listed"
FOUND = "folder, key or name of a run, or a part that only one has"

OutsideFiles = Annotated[
    str | None,
    "folder of outside files, as given to Snakemake with --config inputs=FOLDER",
    "FOLDER",
]
PUBLISHED = "folder of the published runs (docs/results/published)"
PAGES = "folder of the pages, with published/, prose/ and images/ (docs/results)"
DATA_FOLDER = "folder of the data sets (without it, BLEU and METEOR are not scored again)"
RESULT_PAGES = Path("docs/results")


@REPORT.command(
    """
        recap report figure --spec '{"kind": "attention", "count": 5}' --corpus corpus.parquet \\
          --vocabulary vocabulary.json --features features.h5 --images photos.zip \\
          --runs base run --labels Transformer Mine --out figures/mine
    """,
    spec="figures:TableFigure",
)
def figure(
    *,
    spec: Any,
    corpus: Path,
    vocabulary: Path,
    out: Annotated[Path, FIGURES],
    features: Paths = (),
    images: Paths = (),
    runs: Annotated[Paths, "run folders; kinds without models have none", {"nargs": "*"}] = (),
    labels: Annotated[Sequence[str], "names of the runs, one each", {"nargs": "*"}] = (),
    texts: Annotated[Paths, "outside files that the figure's settings name", {"nargs": "*"}] = (),
    heading: Annotated[str, "text above the figure", "TEXT"] = "",
) -> None:
    """Draw a figure of trained models or of captions, such as attention."""
    if not len(runs) == len(labels) == len(set(labels)):
        raise ConfigError(
            f"{len(runs)} runs and {len(labels)} labels ({', '.join(labels)}); give each run its "
            "own label"
        )
    from recap.evaluation.figures import DrawnModels, write_figure

    drawn = dict(zip(labels, runs, strict=True))
    write_figure(
        spec, DrawnModels(drawn, corpus, vocabulary, features, images, heading, texts), out
    )


@REPORT.command(
    "recap report claims",
    "recap report claims mine --scale photos --out claims",
    "recap report claims results/mine_photos",
)
def claims(
    papers: Annotated[Sequence[str], PAPERS, "PAPER"] = (),
    *,
    scale: Annotated[
        str | None, "scale (default: the first with scores, or else the first)"
    ] = None,
    results: Annotated[Path, "folder of all results (results)", "FOLDER"] = RESULTS,
    params: Path = PARAMS,
    out: Annotated[
        Path | None, "folder of claims.tex, .csv, .html and .md; of several papers one each"
    ] = None,
) -> None:
    """Judge each claim of the papers by the finished runs."""
    from recap.statistics.claims import judge_claims
    from recap.tables.claims import claim_line, write_claims

    for paper, (of_paper, folder) in _claims_of(papers, scale, results, params).items():
        verdicts = judge_claims(of_paper, folder)
        for verdict in verdicts:
            print(claim_line(verdict, of_paper.scale))
        if out:
            write_claims(verdicts, of_paper.scale, out / paper)


def _claims_of(
    papers: Sequence[str], scale: str | None, results: Path, params: Path
) -> dict[str, tuple["ClaimsSpec", Path]]:
    """Return paper -> its claims and the folder of their scores.

    A paper may be named by a folder of results.
    """
    from recap.plan.claims import papers_with_claims
    from recap.plan.profiles import paper_claims

    names = papers_with_claims(params)
    judged = {}
    for text in papers or names:
        folder = Path(text).resolve()
        if text in names or not folder.is_dir():
            judged[text] = paper_claims(params, text, scale=scale, results=results)
        else:
            paper, _, own = folder.name.partition("_")
            judged[paper] = paper_claims(params, paper, scale=own, results=folder.parent)
    return {"": next(iter(judged.values()))} if len(judged) == 1 else judged


@REPORT.command("recap report make demo", "recap report make scenes")
def make(
    profile: str, *, scale: str | None = None, inputs: InputsFolder = None, params: Path = PARAMS
) -> None:
    """Write one page (and a PDF, if LaTeX is installed) of all results, also while trainings
    run."""
    from recap.plan.profiles import named_plan
    from recap.report.page import make_report

    print(make_report(named_plan(params, profile, scale=scale, inputs=inputs)))


@REPORT.command("recap report publish demo", "recap report publish mine --scale photos")
def publish(
    profile: Annotated[str, "name of a paper or profile (demo)"],
    *,
    scale: str | None = None,
    into: Annotated[Path, PUBLISHED] = Path("docs/results/published"),
    params: Path = PARAMS,
) -> None:
    """Add the scored runs of a profile to the published ones, which stay in git."""
    from recap.plan.profiles import named_plan
    from recap.report import published

    for file in published.publish(named_plan(params, profile, scale=scale), into):
        print(file)


@REPORT.command(
    "recap report docs demo --into docs/results", "recap report docs mine --scale photos"
)
def docs(
    profile: Annotated[str, "name of a paper or profile (demo)"],
    *,
    scale: Annotated[Sequence[str], "scales of the profile, one section each"] = (),
    into: Annotated[Path, PAGES] = RESULT_PAGES,
    params: Path = PARAMS,
) -> None:
    """Write a page of docs from the published runs of a paper's scales."""
    from recap.plan.profiles import named_plan, profile_name
    from recap.report.docs import write_docs

    scales: Sequence[str | None] = scale or [None]
    plans = [named_plan(params, profile, scale=each) for each in scales]
    print(write_docs(profile_name(Path(profile)), plans, into))


@REPORT.command("recap report check", "recap report check --inputs data", name="check")
def check_published(
    *,
    inputs: Annotated[Path | None, DATA_FOLDER, "FOLDER"] = None,
    into: Annotated[Path, PAGES] = RESULT_PAGES,
    params: Path = PARAMS,
) -> None:
    """Check published captions and scores, and make all pages again;
    fail where one is not what it was.

    With the data sets, captions are scored again by all of COCO's metrics. Without them, the
    published scores are used.
    """
    from recap.core.log import log, progress
    from recap.data.corpus import Corpus
    from recap.data.references import references_corpus
    from recap.report.docs import changed_pages
    from recap.report.published import (
        changed_means,
        changed_scores,
        dataset_of,
        published_runs,
    )

    names = {file: dataset_of(file, into) for file in published_runs(into)}
    _fail_on(chain.from_iterable(map(changed_means, names)), str(into))
    corpora = {}
    for name in sorted(set(names.values())) if inputs else ():
        try:
            path = references_corpus(name, params=params, inputs=inputs or Path(), fetch=False)
            corpora[name] = Corpus.read(path)
        except DataError as error:
            log.warning(f"{error} (its captions are not scored again)")
    if inputs and names and not corpora:
        raise MissingData(
            f"{inputs}: has the captions of no published data set; correct the folder"
        )
    scored = [file for file, name in names.items() if name in corpora]
    again = progress(scored, name="scored again", unit="run")
    changed = (changed_scores(file, corpora[names[file]]) for file in again)
    _fail_on(chain.from_iterable(changed), str(into))
    _fail_on(changed_pages(into, params), str(into))
    print(
        f"{into}: captions and scores of {counted(len(names), 'published run')} and all pages are "
        "what they were"
    )
    if len(scored) < len(names):
        print(
            f"BLEU and METEOR of {len(names) - len(scored)} of them were not scored again; "
            "--inputs FOLDER with their data does that"
        )
    else:
        print("All of them were scored again.")


def _fail_on(sentences: Iterable[str], where: str) -> None:
    """Print sentences about what is wrong, and fail if there are any."""
    count = 0
    for sentence in sentences:
        print(sentence)
        count += 1
    if count:
        raise RecapError(f"{where}: {counted(count, 'problem')}")


@REPORT.command("recap report show reports/demo", name="show")
def show_report(
    files: Annotated[Paths, "Markdown or text; a folder: its tables and sample captions", "FILE"],
) -> None:
    """Print finished reports."""
    for file in files:
        pages = [] if file.is_dir() else [file]
        for table in _full_tables(file, "tables"):
            pages += [table, *file.glob(f"figures/{table.stem}_captions.md")]
        for page in pages:
            print(page.read_text(encoding="utf-8"))


def _full_tables(folder: Path, pattern: str) -> list[Path]:
    """Return the tables with every test in folders of tables that are named by a pattern."""
    pages = sorted(folder.glob(f"{pattern}/*.md"))
    return [page for page in pages if not page.match("*.paper.md")]


@RUNS.command("recap runs ls", "recap runs ls demo")
def ls(part: Annotated[str, PART, "TEXT"] = "", *, results: Path = RESULTS) -> None:
    """List the finished runs of all profiles: sizes, hours, scores."""
    from recap.share.tracking_records import finished_runs, run_table

    print_columns(run_table(finished_runs(results), part))


@RUNS.command(
    "recap runs show results/demo/runs/scenes/full/scenes_grid/transformer@demo/seed-1/scst",
    name="show",
)
def show_run(run: Annotated[str, FOUND, "RUN"], *, results: Path = RESULTS) -> None:
    """Show a run: scores with their signature, numbers of the training, every setting."""
    from recap.share.tracking_records import describe_run, find_run, finished_runs

    print("\n".join(describe_run(find_run(finished_runs(results), run))))


@RUNS.command("recap runs gallery 'Wide seed 1 xe' 'Wide seed 1 scst' --out gallery.html")
def gallery(
    runs: Annotated[Sequence[str], "as for `recap runs show`; all of one data set", "RUN"],
    *,
    images: Annotated[Paths | None, PHOTOS, {"nargs": "*"}] = None,
    count: Annotated[int, "size of the random sample of images (200)", above_0(int)] = 200,
    results: Path = RESULTS,
    out: Annotated[Path, "the page (HTML)"],
) -> None:
    """A page with every run's caption of test images,
    beside photo and references, filtered by difference."""
    from recap.report.pictures import write_gallery
    from recap.settings.datasets import PICTURES
    from recap.share.tracking_records import find_run, finished_runs

    finished = finished_runs(results)
    compared = [find_run(finished, name) for name in runs]
    systems: dict[str, Path] = {}
    for run in compared:
        if run.scores_folder is None:
            raise ConfigError(f"{run.key}: was not evaluated, so it has no captions; leave it out")
        systems[run.key if run.name in systems else run.name] = run.scores_folder
    data = compared[0].results / "data" / compared[0].tags["dataset"]
    if images is None:
        images = [data / PICTURES] if (data / PICTURES).exists() else []
    write_gallery(
        systems=systems, corpus=data / "corpus.parquet", images=images, count=count, out=out
    )


@TABLES.command(
    "recap tables show mine/t3", "recap tables show mine/t3 --profile demo", name="show"
)
def show_table(
    table: Annotated[str | None, TABLE, "TABLE"] = None,
    *,
    profile: Annotated[str | None, "profile that made it (default: all that did)"] = None,
    reports: Annotated[Path, "folder of the reports (reports)"] = Path("reports"),
) -> None:
    """Print a finished table."""
    pages = _full_tables(reports, f"{profile or '*'}/tables")
    if table is None and pages:
        print_columns([[page.stem, page.parts[-3]] for page in pages])
        return
    name = (table or "").replace("/", "_")
    matches = [page for page in pages if page.stem == name]
    if not matches:
        known = nearest(name, {page.stem for page in pages}) if pages else "none is finished yet"
        raise UnknownName(f"{reports}: there is no finished table {name!r}; {known}")
    for page in matches:
        if len(matches) > 1:
            print(f"{page}:\n")
        print(page.read_text(encoding="utf-8"))


@ARTIFACTS.command("recap artifacts add params/flickr8k.yaml --inputs /data/flickr8k", name="add")
def add_profile(
    file: Annotated[Path, "of the profile: params/demo.yaml", "FILE"],
    *,
    scale: Annotated[str | None, "of a paper's profile"] = None,
    inputs: Annotated[str | None, "folder of outside files (the profile's)", "FOLDER"] = None,
    fetch: Annotated[bool, "fetch missing outside files"] = False,
    conda: Annotated[bool, "run detectors in their conda environment"] = False,
) -> None:
    """Add a profile to dvc.profiles.yaml, so that DVC versions its results."""
    from recap.share import dvc

    print(
        "dvc repro "
        f"report@{dvc.add_profile(file, scale=scale, inputs=inputs, fetch=fetch, conda=conda)}"
    )


@ARTIFACTS.command("recap artifacts push flickr8k", calls="recap.share.dvc:push")
def push(
    profile: Annotated[str | None, PUSHED, "PROFILE"] = None, *, inputs: OutsideFiles = None
) -> None:
    """Record finished results for git and send them to the DVC remote
    (docs/guides/artifacts.md)."""


@ARTIFACTS.command("recap artifacts pull flickr8k", calls="recap.share.dvc:pull")
def pull(
    profile: Annotated[str | None, PULLED, "PROFILE"] = None, *, inputs: OutsideFiles = None
) -> None:
    """Get the results that dvc.lock names and list them in MLflow (docs/guides/artifacts.md)."""


@ARTIFACTS.command("recap artifacts verify results/demo reports/demo")
def verify(folders: Annotated[Paths, "such as results/demo reports/demo", "FOLDER"]) -> None:
    """Verify all files of results against their checksums."""
    from recap.share.artifacts import problems

    names = ", ".join(map(str, folders))
    _fail_on(chain.from_iterable(map(problems, folders)), names)
    print(f"{names}: every file is what it was when it was made")


@ARTIFACTS.command("recap artifacts clean flickr8k")
def clean(
    profile: Annotated[str, "its name", "PROFILE"], *, yes: Annotated[bool, "do not ask"] = False
) -> None:
    """Remove the results, reports, states and MLflow runs of one profile."""
    from recap.share.artifacts import existing_paths, remove

    paths = existing_paths(profile)
    if not paths:
        print(f"{profile}: nothing is there")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigError(
                f"{profile}: there is no terminal to confirm on; give CONFIRM=yes or --yes to "
                "remove its results"
            )
        print("\n".join(map(str, paths)))
        answer = input(f"Remove these and the runs of {profile} in MLflow? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            print("nothing was removed")
            return
    remove(profile)
    print(f"{profile}: removed {', '.join(map(str, paths))}")
