"""The workflow makes the report of a profile after all that it shows.

Every kind of figure has its place there.
"""

from PIL import Image

from helpers.tiny_workspace import Workspace
from recap.plan.profiles import named_plan
from recap.report.pictures import figures
from recap.settings.figures import FIGURES

MODEL = "{kind: visual_gpt, d_model: 16, heads: 2, decoder_layers: 1, pretrained: false}"
SETTINGS = "dataset: tiny_scenes, features: tiny_grid, model: visual_gpt, recipe: other, stage: xe"
ROW = f"  - {{id: gated, label: VisualGPT, {SETTINGS}}}\n"
KINDS = FIGURES.classes()
NEEDED = {"parts_of_speech": ", text: a.txt, title: A"}  # settings without a default


def test_every_kind_of_figure_is_shown_with_its_caption(tmp_path, monkeypatch):
    workspace = Workspace(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params" / "models" / "visual_gpt.yaml").write_text(MODEL)
    drawn = "".join(
        f"  - {{kind: {kind}, rows: [gated]{NEEDED.get(kind, '')}}}\n" for kind in KINDS
    )
    table = tmp_path / "params" / "tables" / "tiny.yaml"
    table.write_text("".join(line for line in table.open() if not line.startswith("figures:")))
    workspace.change("tables/tiny.yaml", "rows:\n", f"figures:\n{drawn}rows:\n{ROW}")
    workspace.change("tiny.yaml", "name: tiny\n", "name: tiny\nfigures: [tiny]\n")
    folder = tmp_path / "reports" / "tiny" / "figures"
    folder.mkdir(parents=True)
    titled = {
        f"tiny_{file}": title
        for kind in KINDS.values()
        for file, title in kind.files.items()
        if title
    }
    for name in ["tiny.png", "curves.png", *titled]:
        if name.endswith(".png"):
            Image.new("RGB", (4, 4)).save(folder / name)
        else:
            (folder / name).write_text("{}")
    shown = {
        figure.file.name: figure for figure in figures(named_plan(tmp_path / "params", "tiny"))
    }
    assert shown.keys() == {"tiny.png", "curves.png", *titled}
    for name, title in titled.items():
        assert (
            shown[name].title.lower() == f"{title}: Two models on twenty scenes".lower()
            and shown[name].caption
        )
        assert bool(shown[name].address) == name.endswith(".png") and bool(
            shown[name].text
        ) != name.endswith(".png")
