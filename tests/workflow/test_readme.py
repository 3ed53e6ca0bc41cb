"""The README is short, links lead to files,
the drawn workflow is current, and every command is one of recap's."""

import re
import shlex
import subprocess
import sys

import pytest

from helpers.tiny_workspace import ROOT
from recap.cli import build_parser
from recap.plan.costs import costs_of
from recap.plan.profiles import named_plan

README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_picture_of_the_dag_is_current(tmp_path):
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--rulegraph",
        "mermaid-js",
        "--snakefile",
        str(ROOT / "Snakefile"),
    ]
    command += ["--directory", str(tmp_path), "--configfile", str(ROOT / "params" / "demo.yaml")]
    done = subprocess.run(
        [*command, "--config", f"params_dir={ROOT / 'params'}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    names = dict(re.findall(r"(id\d+)\[(\w+)\]", done.stdout))
    edges = {
        (names[start], names[end]) for start, end in re.findall(r"(id\d+) --> (id\d+)", done.stdout)
    }
    # `all` asks for every file by name; the picture shows what comes last.
    used = {start for start, end in edges if end != "all"}
    drawn = {(start, end) for start, end in edges if end != "all" or start not in used}
    picture = (
        (ROOT / "docs" / "development" / "workflow.md")
        .read_text()
        .split("```mermaid")[1]
        .split("```")[0]
    )
    assert set(re.findall(r"(\w+) --> (\w+)", picture)) == drawn


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.ipynb")],
    ids=lambda page: page.name,
)
def test_links_of_the_documentation_lead_to_files(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    # prose goes into pages of that folder
    folder = page.parent.parent if page.parent.name == "prose" else page.parent
    assert [link for link in links if not (folder / link).exists()] == []


def blocks(text):
    """Yield the words after `recap` of every command in a block of code.

    One may go on over several lines.
    """
    begun = ""
    for line in text.splitlines():
        begun += line.removeprefix("    ").removesuffix("\\") if line.startswith("    ") else ""
        try:
            words = shlex.split(begun, comments=True)
        except ValueError:  # a quotation goes on
            continue
        if not line.endswith("\\"):
            begun = ""
            if words[:1] == ["recap"]:
                yield words[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_the_documentation_can_be_typed(page, capsys):
    text = page.read_text(encoding="utf-8")
    for words in blocks(text):
        try:
            build_parser().parse_args(words)
        except SystemExit:
            pytest.fail(f"recap {shlex.join(words)}: {capsys.readouterr().err}")
    # What is named within a sentence may lack options, but what there is of it must exist.
    for words in map(str.split, re.findall(r"`recap ([a-z][^`]*)`", text)):
        parser = build_parser()
        while words and parser.commands:
            parser = parser.commands[words.pop(0)]
        options = {word for word in words if word.startswith("--")}
        assert not options - set(parser._option_string_actions)


def test_the_code_of_the_readme_runs():
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    names = {}
    exec(code, names)
    assert names["hidden"].shape == (2, 1, 3, 1024)
    total = names["log_probabilities"].exp().sum(-1).flatten().tolist()
    assert total == pytest.approx([1, 1], abs=1e-4)


@pytest.mark.parametrize("paper", ["xlan", "acf", "zodiac", "fusion", "visualgpt"])
def test_the_hours_of_the_readme_are_those_of_the_plan(paper):
    plan = named_plan(ROOT / "params", paper)
    costs = costs_of(plan)
    known = [cost.seconds for run in plan.trained if (cost := costs.training(run))]
    hours = f"{sum(known) / 3600:,.0f} | {len(known)} of {len(plan.trained)} |"
    (line,) = re.findall(rf"\| .*\[{paper}\]\(.*", README.read_text(encoding="utf-8"))
    assert line.endswith(hours)
