"""What profiles and tables plan: rows at every scale, paths, shared trainings, sources of values."""

from pathlib import Path

import pytest

from helpers.plans import PARAMS, edited, planned
from helpers.refusals import refused
from recap.core.errors import ConfigError, UnknownName
from recap.papers.transformer import TransformerModel
from recap.plan.outside import requirements
from recap.plan.paths import Paths
from recap.plan.run_plan import RunPlan
from recap.settings import Profile
from recap.settings.models import MODELS
from recap.settings.params import load_named, load_profiles, names, profiles, profiles_of_tables, read_mapping

pytestmark = pytest.mark.seconds

SCALES = ("paper", "photos", "scenes")
PROFILES = {profile.name: profile for path in profiles(PARAMS) for profile in load_profiles(path)}


def shipped(*tables, scale=None, seeds=None):
    return RunPlan(Profile(name="p", tables=list(tables), scale=scale, seeds=seeds), PARAMS)


@pytest.mark.parametrize("name", PROFILES)
def test_every_shipped_profile_is_planned(name):
    plan = RunPlan(PROFILES[name], PARAMS)
    assert plan.scored()
    assert {run.stage for run in plan.trained()} >= {run.stage for run in plan.scored()}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("table", names(PARAMS, "tables"))
def test_every_shipped_table_is_planned_at_every_scale(table, scale):
    plan = shipped(table, scale=scale)
    declared = load_named(PARAMS, "tables", table).printed_on is not None
    assert {row.as_printed for row in plan.tables[table].rows} == {scale == "paper" and declared}
    assert plan.tables[table].rows


def test_every_shipped_table_is_in_a_profile():
    assert [table for table, profiles in profiles_of_tables(PARAMS).items() if not profiles] == []


@pytest.mark.parametrize(("scale", "trained"), [("paper", 28), ("photos", 7), ("scenes", 14)])
def test_table_3_of_x_lan_is_one_file_at_every_scale(scale, trained):
    plan = shipped("xlan/t3", scale=scale)
    rows = plan.tables["xlan/t3"].rows
    assert len(plan.trained()) == trained
    assert [plan.get("models", row.model).encoder_layers for row in rows] == [0, 0, 1, 2, 3, 4, 4]
    assert [plan.get("models", row.model).activation for row in rows] == ["celu", *["relu"] * 5, "celu"]
    assert {plan.get("models", row.model).d_model for row in rows} == {
        {"paper": 1024, "photos": 256, "scenes": 128}[scale]
    }


def test_a_path_says_what_a_row_changes():
    paths = {run.setting for run in shipped("xlan/t3", scale="scenes").scored()}
    assert "scenes/full/scenes_grid/xlan@scenes_short" in paths
    assert "scenes/full/scenes_grid/xlan+activation=relu,encoder_layers=2@scenes_short" in paths


def test_the_rows_own_change_lies_over_the_scale_and_the_scale_over_the_file():
    plan = shipped("xlan/t3", scale="scenes")
    _, row = plan.row("xlan/t3/enc2")
    found = plan.resolve_with_sources("models", row.model)
    assert found["encoder_layers"] == (2, "params/xlan/tables/t3.yaml: row 'enc2': model")
    assert found["d_model"] == (128, "params/xlan/scales/scenes.yaml: models.xlan")
    assert found["alpha"] == (1.3, "default (recap.papers.xlan.settings)")
    assert found["kind"] == ("xlan", "params/xlan/models/xlan.yaml")


def test_values_of_a_recipe_have_the_file_that_set_them_last():
    plan = shipped("xlan/t1", scale="paper")
    found = plan.resolve_with_sources("recipes", "xlan_as_printed")
    assert found["xe.epochs"] == (70, "params/xlan/recipes/xlan.yaml")
    assert found["xe.scheduled_sampling"] == (None, "params/xlan/recipes/xlan_as_printed.yaml")
    assert found["scst.schedule.kind"] == ("constant", "params/xlan/recipes/xlan_as_printed.yaml")
    assert found["scst.schedule.warmup"] == (0, "default (recap.settings.recipes)")
    assert found["xe.schedule.warmup"] == (10000, "params/xlan/recipes/xlan.yaml")


