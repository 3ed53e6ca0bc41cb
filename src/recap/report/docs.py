"""Pages of docs made from published runs alone, and the check that they still agree."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from recap.core.documents import parse, read_json, write_json
from recap.core.errors import DataError, counted
from recap.core.files import atomic_path, reading, write_text
from recap.core.log import log
from recap.plan.claims import claims_spec
from recap.plan.costs import Costs
from recap.plan.plan import Plan
from recap.plan.profiles import named_plan
from recap.plan.run import Run
from recap.plan.run_jobs import is_scored
from recap.plan.specs import curves_spec, run_spec
from recap.report.figures import write_curves
from recap.report.hours import epoch_hours, hours_table, measured_costs
from recap.report.page import HOUR, by_series, shown_table
from recap.report.published import (
    PICTURES,
    PUBLISHED,
    Header,
    Training,
    published_files,
    read_published,
    restored,
)
from recap.settings.params import flat
from recap.settings.tables import STAGE_NAMES
from recap.settings.versions import entry_of, list_of, read_versions
from recap.statistics.claims import NOT_RUN, judge_claims
from recap.statistics.scores import read_captions, read_metrics
from recap.tables.claims import claim_line
from recap.tables.formats import markdown_table, markdown_text
from recap.tables.text import Block, TextTable, columns_of, plain, text_line

PROSE, IMAGES = "prose", "images"  # folders below that of the pages
PAGES = "pages.json"  # the scales of each page, for `recap report check`
NONE_PUBLISHED = "No run at this scale is published."
_SHOWN = re.compile(r"(<!-- first table of (\S+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
_COLUMNS = ("Stage", "Seeds", "Core hours", "Finished")


def write_docs(name: str, plans: Sequence[Plan], into: Path) -> Path:
    """Write ``<name>.md`` from ``published/`` beside it: a section per scale, with a figure."""
    page = into / f"{name}.md"
    pages = into / PAGES
    others = read_json(pages, dict[str, list[str]]) if pages.is_file() else {}
    write_json(pages, others | {name: _scales(plans)})
    write_text(page, docs_page(name, plans, into, into / IMAGES))
    readme = readme_of(into)
    if readme.is_file():
        write_text(readme, with_tables(readme.read_text(encoding="utf-8"), into))
    log.info(f"{page}: {counted(len(plans), 'scale')}")
    return page


def _scales(plans: Sequence[Plan]) -> list[str]:
    return [plan.profile.scale for plan in plans if plan.profile.scale]


def readme_of(into: Path) -> Path:
    """Return the README of the project whose pages of results are in a folder, ``docs/results``."""
    return into.absolute().parents[1] / "README.md"


def with_tables(text: str, into: Path) -> str:
    """Return a text whose ``<!-- first table of xlan.md -->`` have the tables of the pages."""

    def first_table(place: re.Match[str]) -> str:
        rows = (
            (into / place[2]).read_text(encoding="utf-8").partition("\n|")[2].partition("\n\n")[0]
        )
        return f"{place[1]}|{rows}\n"

    return _SHOWN.sub(first_table, text)


def docs_page(name: str, plans: Sequence[Plan], into: Path, images: Path) -> str:
    """Return the text of a page, and write its figures into the folder ``images``."""
    scales = "".join(f" {scale}" for scale in _scales(plans))
    words = f"{name} --scale{scales}" if scales else name
    made_by = (
        f"Made by `recap report docs {words} --into {into.as_posix()}` from `{PUBLISHED}/` and "
        f"`{PROSE}/`; `make results` checks it. A change by hand is lost."
    )
    lines = [f"# Results of {name}", "", made_by, ""]
    for plan in plans:
        scale = plan.profile.scale
        lines += ["", f"## Scale {scale}" if scale else "## Without a scale", ""]
        with restored(plan, into / PUBLISHED) as (copy, headers):
            lines += _section(plan, copy, headers, into, images) if headers else [NONE_PUBLISHED]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def _section(
    plan: Plan, copy: Plan, headers: Mapping[str, Header], into: Path, images: Path
) -> Iterator[str]:
    """Yield the lines of a scale: what was run, tables, figure, verdicts, runs, gaps."""
    results = Path(copy.files.results)
    name = plan.profile.name
    behind: dict[str, Training] = {}
    for header in headers.values():
        behind |= {training.path: training for training in header.trainings}
    shown = list(_tables(plan, copy, headers))
    scale = next((table.scale for table in shown if table.scale), "")
    costs = measured_costs(plan, into)
    yield f"{markdown_text(scale)} {_summary(headers, behind, by_clock=not costs)}".strip()
    yield from ("", _paragraph(into / PROSE / f"{name}.md"), "")
    for each in shown:
        own_scale = "" if each.scale == scale else each.scale
        yield markdown_table(replace(each, scale=own_scale), level=3)
    runs = [run for run in plan.trained if run.path in behind]
    compared = [run for run in copy.trained if run.path in behind]  # of the tables' seeds
    if compared and costs:
        yield from ("", markdown_table(hours_table(plan, compared, behind, costs), level=3))
    if compared:
        yield from _curves(plan, compared, costs, results, images)
    yield from _captions(plan, copy, into / PUBLISHED / name / PICTURES)
    yield from _claims(copy, results / "scores")
    if runs and not costs:
        yield from ("", markdown_table(_runs_table(plan, runs, behind), level=3))
    yield from _missing(plan, headers)
    yield from ("", f"Data, for research use: {_sources(plan, headers)}.")


def _tables(plan: Plan, copy: Plan, headers: Mapping[str, Header]) -> Iterator[TextTable]:
    """Yield each table that has a published run, and behind it that of all pairs if it has one."""
    for table_id in copy.tables:
        if not {run.path for run in plan.table_runs(table_id)} & headers.keys():
            continue
        table = shown_table(copy, table_id)
        signatures = table.full.signatures if table.full else []
        yield replace(table.paper, signatures=signatures)
        if table.full and table.full.more:
            yield table.full.more


def _curves(
    plan: Plan, runs: Sequence[Run], costs: Costs | None, results: Path, images: Path
) -> Iterator[str]:
    """Draw the learning curves over epochs, and over hours where steps were measured; yield the
    lines that show them."""
    curves = results / "curves.csv"
    figure = curves.with_suffix(".png")
    axes: dict[str, dict[str, float] | None] = {"after each epoch": None}
    if costs:
        axes = {"over hours of training": epoch_hours(runs, costs), **axes}
    for words, hours in axes.items():
        write_curves(
            spec=curves_spec(plan, runs),
            runs=results / "runs",
            out=curves,
            figure=figure,
            epoch_hours=hours,
        )
        name = f"{plan.profile.name}_hours.png" if hours else f"{plan.profile.name}.png"
        # 256 colors take half of the bytes, and no line gets that of another.
        with Image.open(figure) as picture, atomic_path(images / name) as temporary:
            picture.convert("RGB").quantize(256).save(temporary, format="PNG", optimize=True)
        yield from ("", f"![Validation CIDEr-D {words}, by model and stage]({IMAGES}/{name})", "")


def _captions(plan: Plan, copy: Plan, pictures: Path) -> Iterator[str]:
    """Yield the captions of some test images by all rows of a table, with the pictures' names."""
    names = read_json(pictures, dict[str, dict[int, str]]) if pictures.is_file() else {}
    scores = Path(copy.files.results) / "scores"
    for table_id, files in names.items():
        rows = copy.table_rows(table_id) if table_id in copy.tables else []
        captions = {}
        for each in rows:
            run = each.runs[0]
            if is_scored(copy, run):
                split = read_metrics(scores / run.path).split
                captions[each.row.label] = read_captions(scores / run.path, split)
        if not captions:
            continue
        yield from ("", f"### Captions: {markdown_text(copy.tables[table_id].title)}", "")
        seed = copy.seeds[table_id][0]
        yield f"Random test images; captions of seed {seed}. The photographs are not included."
        for image, file in files.items():
            yield from ("", f"`{file}`", "")
            for label, texts in captions.items():
                yield f"- {markdown_text(label)}: {markdown_text(texts[image])}"


