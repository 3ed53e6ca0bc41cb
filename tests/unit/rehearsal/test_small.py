"""The copied parameter files: the tables and rows of the paper,
in tiny sizes, and fewer of them in the short form."""

import shutil
from pathlib import Path

import pytest

from helpers.plans import missing
from helpers.refusals import refused
from recap.core.documents import adapter
from recap.core.errors import ConfigError
from recap.plan.claims import claims_spec
from recap.plan.profiles import unchecked_plan
from recap.settings.kinds import VARIABLE
from recap.settings.params import read_mapping
from recap.statistics.claims import judge_claims
from rehearsal.cut import cut_rows
from rehearsal.prepare import prepare, rehearsable
from rehearsal.small import write_small
from rehearsal.workflow import PLUGIN

PARAMS = Path("params")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small copy of the parameter files, for stand-ins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, PLUGIN)
        # other tests of this process may have read settings without the plug-in
        adapter.cache_clear()
        folder = tmp_path_factory.mktemp("small") / "params"
        write_small(PARAMS, folder, detectron2=False)
        yield folder


@pytest.fixture
def own(small, tmp_path):
    """A copy of it, from which a test may cut rows."""
    return Path(shutil.copytree(small, tmp_path / "params"))


@pytest.fixture(scope="module")
def plans(small):
    """The plan of each paper."""
    return {paper: planned(small, paper) for paper in rehearsable(PARAMS)}


def planned(params, paper, **changes):
    values = read_mapping(params / paper / "profile.yaml")
    return unchecked_plan({**values, "scale": "paper", "params_dir": str(params), **changes})


def rows(plan):
    return {table: [row.id for row in result.rows] for table, result in plan.tables.items()}


@pytest.mark.parametrize("paper", rehearsable(PARAMS))
def test_a_rehearsal_has_every_row_of_the_paper_in_tiny_sizes_for_two_epochs(plans, paper):
    plan, original = plans[paper], planned(PARAMS, paper)
    assert rows(plan) == rows(original)
    assert {plan.settings.get("models", run.model).d_model for run in plan.trained} == {16}
    recipes = [plan.settings.recipe(run.recipe) for run in plan.scored]
    stages = [stage for recipe in recipes for stage in (recipe.xe, recipe.scst) if stage]
    assert {stage.epochs for stage in stages} == {2}
    # others name their own batches
    whole = [plan.settings.recipe(run.recipe) for run in plan.scored if "+" not in run.recipe]
    assert {
        stage.images_per_batch for recipe in whole for stage in (recipe.xe, recipe.scst) if stage
    } == {1000}
    assert {recipe.evaluation.max_length for recipe in recipes} == {8}
    assert {
        plan.settings.get("datasets", run.dataset).vocabulary.max_length for run in plan.trained
    } == {8}
    assert "numbers mean nothing" in next(iter(plan.tables.values())).scale


@pytest.mark.slow
@pytest.mark.parametrize("paper", rehearsable(PARAMS))
def test_the_short_form_has_every_kind_of_work_and_judges_a_claim_about_rows_that_are_left(
    own, tmp_path, paper
):
    plan = planned(own, paper)
    short = planned(own, paper, **cut_rows(plan))

    def work(plan):
        runs = plan.scored
        features = {
            plan.settings.get("features", name).kind
            for run in runs
            for name in run.features.split("+")
        }
        models = {plan.settings.get("models", run.model).kind for run in runs} | {
            bool(run.members) for run in runs
        }
        figures = {figure.settings.kind for figure in plan.model_figures}
        return {run.dataset for run in runs}, {run.stage for run in runs}, features, models, figures

    assert work(short) == work(plan)
    # a paper of two rows has nothing to leave out
    assert len(short.trained) <= len(plan.trained)
    assert bool(short.profile.studies) == bool(plan.profile.studies)
    assert bool(short.figures) == bool(plan.figures)
    assert bool(choices(short)) == bool(choices(plan))
    asked = claims_spec(short)
    judged = (
        [each for verdict in judge_claims(asked, tmp_path) for each in verdict.comparisons]
        if asked
        else []
    )
    assert any(each.planned and "is not run" not in each.why for each in judged) == bool(
        claims_spec(plan)
    )


def choices(plan):
    return [choice for table in plan.tables.values() for choice in table.selections]


def test_networks_of_the_hub_are_small_ones_of_like_kind_and_fit_their_grid(small):
    swin, clip = (
        read_mapping(small / "features" / f"{name}.yaml")
        for name in ("swin_l_384_grid", "clip_rn50_crops")
    )
    assert (swin["backbone"], swin["image_size"]) == ("test_vit.r160_in1k", 12 * 16)
    assert (clip["backbone"], clip["embedding"]) == ("test_resnet.r160_in1k", "pooled")
    assert read_mapping(small / "features" / "bottom_up_r101.yaml")["kind"] == "stand_in_regions"


@pytest.mark.slow
@pytest.mark.parametrize("paper", rehearsable(PARAMS))
def test_every_outside_file_of_a_paper_has_a_miniature_or_is_brought_by_hand(
    paper, tmp_path, monkeypatch
):
    monkeypatch.setenv(VARIABLE, PLUGIN)
    adapter.cache_clear()
    params = PARAMS.absolute()
    monkeypatch.chdir(tmp_path)
    prepared = prepare(paper, params, url="http://127.0.0.1:1", short=False)
    assert all((tmp_path / "inputs" / name).exists() for name in prepared.by_hand)
    left = [each for each in missing(prepared.plan) if each.how == "hand"]
    assert left == []
    fetched = [
        each.entry.name
        for each in missing(prepared.plan)
        if each.how == "fetch" and each.entry.urls
    ]
    assert fetched and all((tmp_path / "site" / name).is_file() for name in fetched)


def test_a_kind_without_sizes_is_refused_with_the_file_that_shall_have_them(tmp_path, monkeypatch):
    """The copy has the sizes of scale `rehearsal` under the name of scale `paper`.

    A user edits the former.
    """
    source = Path(shutil.copytree(PARAMS, tmp_path / "source"))
    (source / "xlan" / "scales" / "rehearsal.yaml").unlink()
    monkeypatch.chdir(tmp_path)
    with refused(ConfigError, "'models.xlan'", "scales/rehearsal.yaml") as caught:
        prepare("xlan", source, url="http://127.0.0.1:1", short=True)
    assert "scales/paper.yaml" not in str(caught.value)