def test_a_rate_beside_its_schedule_has_its_file_as_source():
    found = shipped("recap/zodiac_scst", scale="scenes").resolve_with_sources("recipes", "scenes")
    assert found["scst.schedule.learning_rate"] == (1e-4, "params/recap/recipes/scenes.yaml")


def test_what_one_table_replaces_is_in_the_path_and_what_a_scale_replaces_is_not():
    plan = shipped("recap/zodiac_scst", "xlan/t1", scale="scenes")
    models = {run.model for run in plan.scored() if run.model.startswith("transformer")}
    assert models == {"transformer", "transformer+decoder_layers=2,encoder_layers=2,visual_positions=none"}
    assert plan.get("models", "transformer").visual_positions == "grid"


def test_recipes_that_differ_in_the_second_stage_alone_share_the_first(params):
    edited(params, "xlan/recipes/faster.yaml", base="xlan", scst={"schedule": {"learning_rate": 5e-5}})
    table = read_mapping(params / "xlan" / "tables" / "t1.yaml")
    row = next(row for row in table["rows"] if row["id"] == "xlan")
    recipes = {"plain": "xlan", "file": "faster", "inline": {"base": "faster", "scst": {"samples": 6}}}
    rows = [{**row, "id": name, "recipe": recipe} for name, recipe in recipes.items()]
    edited(params, "xlan/tables/t1.yaml", rows=rows, baseline="plain", figures=[])
    plan = planned(params, "paper", ["xlan/t1"], seeds=[1])
    trained = [f"{run.recipe}/{run.stage}" for run in plan.trained()]
    assert trained == ["faster/scst", "faster+scst.samples=6/scst", "xlan/scst", "xlan/xe"]


def test_another_first_stage_or_other_processes_are_trained_apart(params):
    edited(params, "recipes/longer.yaml", base="xlan", xe={"epochs": 71})
    edited(params, "recipes/together.yaml", base="xlan", processes=4)
    plan = planned(params, "paper")
    run = plan.scored()[0]
    for recipe in ("longer", "together"):
        assert plan.first_stage(type(run)(**{**vars(run), "recipe": recipe})).recipe == recipe


def test_a_cross_entropy_row_that_is_evaluated_otherwise_has_scores_of_its_own_but_no_training(params):
    table = read_mapping(params / "xlan" / "tables" / "t3.yaml")
    row = table["rows"][-1]
    wide = {**row, "id": "wide", "recipe": {"base": "xlan", "evaluation": {"beam": 5}}}
    edited(params, "xlan/tables/t3.yaml", rows=[row, wide], baseline="enc4_elu", figures=[])
    plan = planned(params, "paper", seeds=[1])
    assert [run.recipe for run in plan.scored()] == ["xlan", "xlan+evaluation.beam=5"]
    assert [run.recipe for run in plan.trained()] == ["xlan"]


def test_a_row_may_name_several_features(params):
    defaults = read_mapping(params / "xlan/tables/t3.yaml")["defaults"]
    edited(params, "xlan/tables/t3.yaml", defaults={**defaults, "features": ["vinvl", "clip_rn50_grid"]})
    plan = planned(params, "paper")
    (part,) = {run.features for run in plan.scored()}
    assert part == "vinvl+clip_rn50_grid"
    assert plan.feature_names(part) == ("vinvl", "clip_rn50_grid")
    with refused(ConfigError, "vinvl, clip_rn50_grid", "scenes_grid, scenes_grid", "at scale 'scenes'"):
        planned(params, "scenes")


def test_seeds_are_the_profiles_or_the_scales_or_as_many_as_the_paper_had():
    assert shipped("zodiac/t3", scale="scenes", seeds=[7]).seeds["zodiac/t3"] == [7]
    assert shipped("zodiac/t3", scale="scenes").seeds["zodiac/t3"] == [1, 2]
    assert shipped("zodiac/t3", scale="paper").seeds["zodiac/t3"] == [1, 2, 3, 4, 5]


def test_a_row_that_is_not_run_at_a_scale_is_quoted_there():
    at_scenes, at_paper = (shipped("xlan/t1", scale=scale) for scale in ("scenes", "paper"))
    assert "updown" in [row.id for row in at_scenes.tables["xlan/t1"].rows]
    assert "updown" in [row.id for row in at_paper.tables["xlan/t1"].quoted]
    assert at_scenes.model_figures[0].labels == ("Up-Down (quoted by the paper)", "X-LAN", "X-Transformer")
    assert at_paper.model_figures[0].labels == ("X-LAN", "X-Transformer")


