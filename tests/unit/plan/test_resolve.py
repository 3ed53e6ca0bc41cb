"""What profiles and tables plan: rows at every scale, paths, shared trainings, sources of
values."""

from pathlib import Path

import pytest

from helpers.plans import PARAMS, edited, missing, planned
from helpers.refusals import refused
from recap.core.errors import ConfigError, UnknownName
from recap.papers.transformer import TransformerModel
from recap.plan.resolve import resolve
from recap.settings import Table, TableFile
from recap.settings.models import MODELS
from recap.settings.params import load_named, load_profiles, profiles, read_mapping

pytestmark = pytest.mark.seconds

SLOW = pytest.mark.slow
PROFILES = {profile.name: profile for path in profiles(PARAMS) for profile in load_profiles(path)}


def shipped(*tables, scale=None, seeds=None):
    return planned(PARAMS, scale, tables, seeds=seeds)


# One paper at each scale and the demo are quick;
# all papers at full scale are planned in test_papers.py, too.
LIGHT = ("demo", "fusion_paper", "fusion_photos", "fusion_scenes", "nine")

# What a scale or the rows that are run decide; the other keys of a planned table are its file's.
DECIDED = {"rows", "quoted", "not_run", "selections", "outside", "server", "examples"}
DECIDED |= {"image_ids", "image_captions"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in LIGHT else SLOW) for name in PROFILES]
)
def test_every_shipped_profile_is_planned(name):
    plan = resolve(PROFILES[name], PARAMS)
    assert plan.scored
    assert {run.stage for run in plan.trained} >= {run.stage for run in plan.scored}
    for table, planned_table in plan.tables.items():
        file = load_named(PARAMS, "tables", table)
        declared = plan.profile.scale in (None, "paper") and file.printed_on is not None
        assert {row.as_printed for row in planned_table.rows} == {declared}
        for key in Table.model_fields.keys() & TableFile.model_fields.keys() - DECIDED:
            assert getattr(planned_table, key) == getattr(file, key), key


def test_the_rows_own_change_lies_over_the_scale_and_the_scale_over_the_file():
    plan = shipped("xlan/t3", scale="scenes")
    row = plan.row("xlan/t3/enc2").row
    settings = plan.settings.variant("models", row.model).with_sources(PARAMS)
    assert settings["encoder_layers"] == (2, "params/xlan/tables/t3.yaml: row 'enc2': model")
    assert settings["d_model"] == (128, "params/xlan/scales/scenes.yaml: models.xlan")
    assert settings["alpha"] == (1.3, "default (recap.papers.xlan.settings)")
    assert settings["kind"] == ("xlan", "params/xlan/models/xlan.yaml")


def test_recipes_that_differ_in_the_second_stage_alone_share_the_first(params):
    edited(
        params, "xlan/recipes/faster.yaml", base="xlan", scst={"schedule": {"learning_rate": 5e-5}}
    )
    table = read_mapping(params / "xlan" / "tables" / "t1.yaml")
    row = next(row for row in table["rows"] if row["id"] == "xlan")
    recipes = {
        "plain": "xlan",
        "file": "faster",
        "inline": {"base": "faster", "scst": {"samples": 6}},
    }
    rows = [{**row, "id": name, "recipe": recipe} for name, recipe in recipes.items()]
    edited(params, "xlan/tables/t1.yaml", rows=rows, baseline="plain", figures=[])
    (params / "xlan/claims.yaml").unlink()  # of rows that are gone
    plan = planned(params, "paper", ["xlan/t1"], seeds=[1])
    trained = [f"{run.recipe}/{run.stage}" for run in plan.trained]
    assert trained == ["faster/scst", "faster+scst.samples=6/scst", "xlan/scst", "xlan/xe"]


def test_another_first_stage_or_other_processes_are_trained_apart(params):
    edited(params, "recipes/longer.yaml", base="xlan", xe={"epochs": 71})
    edited(params, "recipes/together.yaml", base="xlan", processes=4)
    plan = planned(params, "paper")
    run = plan.scored[0]
    for recipe in ("longer", "together"):
        assert plan.first_stage(type(run)(**{**vars(run), "recipe": recipe})).recipe == recipe


def test_a_cross_entropy_row_that_is_evaluated_otherwise_has_scores_of_its_own_but_no_training(
    params,
):
    table = read_mapping(params / "xlan" / "tables" / "t3.yaml")
    row = table["rows"][-1]
    wide = {**row, "id": "wide", "recipe": {"base": "xlan", "evaluation": {"beam": 5}}}
    edited(params, "xlan/tables/t3.yaml", rows=[row, wide], baseline="enc4_elu", figures=[])
    plan = planned(params, "paper", seeds=[1])
    assert [run.recipe for run in plan.scored] == ["xlan", "xlan+evaluation.beam=5"]
    assert [run.recipe for run in plan.trained] == ["xlan"]


