"""Parameter files for people: those of a section, and every setting of a table's row."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from recap.core.errors import MissingSettings
from recap.plan.plan import Plan
from recap.plan.variants import Sourced, Variant
from recap.settings import TableFile
from recap.settings.models import LANGUAGE_MODEL
from recap.settings.params import base_files, files, flat, load_named, names

_LONGEST = 110  # characters of a title
_OF_ROWS = {
    "datasets": "dataset",
    "subsets": "subset",
    "features": "features",
    "models": "model",
    "recipes": "recipe",
}


def section_names(params: Path, section: str) -> list[str]:
    """Return the names of the files of a section."""
    if not params.is_dir():
        raise MissingSettings(
            f"{params}: there is no such folder; name that of the parameter files with --params"
        )
    return names(params, section)


def files_of(params: Path, section: str) -> list[list[str]]:
    """Return name, papers that use it, size and title of each file of a section."""
    section_files = section_names(params, section)
    papers = _papers(params, _OF_ROWS[section]) if section in _OF_ROWS else {}
    listed = []
    for name in section_files:
        size = ""
        if section == "models" and (
            millions := load_named(params, section, name).expected_parameters
        ):
            size = f"{millions:g} M"
        elif section == "tables":
            size = str(len(load_named(params, section, name).rows))
        listed.append(
            [name, ", ".join(sorted(papers.get(name, ()))), size, _title(params, section, name)]
        )
    return listed


def _title(params: Path, section: str, name: str) -> str:
    """Return the `title` of a file, or else the first sentence of the comment on its top."""
    title = base_files(params, section, name)[-1][1].get("title")
    comment = re.match(r"(?:#.*\n)+", files(params, section, name)[0].read_text(encoding="utf-8"))
    lines = comment[0].splitlines() if comment else []
    text = str(title or " ".join(line.removeprefix("#").strip() for line in lines))
    sentence = re.split(r"(?<=[^.][.;]) (?=[A-Z])", text)[0].rstrip(".;")
    return sentence if len(sentence) <= _LONGEST else f"{sentence[:_LONGEST].rsplit(' ', 1)[0]} ..."


def _papers(params: Path, key: str) -> dict[str, set[str]]:
    """Return by name the folders of the tables whose rows name it at the scale of their paper."""
    papers: defaultdict[str, set[str]] = defaultdict(set)
    for table in names(params, "tables"):
        file: TableFile = load_named(params, "tables", table)
        for row in file.rows:
            value = getattr(row, key) or getattr(file.defaults, key)
            value = value.get("base") if isinstance(value, dict) else value
            listed = value if isinstance(value, list) else [value]
            for name in filter(None, listed):
                papers[name].add(table.rpartition("/")[0])
    return papers


def row_settings(plan: Plan, row_id: str) -> dict[str, Sourced]:
    """Return the settings of a row (``mine/t3/wide``): its own as ``row``, then each file's."""
    resolved = plan.row(row_id)
    table_id, row = resolved.table, resolved.row
    file = Variant("tables", table_id).with_sources(plan.params)
    (in_file,) = (each for each in plan.settings.get("tables", table_id).rows if each.id == row.id)
    source, default = f"{file['rows'][1]}: row {row.id!r}", f"default ({type(in_file).__module__})"

    def own(key: str) -> str:
        return source if key in in_file.model_fields_set else default

    printed = {
        key: getattr(row, key) for key in ("printed", "printed_sd", "printed_p", "doubt", "note")
    }
    settings = {
        "row": {
            "stage": (row.stage, own("stage") if in_file.stage else file["defaults.stage"][1]),
            "seeds": (plan.seeds[table_id], plan.source_of_seeds[table_id] or file["seeds"][1]),
            "ensemble": (row.ensemble, own("ensemble")),
            "baseline": file["baseline"],
            **{key: (value, own(key.partition(".")[0])) for key, value in flat(printed).items()},
        }
    }
    features = row.features.split("+")
    cells = [plan.settings.get("features", name).input_features().get("cells") for name in features]
    weights = plan.settings.get("models", row.model).pretrained_weights() or ""
    parts = [
        ("datasets", row.dataset),
        ("subsets", row.subset),
        *(("features", name) for name in dict.fromkeys([*features, *filter(None, cells)])),
        *(
            [("language_models", weights.removeprefix(LANGUAGE_MODEL))]
            if weights.startswith(LANGUAGE_MODEL)
            else []
        ),
        ("models", row.model),
        ("recipes", row.recipe),
    ]
    return settings | {
        f"{section}/{name}": plan.settings.variant(section, name).with_sources(plan.params)
        for section, name in parts
    }