def test_a_figure_is_drawn_at_its_scales_from_the_texts_that_it_names(params, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    at_paper, at_scenes = (planned(params, scale, ["visualgpt/t1_f01"]) for scale in ("paper", "scenes"))
    kinds = [[figure.settings.kind for figure in plan.model_figures] for plan in (at_paper, at_scenes)]
    assert kinds == [["gates", "gate_functions", "parts_of_speech"], ["gates", "gate_functions"]]
    outside = Paths(at_paper).outside
    article = outside("wikitext/wikitext-2/wiki.train.tokens")
    needed = {each.path: (each.how, each.named_by) for each in requirements(Paths(at_paper))}
    assert needed[article] == ("unpack", "tables/visualgpt/t1_f01.yaml")
    assert needed[outside("wikitext/wikitext-2-v1.zip")] == ("fetch", "data_versions.csv")
    assert article not in {each.path for each in requirements(Paths(at_scenes))}
    drawn = Path("reports/p/figures/visualgpt_t1_f01_parts_of_speech.png")
    drawn.parent.mkdir(parents=True)
    drawn.touch()
    drawn.with_suffix(".csv").touch()
    assert article not in {each.path for each in requirements(Paths(at_paper))}
    edited(params, "visualgpt/tables/t4.yaml", figures=[{"kind": "gate_functions", "scales": ["papr"]}])
    with refused(UnknownName, "visualgpt/t4", "gate_functions", "'papr'", "'paper'"):
        planned(params, "paper", ["visualgpt/t4"])


def test_figures_4_and_5_of_xlan_have_up_down_of_their_own_and_table_1_quotes_it():
    plan = shipped("xlan/t1", "xlan/f4", scale="paper")
    assert [figure.labels for figure in plan.model_figures] == [("X-LAN", "X-Transformer"), ("Up-Down", "X-LAN")]
    assert {row.id for row in plan.tables["xlan/t1"].quoted} >= {"updown"}
    assert sorted(run.stage for run in plan.trained() if "up_down" in run.model) == ["scst", "xe"]
    assert len(plan.tables["xlan/f4"].image_captions) == 15
    assert shipped("xlan/f4", scale="scenes").tables["xlan/f4"].image_captions == []


def test_a_row_that_is_not_run_needs_no_reason_why_a_server_is_not_sent_it():
    at_scales = [planned(PARAMS, scale, ["acf/t3"]).tables["acf/t3"] for scale in ("paper", None)]
    assert [list(table.server.not_sent) for table in at_scales] == [["acf_roi"], []]


def test_without_a_scale_nothing_is_replaced_and_no_sentence_speaks_of_one():
    plan, at_paper = shipped("xlan/t3"), shipped("xlan/t3", scale="paper")
    assert {run.model for run in plan.scored()} == {run.model for run in at_paper.scored()}
    table = plan.tables["xlan/t3"]
    assert all(row.as_printed for row in table.rows)
    assert "scale" not in table.scale.lower() and table.short_scale == ""
    assert "Printed: X-LAN paper, Table 3, on COCO." in table.scale


def own_table(params, **changes):
    """A table of one's own: a Transformer of width 32 on scenes, beside a number that somebody printed."""
    sizes = {"base": "transformer", "d_model": 32, "heads": 2, "d_feed_forward": 32}
    row = {"id": "toy", "label": "Toy", "model": sizes, "printed": {"CIDEr": 128.0}}
    defaults = {"dataset": "scenes", "features": "scenes_grid", "recipe": "scenes_short", "stage": "xe"}
    values = {"title": "Own", "columns": ["CIDEr"], "baseline": "toy", "defaults": defaults, "rows": [row]}
    edited(params, "mine/tables/own.yaml", **{**values, **changes})


@pytest.mark.parametrize("scale", [None, "paper"])
@pytest.mark.parametrize(
    ("printed_on", "compared"), [(None, False), ("coco", False), ("flickr8k", False), ("scenes", True)]
)
def test_own_settings_are_the_prints_only_on_the_data_set_that_the_table_says(params, scale, printed_on, compared):
    own_table(params, printed_on=printed_on)
    table = planned(params, scale=scale, tables=["mine/own"]).tables["mine/own"]
    assert [row.as_printed for row in table.rows] == [compared]
    assert ("Full scale" in table.scale) == (compared and scale == "paper")
    assert bool(table.scale) == bool(table.short_scale) == (compared and scale == "paper")


def test_a_replaced_setting_takes_the_difference_to_the_print_away_row_by_row(params):
    own_table(params, printed_on="scenes")
    rows = read_mapping(params / "mine" / "tables" / "own.yaml")["rows"]
    rows.append({**rows[0], "id": "other", "recipe": "scenes"})
    edited(params, "mine/tables/own.yaml", rows=rows)
    edited(params, "mine/scales/half.yaml", opening="Half", recipes={"scenes": "scenes_short"})
    table = planned(params, scale="half", tables=["mine/own"]).tables["mine/own"]
    assert [row.as_printed for row in table.rows] == [True, False]


def test_a_table_that_was_printed_on_an_unknown_data_set_is_refused(params):
    own_table(params, printed_on="scene")
    with refused(UnknownName, "'scenes'", "printed_on of table 'mine/own'"):
        planned(params, tables=["mine/own"])


@pytest.mark.parametrize(
    ("row", "named"),
    [
        (
            {"model": {"base": "xlan", "encoder_layer": 2}},
            ["params/xlan/tables/t3.yaml: row 'enc4_elu': model", "'encoder_layer'", "'encoder_layers'"],
        ),
        (
            {"recipe": {"base": "xlan", "xe": {"epoch": 2}}},
            ["params/xlan/tables/t3.yaml: row 'enc4_elu': recipe", "'xe.epoch'", "'epochs'"],
        ),
        (
            {"model": {"base": "xlam"}},
            ["params: ", "'xlam'", "models", "'xlan'", "row 'enc4_elu'"],
        ),
        (
            {"model": {"heads": 4}},
            ["t3.yaml: row 'enc4_elu': model.base", "None"],
        ),
        (
            {"recipe": "xlam"},
            ["params: ", "'xlam'", "recipes", "'xlan'", "row 'enc4_elu' of"],
        ),
        ({"features": "vinv"}, ["params: ", "'vinv'", "features", "'vinvl'"]),
        ({"stage": "scst", "recipe": "zodiac"}, ["row 'enc4_elu'", "stage scst", "recipe 'zodiac'"]),
        (
            {"scales": ["photo"]},
            ["t3.yaml: row 'enc4_elu': scales", "'photo'", "'photos'"],
        ),
        ({"scales": ["photos"]}, ["t3.yaml", "'paper'", "`scales`"]),
        ({"modell": "xlan"}, ["params/xlan/tables/t3.yaml", "'rows.0.modell'", "'model'"]),
    ],
)
def test_a_mistake_in_a_row_is_said_with_file_row_key_and_nearest_name(params, row, named):
    table = read_mapping(params / "xlan" / "tables" / "t3.yaml")
    edited(params, "xlan/tables/t3.yaml", rows=[{**table["rows"][-1], **row}], baseline="enc4_elu", figures=[])
    with refused(ConfigError, *named):
        planned(params, "paper")


def test_a_row_without_a_key_that_defaults_lack_too_is_refused(params):
    edited(params, "xlan/tables/t3.yaml", defaults={"dataset": "coco", "recipe": "xlan", "stage": "xe"})
    with refused(ConfigError, "t3.yaml", "row 'base'", "'features'", "`defaults`"):
        planned(params)


def test_mistakes_in_a_scale_are_said_with_its_file(params):
    edited(params, "xlan/scales/scenes.yaml", models={"xlan": {"d_modell": 128}})
    with refused(ConfigError, "params/xlan/scales/scenes.yaml", "'d_modell'"):
        planned(params)
    edited(params, "xlan/scales/scenes.yaml", models={})
    with refused(ConfigError, "'scenes'", "'xlan'", "'models.xlan'"):
        planned(params)
    edited(params, "scales/paper.yaml", datasets={"coco": "scenes"})
    with refused(ConfigError, "paper.yaml", "'datasets'"):
        planned(params, "paper")
    with refused(UnknownName, "scene", "scales", "scenes"):
        planned(params, "scene")


def test_a_kind_without_sizes_takes_those_of_the_kind_that_its_class_extends(params):
    class WiderTransformer(TransformerModel):
        """A kind of a plug-in, for which no scale has sizes."""

    assert MODELS.lineage(WiderTransformer) == ["transformer"]
    edited(params, "zodiac/scales/scenes.yaml", models={})
    with refused(ConfigError, "'scenes'", "'zodiac'", "'models.zodiac'"):
        planned(params, tables=["recap/zodiac_scst"])


def test_two_tables_whose_files_have_one_name_are_refused(params):
    edited(params, "tables/xlan_t3.yaml", **read_mapping(params / "xlan" / "tables" / "t3.yaml"))
    with refused(ConfigError, "table 'xlan_t3'"):
        planned(params, tables=["xlan/t3", "xlan_t3"])


def test_a_row_is_found_by_table_and_id():
    plan = shipped("xlan/t3", scale="scenes")
    with refused(UnknownName, "xlan/t3/enc9"):
        plan.row("xlan/t3/enc9")


@pytest.mark.parametrize(
    ("table", "scale", "said"),
    [
        ("xlan/t3", "scenes", ["3,000 rendered training scenes in place of 113,287 training photographs of COCO"]),
        (
            "xlan/t3",
            "scenes",
            ["xlan with width 128 in place of 1,024, heads 4 in place of 8, d_joint 16 in place of 64"],
        ),
        (
            "xlan/t3",
            "photos",
            ["50 % of the training images in place of all", "2 epochs of cross-entropy in place of 70;"],
        ),
        ("xlan/t3", "photos", ["one run of each row in place of four. Printed: X-LAN paper, Table 3, on COCO."]),
        (
            "xlan/t1",
            "photos",
            ["8 epochs of cross-entropy and 3 of self-critical training in place of 70 and 35 to 60"],
        ),
        (
            "recap/zodiac_scst",
            "scenes",
            ["transformer and zodiac with width 128 in place of 512, 1+1 layers in place of 6+6"],
        ),
    ],
)
def test_the_sentence_under_a_table_says_what_was_replaced(table, scale, said):
    text = shipped(table, scale=scale).tables[table].scale
    for part in said:
        assert part in text


def test_the_sentence_speaks_of_nothing_that_was_not_replaced():
    at_photos = shipped("recap/iu_xray", scale="photos").tables["recap/iu_xray"].scale
    assert "in place of 2,067" not in at_photos and "epochs" not in at_photos and "run of each row" not in at_photos
    at_paper = shipped("xlan/t3", scale="paper").tables["xlan/t3"].scale
    assert at_paper.startswith("Scale of this run: Full scale") and " with width " not in at_paper
    assert "The released code has no configuration of these rows" in at_paper


@pytest.mark.parametrize(
    ("figures", "named"),
    [
        ([{"kind": "gates"}], ["kind 'gates'", "1", "`rows`"]),
        ([{"kind": "attention", "rows": ["bas"]}], ["figures: attention: ", "'bas'"]),
        ([{"kind": "attention"}, {"kind": "attention", "rows": ["base"]}], ["kind 'attention'", "twice"]),
        ([{"kind": "atention"}], ["figures.0", "'atention'", "'attention'"]),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused_before_the_first_job(params, figures, named):
    edited(params, "xlan/tables/t3.yaml", figures=figures)
    with refused(ConfigError, "xlan/t", *named):
        planned(params)


def test_the_rows_of_a_figure_have_one_data_set_and_the_same_features(params):
    rows = read_mapping(params / "xlan/tables/t3.yaml")["rows"]
    rows[1] = {**rows[1], "features": "vinvl"}
    edited(
        params, "xlan/tables/t3.yaml", rows=rows, figures=[{"kind": "attention", "rows": [r["id"] for r in rows[:2]]}]
    )
    with refused(ConfigError, "'xlan/t3'", "'attention'", "'base'", "'dec'", "`rows`"):
        planned(params, "paper")


def test_two_figures_of_a_kind_have_different_files():
    names = [sorted(figure.files) for figure in shipped("acf/f5", scale="paper").model_figures]
    assert names[0] == ["acf_f5_clusters.json", "acf_f5_clusters.png"]
    assert names[1] == ["acf_f5_regions_clusters.json", "acf_f5_regions_clusters.png"]
    assert [figure.name for figure in shipped("acf/f5", scale="scenes").model_figures] == [
        "acf_f5_clusters",
        "acf_f5_alignment",
    ]