def test_a_row_may_name_several_features(params):
    defaults = read_mapping(params / "xlan/tables/t3.yaml")["defaults"]
    edited(
        params,
        "xlan/tables/t3.yaml",
        defaults={**defaults, "features": ["vinvl", "clip_rn50_grid"]},
    )
    plan = planned(params, "paper")
    (part,) = {run.features for run in plan.scored}
    assert part == "vinvl+clip_rn50_grid"
    with refused(
        ConfigError, "vinvl, clip_rn50_grid", "scenes_grid, scenes_grid", "at scale 'scenes'"
    ):
        planned(params, "scenes")


def test_seeds_are_the_profiles_or_the_scales_or_as_many_as_the_paper_had():
    assert shipped("zodiac/t3", scale="scenes", seeds=[7]).seeds["zodiac/t3"] == [7]
    assert shipped("zodiac/t3", scale="scenes").seeds["zodiac/t3"] == [1, 2]
    assert shipped("zodiac/t3", scale="paper").seeds["zodiac/t3"] == [1, 2, 3, 4, 5]


def test_a_row_that_is_not_run_at_a_scale_is_quoted_there():
    at_scenes, at_paper = (shipped("xlan/t1", scale=scale) for scale in ("scenes", "paper"))
    assert "updown" in [row.id for row in at_scenes.tables["xlan/t1"].rows]
    assert "updown" in [row.id for row in at_paper.tables["xlan/t1"].quoted]
    photos = shipped("xlan/t1", scale="photos").tables["xlan/t1"]
    assert (photos.not_run[0].id, photos.not_run[0].reason) == (
        "xlan_ens",
        "the row is not run at scale photos",
    )
    assert at_scenes.model_figures[0].labels == ("Up-Down", "X-LAN", "X-Transformer")
    assert at_paper.model_figures[0].labels == ("X-LAN", "X-Transformer")


