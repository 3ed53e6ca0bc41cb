"""`snakemake --report` finds every caption file that a rule names, and makes one page of every kind of figure."""

import re
from pathlib import Path

import pytest
from PIL import Image

from helpers.tiny_workspace import ROOT, Workspace
from recap.settings.model_figures import FIGURES

RULES = ROOT / "workflow" / "rules"
MODEL = """\
kind: visual_gpt
d_model: 16
heads: 2
decoder_layers: 1
pretrained: false
"""
ROW = """\
  - id: gated
    label: VisualGPT
    dataset: tiny_scenes
    features: tiny_grid
    model: visual_gpt
    recipe: other
    stage: xe
"""
KINDS = FIGURES.classes()
SHOWN = {
    *("tiny_captions.png", "tiny.png", "curves.png"),
    *(f"tiny_{file}" for kind in KINDS.values() for file, title in kind.files.items() if title),
}
PAGES = {"tables/tiny.html", "studies/tiny/table.html"}


def captions():
    """Return the caption files that rules name, relative to the folder of the rules."""
    return sorted({name for file in RULES.glob("*.smk") for name in re.findall(r'caption="([^"]+)"', file.read_text())})


@pytest.mark.smoke
def test_every_caption_file_that_a_rule_names_exists():
    assert len(captions()) >= 5
    assert [name for name in captions() if not (RULES / name).is_file()] == []


def test_a_profile_with_every_kind_of_figure_becomes_a_report(tmp_path):
    workspace = Workspace(tmp_path)
    (tmp_path / "params" / "models" / "visual_gpt.yaml").write_text(MODEL)
    figures = "".join(f"  - {{kind: {kind}, rows: [gated]}}\n" for kind in KINDS)
    workspace.change(
        "tables/tiny.yaml", "figures: [{kind: clusters, count: 1}, {kind: alignment, rows: [transformer]}]\n", ""
    )
    workspace.change("tables/tiny.yaml", "rows:\n", f"figures:\n{figures}rows:\n{ROW}")
    reports = tmp_path / "reports" / "tiny"
    for folder in ("tables", "studies/tiny", "figures"):
        (reports / folder).mkdir(parents=True)
    for name in PAGES:
        (reports / name).write_text("<table><tr><td>1</td></tr></table>")
    for name in SHOWN:
        if name.endswith(".png"):
            Image.new("RGB", (4, 4)).save(reports / "figures" / name)
        else:
            (reports / "figures" / name).write_text("{}")
    done = workspace.snakemake("--report", "report.html", config=("studies=[tiny]", "figures=[tiny]"))
    assert done.returncode == 0, done.stderr[-6000:]
    added = set(re.findall(r"Adding (\S+) \(", done.stdout + done.stderr))
    assert added == SHOWN | {Path(name).name for name in PAGES}
    page = (tmp_path / "report.html").read_text()
    begins = [(RULES / name).read_text().split("``")[0].splitlines()[0].strip() for name in captions()]
    begins += [kind.caption.split("``")[0][:60] for kind in KINDS.values()]
    assert [begin for begin in begins if begin not in page] == []