def _claims(plan: Plan, scores: Path) -> Iterator[str]:
    """Yield the verdicts on the claims of a plan's papers, if it has any."""
    claims = claims_spec(plan)
    if claims is None:
        return
    yield from ("### Claims of the paper", "")
    waiting = []
    for verdict in judge_claims(claims, scores):
        if verdict.verdict == NOT_RUN:
            waiting.append(verdict.claim.id)
        else:
            yield f"- {markdown_text(claim_line(verdict, claims.scale))}"
    if waiting:
        yield f"- {markdown_text('Not run: ' + ', '.join(waiting))}"


def _sources(plan: Plan, headers: Mapping[str, Header]) -> str:
    """Return the published data sets with the terms of their files."""
    files = read_versions(list_of(plan.params)) if list_of(plan.params).is_file() else {}
    sources = []
    for dataset in sorted({path.partition("/")[0] for path in headers}):
        entries = (entry_of(name, files) for name in plan.settings.dataset(dataset).outside_files())
        terms = dict.fromkeys(entry.licence for entry in entries if entry and entry.licence)
        sources.append(f"{dataset} ({'; '.join(terms) or 'made by recap'})")
    return markdown_text(", ".join(sources))


def _summary(
    headers: Mapping[str, Header], behind: Mapping[str, Training], *, by_clock: bool
) -> str:
    """Return what was run in one sentence, with the hours by the clock or without."""
    text = f"Published: {counted(len(headers), 'scored run')}"
    seeds = sorted({header.seed for header in headers.values() if header.seed is not None})
    if seeds:
        word = "seeds" if len(seeds) > 1 else "seed"
        text += f" with {word} {', '.join(map(str, seeds))}"
    text += f", of {counted(len(behind), 'training')}"
    if behind:
        hours, days = _took(behind.values())
        took = f"took {hours:,.1f} core hours and " if by_clock else ""
        text += f" that {took}ended {days}"
    return f"{text}."


