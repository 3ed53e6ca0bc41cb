"""Published results checked without data: all captions scored again, and all pages made again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from recap.core.documents import parse, read_json
from recap.core.errors import MetricError
from recap.core.files import reading
from recap.metrics.scores import score
from recap.plan.jobs import run_spec
from recap.plan.profiles import named_plan
from recap.plan.run_plan import RunPlan
from recap.report.docs import IMAGES, PAGES, docs_page, readme_of, with_tables
from recap.report.published import ENDING, PUBLISHED, metrics_of, published_files, read_published, read_references
from recap.settings.metrics import COCO, METRICS
from recap.settings.params import flat

TOLERANCE = 1e-9


def published_runs(into: Path) -> list[Path]:
    """Return the files of all published runs."""
    return sorted((into / PUBLISHED).glob(f"*/**/*{ENDING}"))


def changed_scores(file: Path, into: Path) -> Iterator[str]:
    """Score the captions of a published run again; yield a sentence for each of COCO's scores that is another one."""
    header, images = read_published(file)
    references, published = read_references(into / PUBLISHED, header, file), metrics_of(header, file).scores
    metrics = [name for name in COCO if any(published.get(each) is not None for each in METRICS.get(name).names)]
    captions = {image.id: image.caption for image in images}
    try:
        scores = score({each.id: each.captions for each in references}, captions, metrics=metrics)
    except MetricError as error:
        yield f"{file}: {error}"
        return
    yield from (f"{file}: {name} was not scored again: {why}" for name, why in scores.failed.items())
    for name in (name for metric in metrics if metric not in scores.failed for name in METRICS.get(metric).names):
        again = scores.per_image.get(name, {})
        pairs = [("corpus", published.get(name), scores.corpus[name])]
        pairs += [(f"image {image.id}", image.scores.get(name), again.get(image.id)) for image in images]
        for where, before, now in pairs:
            if before is None or now is None or not abs(before - now) <= TOLERANCE:
                yield f"{file}: {where}: {name} is {before!r}, and scored again it is {now!r}"


def changed_settings(plan: RunPlan, into: Path) -> Iterator[str]:
    """Yield a sentence for each published training whose settings are no longer those of its row."""
    headers = [read_published(file)[0] for file in published_files(into / PUBLISHED / plan.profile.name).values()]
    texts = {each.path: each.texts["config.yaml"] for header in headers for each in header.trainings}
    for run in (run for run in plan.trained() if run.path in texts):
        before = flat(dict(parse(texts[run.path], f"{run.path}/config.yaml") or {}))
        now = flat(run_spec(plan, run).model_dump(mode="json"))
        # `auto` became a precision when the training began.
        changed = [key for key in now if key != "stage_settings.precision" and now[key] != before.get(f"spec.{key}")]
        if changed:
            yield f"{plan.profile.name}/{run.path}: was published with another {' and '.join(changed)}; run it again"


def changed_pages(into: Path, params: Path) -> Iterator[str]:
    """Make each page again in a temporary folder; yield a sentence for each that differs, or is of other settings."""
    for name, scales in read_json(into / PAGES, dict[str, list[str]]).items():
        page = into / f"{name}.md"
        with reading(page, missing="make it again", damaged="make it again"):
            text = page.read_text(encoding="utf-8")
        plans = [named_plan(params, name, scale=scale) for scale in scales or [None]]
        yield from (sentence for plan in plans for sentence in changed_settings(plan, into))
        with TemporaryDirectory(prefix="recap-pages-") as images:
            again = docs_page(name, plans, into, Path(images)).splitlines()
            # Bytes of figures differ between versions of Matplotlib.
            missing = [file.name for file in Path(images).iterdir() if not (into / IMAGES / file.name).is_file()]
        yield from (f"{page}: has no figure {IMAGES}/{file}; make the page again" for file in missing)
        pairs = zip_longest(text.splitlines(), again)
        if line := next((number for number, (before, now) in enumerate(pairs, 1) if before != now), None):
            yield f"{page}: line {line} is not what its command makes from {into / PUBLISHED}; make the page again"
    if (readme := readme_of(into)).is_file() and with_tables(text := readme.read_text(encoding="utf-8"), into) != text:
        yield f"{readme}: has another table than the page that it names; make the page again"
