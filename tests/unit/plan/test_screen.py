"""`recap plan`: one screen, and how long jobs take, so many at a time."""

from functools import cache

import pytest

from helpers.commands import printed
from helpers.plans import PARAMS, measured_file, measured_row
from recap.cli.doctor import plan_tools
from recap.models.check import costs_of
from recap.plan.profiles import named_plan
from recap.plan.screen import chains, jobs, makespan, reported, screen, table_work


def shown(words, capsys):
    return printed(capsys, "plan", *words)


@cache
def plan_of(paper, scale=None):
    return named_plan(PARAMS, paper, scale=scale)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder work/ of all tests, with the models that one of them has built."""
    return tmp_path_factory.mktemp("work")


@pytest.fixture
def folder(tmp_path, monkeypatch, built):
    """Work in an empty folder that has the parameters."""
    (tmp_path / "params").symlink_to(PARAMS)
    (tmp_path / "work").symlink_to(built)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_everything_that_is_missing_is_said_at_once(folder, capsys):
    text = shown(["acf", "--jobs", "4"], capsys)
    file = ["12.6 GiB", "sha256 ede4087e", "http://images.cocodataset.org/zips/train2014.zip"]
    others = ["  hand    oscar/coco_caption.zip", "  hub     timm/swin_large_patch4_window12_384"]
    hours = ["--jobs 4", "--tflops", "assumed, not measured", "Rows that cost most: "]
    for part in (*file, *others, "coco/swin_l_384_grid", "at most 23.7 GiB", "acf/t1", *hours):
        assert part in text, text
    assert len(text.splitlines()) <= 45
    assert sorted(path.name for path in folder.iterdir()) == ["params", "work"]


def test_tables_add_up_to_all_trainings_and_evaluations_each_once(folder):
    plan = plan_of("visualgpt")
    result = table_work(plan)
    work = [each for of_table in result.values() for each in of_table]
    assert sorted(work) == sorted(
        [*(("train", run) for run in plan.trained()), *(("evaluate", run) for run in plan.scored())]
    )
    assert list(result)[:2] == ["visualgpt/t1", "visualgpt/t2"]  # with all their parts
    acf = plan_of("acf", "scenes")  # has a table of first stages alone, which another trains
    assert sum(kind == "evaluate" for work in table_work(acf).values() for kind, _ in work) == len(
        acf.scored()
    )


def test_a_second_stage_and_an_evaluation_wait_for_their_weights(folder):
    plan = plan_of("xlan")
    costs, after = jobs(plan, costs_of(plan))
    assert costs.keys() == after.keys()
    assert (
        len(after)
        == len(plan.trained()) + len(plan.scored()) + len(plan.submissions())
        > len(plan.trained())
    )
    place = {name: index for index, name in enumerate(after)}
    assert all(
        place[before] < place[name] for name, jobs_before in after.items() for before in jobs_before
    )
    ensemble = next(run for run in plan.scored() if run.members)
    assert len(after["evaluate", ensemble]) == len(ensemble.members)


def test_a_cache_that_links_makes_no_second_copy(folder):
    plan = plan_of("fusion", "scenes")
    costs = costs_of(plan)
    assert "a second copy: set `dvc config cache.type`" in screen(
        plan, costs, [], tflops=10, places=None
    )
    (folder / ".dvc").mkdir()
    (folder / ".dvc" / "config").write_text('[cache]\n    type = "reflink,hardlink,symlink,copy"\n')
    assert "links to these files" in screen(plan, costs, [], tflops=10, places=None)


def test_only_tools_that_a_plan_needs_are_asked_for():
    names = {
        paper: {tool.name for tool in plan_tools(plan_of(paper))} for paper in ("acf", "visualgpt")
    }
    assert names["visualgpt"] - names["acf"] == {"detectron2"}
    assert {"SPICE's models", "Java"} <= names["acf"]
    demo = {tool.name for tool in plan_tools(named_plan(PARAMS, str(PARAMS / "demo.yaml")))}
    assert "detectron2" not in demo


def test_hours_are_those_of_a_card_that_was_measured(folder, capsys):
    plan = plan_of("fusion", "scenes")
    rows = [measured_row(shape, machine="card", device="cuda") for shape in costs_of(plan).shapes()]
    file = measured_file(folder, rows)
    text = shown(["fusion", "--scale", "scenes", "--measured", str(file)], capsys)
    assert "assumed" not in text and "by card, measured: fusion/" in text
    costs = costs_of(plan, file)
    training = next(run for run in plan.trained() if run.stage == "xe")
    stage = costs.stage(training)
    assert stage.validate_every == 1
    images = stage.images_per_batch * costs.training(training).steps
    validated = stage.epochs * costs.counts(training.dataset).val
    # Half a second each; a validation's beam is scaled from the one that was measured.
    assert 0.5 * images < costs.training(training).seconds["card"] <= 0.5 * (images + validated)


def test_files_of_one_archive_are_one_line_and_captions_for_a_server_are_counted(folder, capsys):
    text = shown(["xlan"], capsys)
    assert text.count("bottom_up/trainval/") == 1 and "from bottom_up/trainval.zip" in text
    assert "coco_test2014/bottom_up_adaptive_test2014" in text
    plan = plan_of("xlan")
    alone = [run for run in plan.table_runs("xlan/t2") if run not in plan.table_runs("xlan/t1")]
    decoded = [kind for kind, _ in table_work(plan)["xlan/t2"] if kind != "train"]
    assert len(decoded) == len(alone) + len(plan.submissions())


def test_a_job_waits_for_those_before_it():
    after = {"xe": (), "scst": ("xe",), "evaluate": ("scst",), "other": ()}
    jobs = after, {"xe": 5.0, "scst": 2.0, "evaluate": 1.0, "other": 4.0}
    assert chains(*jobs) == {"xe": 8.0, "scst": 3.0, "evaluate": 1.0, "other": 4.0}
    assert makespan(*jobs, 1) == 12.0
    assert makespan(*jobs, 2) == makespan(*jobs, 8) == 8.0


def test_no_schedule_is_below_its_bounds_or_above_twice_the_larger():
    after = {n: (n - 3,) if n > 3 else () for n in range(1, 40)}
    seconds = {n: n % 7 + 1.0 for n in range(1, 40)}
    longest = max(chains(after, seconds).values())
    for places in (1, 2, 3, 5):
        bound = max(sum(seconds.values()) / places, longest)
        assert bound <= makespan(after, seconds, places) <= 2 * bound
    assert makespan({}, {}, 3) == pytest.approx(0)


@pytest.mark.parametrize(("paper", "page"), [("xlan", "xlan.md"), ("m2", "baselines.md")])
def test_the_pages_of_papers_have_the_hours_that_others_report_beside_ours(paper, page, folder):
    plan = plan_of(paper)
    lines = list(reported(plan, costs_of(plan), 10.0))
    text = (PARAMS.parent / "docs/papers" / page).read_text()
    assert len(lines) == 2 and all(f"    {line}\n" in text for line in lines)
    small = plan_of(paper, "scenes")
    assert not list(reported(small, costs_of(small), 10.0))
