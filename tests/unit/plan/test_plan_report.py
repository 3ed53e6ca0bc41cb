"""`recap plan`: one page of what is missing, tools, disk, trainings and their hours."""

import subprocess
import sys
from functools import cache

import pytest

from helpers.commands import printed
from helpers.plans import PARAMS, measured_file, measured_row
from recap.cli.doctor import plan_tools
from recap.plan.costs import costs_of
from recap.plan.profiles import named_plan
from recap.plan.report import reported, table_trainings
from recap.plan.workload import Workload

PAPERS = ["acf", "fusion", "visualgpt", "xlan", "zodiac"]


def shown(words, capsys):
    return printed(capsys, "plan", *words)


@cache
def plan_of(paper, scale=None):
    return named_plan(PARAMS, paper, scale=scale)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in an empty folder that has the parameters."""
    (tmp_path / "params").symlink_to(PARAMS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("paper", PAPERS)
def test_everything_that_is_missing_is_said_at_once_on_one_screen(paper, folder, capsys):
    text = shown([paper], capsys)
    files = [line for line in text.splitlines() if line[:9] in FILES]
    assert len(text.splitlines()) - len(files) <= 20
    assert [path.name for path in folder.iterdir()] == ["params"]


FILES = ("  fetch  ", "  unpack ", "  hand   ", "  hub    ")


def test_files_have_size_hash_and_source_and_those_of_one_archive_are_one_line(folder, capsys):
    text = shown(["acf"], capsys)
    file = ["12.6 GiB", "sha256 ede4087e", "http://images.cocodataset.org/zips/train2014.zip"]
    others = ["  hand    oscar/coco_caption.zip", "  hub     timm/swin_large_patch4_window12_384"]
    for part in (*file, *others, "acf/t1", "at most 91.3 GiB of feature stores"):
        assert part in text, text
    text = shown(["xlan"], capsys)
    assert text.count("bottom_up/trainval/") == 1 and "from bottom_up/trainval.zip" in text


def test_a_plan_imports_no_torch(folder):
    code = (
        "import sys; from recap.cli import main; "
        "main(['plan', 'xlan']); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_tables_add_up_to_all_trainings_each_once():
    for plan in (plan_of("visualgpt"), plan_of("acf", "scenes")):
        trainings = [run for of_table in table_trainings(plan).values() for run in of_table]
        assert sorted(trainings) == plan.trained
    assert list(table_trainings(plan_of("visualgpt")))[:2] == ["visualgpt/t1", "visualgpt/t2"]


def test_only_tools_that_a_plan_needs_are_asked_for():
    names = {
        paper: {tool.name for tool in plan_tools(plan_of(paper))} for paper in ("acf", "visualgpt")
    }
    assert names["visualgpt"] - names["acf"] == {"detectron2"}
    assert {"SPICE's models", "Java"} <= names["acf"]
    demo = {tool.name for tool in plan_tools(named_plan(PARAMS, str(PARAMS / "demo.yaml")))}
    assert "detectron2" not in demo


def test_hours_are_those_of_a_machine_that_was_measured(folder, capsys):
    plan = plan_of("fusion", "scenes")
    shapes = Workload(plan).shapes()
    file = measured_file(
        folder, [measured_row(shape, machine="card", device="cuda") for shape in shapes]
    )
    text = shown(["fusion", "--scale", "scenes", "--measured", str(file)], capsys)
    assert "on card, measured" in text and "assumed" not in text and "Without" not in text
    text = shown(["fusion", "--scale", "scenes", "--measured", str(file), "--tflops", "5"], capsys)
    assert "on a GPU of 5 TFLOP/s, assumed, not measured" in text


def test_what_was_not_measured_is_counted_named_and_left_out(folder, capsys):
    plan = plan_of("fusion", "scenes")
    shapes = [shape for shape in Workload(plan).shapes() if shape.model.kind == "transformer"]
    file = measured_file(folder, [measured_row(shape) for shape in shapes])
    text = shown(["fusion", "--scale", "scenes", "--measured", str(file)], capsys)
    left = [
        run for run in plan.trained if plan.settings.get("models", run.model).kind != "transformer"
    ]
    assert f"Without {len(left)} of {len(plan.trained)} trainings whose steps were not" in text
    assert "`recap measure fusion --scale scenes` measures them" in text
    costs = costs_of(plan, file)
    known = [cost.seconds for run in plan.trained if (cost := costs.training(run))]
    assert len(known) == len(plan.trained) - len(left)
    total = next(line.split() for line in text.splitlines() if line.startswith("  all "))
    assert float(total[-1]) == pytest.approx(sum(known) / 3600, rel=0.1)


def test_most_trainings_of_each_paper_have_hours_without_a_measurement():
    for paper in [*PAPERS, "m2"]:
        plan = plan_of(paper)
        costs = costs_of(plan)
        known = sum(costs.training(run) is not None for run in plan.trained)
        assert known > 0.7 * len(plan.trained), paper


@pytest.mark.parametrize(("paper", "page"), [("xlan", "xlan.md"), ("m2", "baselines.md")])
def test_the_pages_of_papers_have_the_hours_that_others_report_beside_ours(paper, page):
    plan = plan_of(paper)
    lines = list(reported(plan, costs_of(plan)))
    text = (PARAMS.parent / "docs/papers" / page).read_text()
    assert len(lines) == 2 and all(f"    {line}\n" in text for line in lines)
    small = plan_of(paper, "scenes")
    assert not list(reported(small, costs_of(small)))
