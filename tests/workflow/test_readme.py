"""The picture in the README is the workflow's."""

import re
import subprocess
import sys

from tiny_workspace import ROOT


def test_the_picture_of_the_dag_is_current(tmp_path):
    command = [sys.executable, "-m", "snakemake", "--rulegraph", "mermaid-js", "--snakefile", str(ROOT / "Snakefile")]
    command += ["--directory", str(tmp_path), "--configfile", str(ROOT / "params" / "demo.yaml")]
    done = subprocess.run(
        [*command, "--config", f"params_dir={ROOT / 'params'}"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    names = dict(re.findall(r"(id\d+)\[(\w+)\]", done.stdout))
    edges = {(names[start], names[end]) for start, end in re.findall(r"(id\d+) --> (id\d+)", done.stdout)}
    # `all` asks for every file by name; the picture shows what comes last.
    used = {start for start, end in edges if end != "all"}
    drawn = {(start, end) for start, end in edges if end != "all" or start not in used}
    picture = (ROOT / "README.md").read_text().split("```mermaid")[1].split("```")[0]
    assert set(re.findall(r"(\w+) --> (\w+)", picture)) == drawn