def _took(trainings: Collection[Training]) -> tuple[float, str]:
    """Return the core hours of trainings, and the days of the first and the last end."""
    dates = sorted(training.finished for training in trainings)
    hours = sum(training.cpu_seconds for training in trainings) / HOUR
    return hours, " to ".join(dict.fromkeys(dates[:1] + dates[-1:]))


def _runs_table(plan: Plan, runs: Sequence[Run], behind: Mapping[str, Training]) -> TextTable:
    """Return a line for each training stage of a row: its seeds, core hours, and days."""
    lines = []
    series = by_series(runs)
    for key, label in plan.short_labels(runs).items():
        hours, days = _took([behind[run.path] for run in series[key]])
        seeds = ", ".join(str(run.seed) for run in series[key])
        texts = [STAGE_NAMES[series[key][0].stage], seeds, f"{hours:.2f}", days]
        lines.append(text_line(plain(label), texts))
    table = TextTable("Runs", "", columns_of(_COLUMNS), "paper", [Block("", lines)])
    table.notes = ["Core hours: by the clock, with validations, times threads."]
    return table


def _missing(plan: Plan, headers: Mapping[str, Header]) -> Iterator[str]:
    """Yield how many runs of each table are not published, and the command that counts hours."""
    missing = []
    for table_id in plan.tables:
        paths: set[str] = set()
        for row in plan.table_rows(table_id):
            paths.update(run.path for run in row.runs)
        count = len(paths - headers.keys())
        if count:
            missing.append(f"{count} of {counted(len(paths), 'run')} of {table_id}")
    if missing:
        scale = plan.profile.scale
        command = f"recap plan {plan.profile.name.removesuffix(f'_{scale}')}"
        if scale:
            command += f" --scale {scale}"
        yield from ("", "### Not run yet", "")
        yield f"{', '.join(missing)}. `{command}` counts the hours of each table."


def _paragraph(path: Path) -> str:
    """Return the paragraph of prose on one line; nothing where there is no such file."""
    with reading(path, damaged="save it as UTF-8"):
        text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    if re.search(r"\n\s*\n|^#|^\|", text, re.MULTILINE):
        raise DataError(f"{path}: more than a paragraph; keep one, without headings and tables")
    return " ".join(text.split())


def changed_settings(plan: Plan, into: Path) -> Iterator[str]:
    """Yield a sentence for each published training whose settings are not its row's."""
    texts: dict[str, str] = {}
    for file in published_files(into / PUBLISHED / plan.profile.name).values():
        header, _ = read_published(file)
        texts |= {each.path: each.texts["config.yaml"] for each in header.trainings}
    for run in plan.trained:
        if run.path not in texts:
            continue
        before = flat(dict(parse(texts[run.path], f"{run.path}/config.yaml") or {}))
        now = flat(run_spec(plan, run).model_dump(mode="json"))
        # `auto` became a precision when the training began.
        changed = [
            key
            for key in now
            if key != "stage_settings.precision" and now[key] != before.get(f"spec.{key}")
        ]
        if changed:
            yield (
                f"{plan.profile.name}/{run.path}: was published with another "
                f"{' and '.join(changed)}; run it again"
            )


def changed_pages(into: Path, params: Path) -> Iterator[str]:
    """Make each page again in a temporary folder.

    Yield a sentence for each that differs, or is of other settings.
    """
    for name, scales in read_json(into / PAGES, dict[str, list[str]]).items():
        yield from _changed_page(name, scales or [None], into, params)
    readme = readme_of(into)
    if readme.is_file():
        text = readme.read_text(encoding="utf-8")
        if with_tables(text, into) != text:
            yield f"{readme}: has another table than the page that it names; make the page again"


def _changed_page(
    name: str, scales: Sequence[str | None], into: Path, params: Path
) -> Iterator[str]:
    page = into / f"{name}.md"
    with reading(page, missing="make it again", damaged="make it again"):
        text = page.read_text(encoding="utf-8")
    plans = [named_plan(params, name, scale=scale) for scale in scales]
    for plan in plans:
        yield from changed_settings(plan, into)
    with TemporaryDirectory(prefix="recap-pages-") as images:
        again = docs_page(name, plans, into, Path(images)).splitlines()
        # Bytes of figures differ between versions of Matplotlib.
        figures = [file.name for file in Path(images).iterdir()]
    for file in figures:
        if not (into / IMAGES / file).is_file():
            yield f"{page}: has no figure {IMAGES}/{file}; make the page again"
    for line, (before, now) in enumerate(zip_longest(text.splitlines(), again), 1):
        if before != now:
            yield (
                f"{page}: line {line} is not what its command makes from {into / PUBLISHED}; "
                "make the page again"
            )
            return
