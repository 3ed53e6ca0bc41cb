"""The card of a run that is given to others: what it is, how good, from which data, and how it is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from recap.captioning.run_files import RunFiles, results_of, scores_of
from recap.core.errors import RecapError
from recap.plan.labels import row_setting
from recap.plan.result_tables import read_tables
from recap.reporting.markdown import escape_cell
from recap.reporting.text import plain
from recap.settings.metrics import score_info
from recap.settings.params import load_named
from recap.settings.versions import entry_of, list_of, read_versions
from recap.statistics.scores import read_metrics

_USE = """\
```python
import recap

captioner = recap.load("FOLDER")  # or recap.load("hub:OWNER/NAME@REVISION")
captioner("photo.jpg")
```
"""


def model_card(files: RunFiles, spec: Mapping[str, Any], params: Path) -> str:
    """Return the card of a run as Markdown with the hub's header.

    Args:
        files: the run and what it was made with.
        spec: of the run.
        params: folder of the parameter files, whose list of outside files has the licenses of the data.

    Raises:
        RecapError: scores or tables beside the run are damaged.
    """
    kind = str(spec["model_settings"]["kind"])
    header = {
        "library_name": "recap",
        "pipeline_tag": "image-to-text",
        "tags": ["image-captioning", kind],
        "license": "other",
        "license_name": "see-licenses-of-the-data",
    }
    sections = [
        f"# {_safe(files.name)}",
        f"A model of kind `{kind}` that captions images, trained with recap on the data set {_safe(spec['dataset'])} "
        f"(subset {_safe(spec['subset'])}, features {_safe(spec['features'])}, recipe {_safe(spec['recipe'])}, "
        f"seed {_safe(spec['seed'])}).",
        _scale(files, spec),
        f"## Use\n\n{_USE}",
        f"## Scores\n\n{_scores(files)}",
        f"## Decoding\n\n{_decoding(files)}",
        f"## Licenses\n\n{_licences(str(spec['dataset']), params)}",
        "## Limits\n\nThe model knows what its data set shows, in the words of its references. Captions can be wrong, "
        "and can repeat prejudices of the data. Do not use them where an error does harm.",
    ]
    return "---\n" + yaml.safe_dump(header, sort_keys=False) + "---\n\n" + "\n\n".join(filter(None, sections)) + "\n"


def _safe(text: object) -> str:
    return escape_cell(plain(str(text)))


def _scale(files: RunFiles, spec: Mapping[str, Any]) -> str:
    """Return what the tables beside the run say of its scale, where it is in one."""
    results = results_of(files.run)
    for table in read_tables(results) if results else ():
        if row_setting(spec) in [row_setting(row) for row in table["rows"]]:
            return _safe(table["scale"])
    return ""


def _scores(files: RunFiles) -> str:
    folder = scores_of(files.run)
    if folder is None:
        return "The run was not evaluated."
    metrics = read_metrics(folder)
    lines = [
        f"| {_safe(name)} | {score_info(name).scale * value:.2f} |"
        for name, value in metrics.scores.items()
        if value is not None
    ]
    table = "\n".join([f"| metric | {_safe(metrics.split)} split |", "|---|---|", *lines])
    return f"{table}\n\nSignature: `{plain(metrics.signature).replace('`', '')}`"


def _decoding(files: RunFiles) -> str:
    search = files.decoding
    return f"Beam search with {search.beam} beams, at most {search.max_length} words or pieces a caption."


def _licences(dataset: str, params: Path) -> str:
    """Return the licenses of a data set's files, as the list of outside files has them."""
    try:
        names = load_named(params, "datasets", dataset).outside_files()
        listed = read_versions(list_of(params))
    except RecapError:  # a data set of one's own, or no folder of parameter files here
        return f"{params} does not name the data set {_safe(dataset)}: add its license here before you share the model."
    entries = {name: entry_of(name, listed) for name in names}
    lines = [f"- {_safe(name)}: {_safe(entry.licence if entry else 'not listed')}" for name, entry in entries.items()]
    drawn = "The data set is drawn by recap itself (MIT)."
    return "The weights were trained on:\n\n" + "\n".join(lines) if lines else drawn
