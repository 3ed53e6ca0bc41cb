"""Which draws a feature store and a list of web pictures must serve."""

from pathlib import Path

from helpers.plans import PARAMS
from recap.plan.paths import Paths, not_fewer, sources, used_subsets, web_draws
from recap.plan.profiles import load_plan
from recap.plan.run import Run


def paths_of(*tables, **more):
    return Paths(load_plan({"name": "x", "params_dir": str(PARAMS), "tables": list(tables), **more}))


def store(dataset, features):
    return Run(dataset, "", features, "", "", 0, "xe")


def test_a_store_serves_the_subsets_of_all_runs_that_read_it_or_what_is_made_from_it():
    paths = paths_of("visualgpt/t1")
    result = used_subsets(paths, store("coco", "bottom_up_r101"))
    assert {Path(file).parent.name for file in result} == {"pair_0.1", "pair_0.5", "pair_1"}
    assert len(result) == 3 * 4
    assert used_subsets(paths, store("conceptual", "bottom_up_r101")) == []
    crops = paths_of("zodiac/t1").plan
    (name,) = {name for name in sources(crops, "clip_rn50_crops") if name != "clip_rn50_crops"}
    assert crops.get("features", name).has_boxes


def test_a_list_that_serves_more_runs_is_left_as_it_is(tmp_path):
    before = [str(tmp_path / "subsets" / "full" / f"seed-{seed}.json") for seed in (1, 2)]
    for file in before:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch()
    corpus = str(tmp_path / "corpus.parquet")
    assert not_fewer(before[:1], [corpus, *before]) == before
    assert not_fewer([*before, "subsets/full/seed-3.json"], [corpus, *before]) == [*before, "subsets/full/seed-3.json"]
    Path(before[1]).unlink()
    assert not_fewer(before[:1], [corpus, *before]) == before[:1]


def test_draws_from_web_pictures_are_those_of_all_runs_and_none_where_all_are_fetched():
    paths = paths_of("visualgpt/t2", "visualgpt/t8", "visualgpt/t1")
    draws = web_draws(paths, "resources/conceptual/images/train/survivors.parquet")
    assert set(draws) == {"conceptual_bpe"}
    result = draws["conceptual_bpe"]
    assert (result["held_out"], result["seed"], result["survival"]) == (5000, 0, 0.6)
    assert {(draw["fraction"], draw["unit"]) for draw in result["draws"]} == {(f, "pair") for f in (0.001, 0.005, 0.01)}
    assert len(result["draws"]) == 3 * 4
    assert web_draws(paths, "resources/conceptual/images/validation/survivors.parquet") == {}
