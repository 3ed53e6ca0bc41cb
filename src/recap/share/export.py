"""A trained run as one folder that needs no other file, with its card, as the HuggingFace hub has
it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from recap.core.checksums import record
from recap.core.errors import ConfigError, RecapError
from recap.core.files import atomic_path, write_text
from recap.plan.run import row_setting
from recap.runs.folder import CONFIG, read_weights
from recap.settings.metrics import score_info
from recap.settings.params import load_named, read_mapping
from recap.settings.versions import entry_of, list_of, read_versions
from recap.share.run_files import (
    VOCABULARY,
    WEIGHTS,
    RunFiles,
    find_run_files,
    results_of,
    scores_of,
    write_extractors,
)
from recap.statistics.results import read_tables
from recap.statistics.scores import read_metrics
from recap.tables.formats import markdown_text
from recap.tables.text import plain

_CARD = "README.md"
_USE = """\
## Use

Install recap with `pip install 'recap-captions[hub]'`.

```python
import recap

captioner = recap.load("FOLDER")  # or recap.load("hub:OWNER/NAME@REVISION")
captioner("photo.jpg")
```
"""
_LIMITS = (
    "## Limits\n\nThe model knows what its data set shows, in the words of its references. "
    "Captions can be wrong, and can repeat prejudices of the data. Do not use them "
    "where an error does harm."
)


def export_hub(run: Path, out: Path, *, params: Path, **files_of: Any) -> None:
    """Write a run with its vocabulary, what makes its features,
    and a card into a new folder, there when it is whole.

    `params` has the list of outside files with the licenses of the data; `run` and `files_of` as of
    `find_run_files`.
    """
    files = find_run_files(run, **files_of)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out}: is there already; name a new folder")
    read_weights(files.run / WEIGHTS)
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as temporary_folder:
        part = Path(temporary_folder) / out.name
        made_from = read_mapping(files.run / CONFIG)
        made_from |= {"name": files.name, "decoding": files.decoding.model_dump(mode="json")}
        write_text(part / CONFIG, yaml.safe_dump(made_from, sort_keys=True))
        files.vocabulary.save(part / VOCABULARY)
        described = write_extractors(part, files.extractors)
        with atomic_path(part / WEIGHTS) as temporary:
            shutil.copyfile(files.run / WEIGHTS, temporary)
        write_text(part / _CARD, _card(files, made_from["spec"], params))
        record(part / CONFIG, part / VOCABULARY, part / _CARD, *described)
        part.replace(out)


def _card(files: RunFiles, spec: Mapping[str, Any], params: Path) -> str:
    """Return a run's card as Markdown with the hub's header: what it is, how good, its use."""
    kind = str(spec["model_settings"]["kind"])
    search = files.decoding
    header: dict[str, Any] = {
        "library_name": "recap",
        "pipeline_tag": "image-to-text",
        "tags": ["image-captioning", kind],
        "license": "other",
        "license_name": "see-licenses-of-the-data",
    }
    results = results_of(files.run)
    scales = []
    for table in read_tables(results) if results else []:
        if row_setting(spec) in {row_setting(vars(row)) for row in table.rows}:
            scales.append(_safe(table.scale))
    sections = [
        f"# {_safe(files.name)}",
        f"A model of kind `{kind}` that captions images, trained with recap on the data set "
        f"{_safe(spec['dataset'])} (subset {_safe(spec['subset'])}, features "
        f"{_safe(spec['features'])}, recipe {_safe(spec['recipe'])}, seed {_safe(spec['seed'])}).",
        *scales[:1],
        _USE,
        f"## Scores\n\n{_scores(files.run)}",
        f"## Decoding\n\nBeam search with {search.beam} beams, at most {search.max_length} words "
        "or pieces a caption.",
        f"## Licenses\n\n{_licenses(spec['dataset'], params)}",
        _LIMITS,
    ]
    text = "\n\n".join(filter(None, sections))
    return f"---\n{yaml.safe_dump(header, sort_keys=False)}---\n\n{text}\n"


def _safe(text: object) -> str:
    return markdown_text(plain(str(text)))


def _scores(run: Path) -> str:
    folder = scores_of(run)
    if folder is None:
        return "The run was not evaluated."
    metrics = read_metrics(folder)
    lines = [f"| metric | {_safe(metrics.split)} split |", "|---|---|"]
    for name, value in metrics.scores.items():
        if value is not None:
            lines.append(f"| {_safe(name)} | {score_info(name).scale * value:.2f} |")
    lines += ["", f"Signature: `{plain(metrics.signature).replace('`', '')}`"]
    return "\n".join(lines)


def _licenses(dataset: str, params: Path) -> str:
    """Return the licenses of a data set's files, as the list of outside files has them."""
    try:
        names = load_named(params, "datasets", dataset).outside_files()
        listed = read_versions(list_of(params))
    except RecapError:  # a data set of one's own, or no folder of parameter files here
        return (
            f"{params} does not name the data set {_safe(dataset)}: add its license here before "
            "you share the model."
        )
    if not names:
        return "The data set is drawn by recap itself (MIT)."
    lines = ["The weights were trained on:", ""]
    for name in names:
        entry = entry_of(name, listed)
        lines.append(f"- {_safe(name)}: {_safe(entry.licence if entry else 'not listed')}")
    return "\n".join(lines)