def test_a_figure_is_drawn_at_its_scales_from_the_texts_that_it_names(
    params, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    at_paper, at_scenes = (
        planned(params, scale, ["visualgpt/t1_f01"]) for scale in ("paper", "scenes")
    )
    kinds = [
        [figure.settings.kind for figure in plan.model_figures] for plan in (at_paper, at_scenes)
    ]
    assert kinds == [["gates", "gate_functions", "parts_of_speech"], ["gates", "gate_functions"]]
    article = at_paper.files.outside("wikitext/wikitext-2/wiki.train.tokens")
    needed, at_small = (
        {each.path: each for each in missing(plan)} for plan in (at_paper, at_scenes)
    )
    assert (needed[article].how, needed[article].named_by) == (
        "unpack",
        "tables/visualgpt/t1_f01.yaml",
    )
    assert article not in at_small
    for ending in ("png", "csv"):
        drawn = Path(f"reports/p/figures/visualgpt_t1_f01_parts_of_speech.{ending}")
        drawn.parent.mkdir(parents=True, exist_ok=True)
        drawn.touch()
    assert article not in {each.path for each in missing(at_paper)}


def test_without_a_scale_nothing_is_replaced_and_no_sentence_speaks_of_one():
    plan, at_paper = shipped("xlan/t3"), shipped("xlan/t3", scale="paper")
    assert {run.model for run in plan.scored} == {run.model for run in at_paper.scored}
    table = plan.tables["xlan/t3"]
    assert all(row.as_printed for row in table.rows)
    assert "scale" not in table.scale.lower() and table.short_scale == ""


@pytest.mark.parametrize(
    ("printed_on", "scale", "compared"),
    [
        (None, "paper", False),
        ("coco", "paper", False),
        ("scenes", "paper", True),
        ("scenes", None, True),
    ],
)
def test_own_settings_are_the_prints_only_on_the_data_set_that_the_table_says(
    params, scale, printed_on, compared
):
    sizes = {"base": "transformer", "d_model": 32, "heads": 2, "d_feed_forward": 32}
    row = {"id": "toy", "label": "Toy", "model": sizes, "printed": {"CIDEr": 128.0}}
    defaults = {
        "dataset": "scenes",
        "features": "scenes_grid",
        "recipe": "scenes_short",
        "stage": "xe",
    }
    values = {
        "title": "Own",
        "columns": ["CIDEr"],
        "baseline": "toy",
        "defaults": defaults,
        "rows": [row],
    }
    edited(params, "mine/tables/own.yaml", printed_on=printed_on, **values)
    table = planned(params, scale=scale, tables=["mine/own"]).tables["mine/own"]
    assert [row.as_printed for row in table.rows] == [compared]
    assert ("Full scale" in table.scale) == (compared and scale == "paper")
    assert bool(table.scale) == bool(table.short_scale) == (compared and scale == "paper")


@pytest.mark.parametrize(
    ("row", "named"),
    [
        (
            {"model": {"base": "xlan", "encoder_layer": 2}},
            [
                "params/xlan/tables/t3.yaml: row 'enc4_elu': model",
                "'encoder_layer'",
                "'encoder_layers'",
            ],
        ),
        ({"model": {"base": "xlam"}}, ["params: ", "'xlam'", "models", "'xlan'", "row 'enc4_elu'"]),
        (
            {"stage": "scst", "recipe": "zodiac"},
            ["row 'enc4_elu'", "stage scst", "recipe 'zodiac'"],
        ),
        ({"scales": ["photos"]}, ["t3.yaml", "'paper'", "`scales`"]),
        ({"model": None}, ["t3.yaml", "row 'enc4_elu'", "'model'", "`defaults`"]),
    ],
)
def test_a_mistake_in_a_row_is_said_with_file_row_key_and_nearest_name(params, row, named):
    table = read_mapping(params / "xlan" / "tables" / "t3.yaml")
    edited(
        params,
        "xlan/tables/t3.yaml",
        rows=[{**table["rows"][-1], **row}],
        baseline="enc4_elu",
        figures=[],
    )
    with refused(ConfigError, *named):
        planned(params, "paper")


def test_mistakes_in_a_scale_are_said_with_its_file(params):
    edited(params, "xlan/scales/scenes.yaml", models={"xlan": {"d_modell": 128}})
    with refused(ConfigError, "params/xlan/scales/scenes.yaml", "'d_modell'"):
        planned(params)
    edited(params, "xlan/scales/scenes.yaml", models={})
    with refused(ConfigError, "scales/scenes.yaml", "'models.xlan'"):
        planned(params)
    with refused(UnknownName, "scene", "scales", "scenes"):
        planned(params, "scene")


def test_a_kind_has_the_sizes_of_the_kind_that_its_class_extends_with_its_own_changes(
    params, monkeypatch
):
    class WiderTransformer(TransformerModel):
        """A kind of a plug-in, for which no scale has sizes."""

    assert MODELS.lineage(WiderTransformer) == ["transformer"]
    monkeypatch.setattr(MODELS, "lineage", lambda kind: ["zodiac", "transformer"])
    edited(params, "zodiac/scales/scenes.yaml", models={"zodiac": {"d_feed_forward": 64}})
    plan = planned(params, tables=["recap/zodiac_scst"])
    row = next(row for row in plan.tables["recap/zodiac_scst"].rows if row.id == "zodiac")
    settings = plan.settings.variant("models", row.model).with_sources(params)
    assert settings["d_model"] == (128, "params/transformer/scales/scenes.yaml: models.transformer")
    assert settings["d_feed_forward"] == (64, "params/zodiac/scales/scenes.yaml: models.zodiac")


@pytest.mark.parametrize(
    ("scale", "data"),
    [
        ("scenes", "Demonstration, not a reproduction: 3,000 rendered training scenes"),
        ("photos", "Scaled down, not a reproduction: 6,000 training photographs of Flickr8k"),
    ],
)
def test_the_sentence_under_a_table_names_the_data_that_were_replaced(scale, data):
    table = shipped("xlan/t3", scale=scale).tables["xlan/t3"]
    assert table.short_scale == f"{data} in place of 113,287 training photographs of COCO."
    assert table.scale.startswith(table.short_scale)
    assert "reproduction" not in shipped("xlan/t3", scale="paper").tables["xlan/t3"].scale


@pytest.mark.parametrize(
    ("figures", "named"),
    [
        ([{"kind": "gates"}], ["kind 'gates'", "1", "`rows`"]),
        ([{"kind": "attention", "rows": ["bas"]}], ["figures: attention: ", "'bas'"]),
        (
            [{"kind": "attention"}, {"kind": "attention", "rows": ["base"]}],
            ["kind 'attention'", "twice"],
        ),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused_before_the_first_job(params, figures, named):
    edited(params, "xlan/tables/t3.yaml", figures=figures)
    with refused(ConfigError, "xlan/t", *named):
        planned(params)
