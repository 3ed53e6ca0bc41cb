"""The guides in docs/ work as they stand:
files are written and commands run, beside a clone with tiny data."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from safetensors.torch import save_file

from helpers.backbones import backbone, tensors_of
from helpers.clip import save_clip
from helpers.tiny_workspace import ROOT

sys.path.insert(0, str(ROOT / "docs" / "_sphinx"))
from notebooks import as_markdown

GUIDES = sorted((ROOT / "docs" / "guides").glob("add_*.md"))
PAGES = [
    *GUIDES,
    ROOT / "docs" / "development" / "rows.md",
    ROOT / "docs" / "tutorial" / "fifty_photos.ipynb",
]
WEIGHTS = "tiny.safetensors"
BLOCK = re.compile(
    r"(?P<above>[^\n]*)\n\n```(?P<language>\w+)(?P<slow> slow)?\n(?P<text>.*?)^```$", re.M | re.S
)
RUN = {"sh": "{}", "python": "python - <<'END'\n{}END"}  # a cell of Python needs no cell before it
GRID = "kind: grid, backbone: test_resnet, image_size: 64, grid: 2"
# What guides name, so small that it is made in seconds.
TINY = {
    "datasets/scenes.yaml": (
        "{kind: scenes, train: 20, val: 4, test: 4, size: 64, vocabulary: {min_count: 1}}"
    ),
    "features/scenes_grid.yaml": f"{{{GRID}, weights: random}}",
    "features/imagenet_grid.yaml": f"{{{GRID}, weights: {WEIGHTS}}}",
}


@dataclass
class Block:
    """A block of code: a file with its path, commands (`sh`),
    or what the commands before it print (`text`)."""

    language: str
    slow: bool
    text: str
    path: str | None


def text_of(page):
    """Return a page, or a notebook as one."""
    text = page.read_text(encoding="utf-8")
    return as_markdown(text) if page.suffix == ".ipynb" else text


def blocks(page):
    """Return the blocks of a guide; the line above a file begins with its path."""
    found = []
    for match in BLOCK.finditer(text_of(page)):
        path = re.match(r"`([^`]+)`", match["above"])
        found.append(Block(match["language"], bool(match["slow"]), match["text"], path and path[1]))
    return found


class Guide:
    """A folder in which a guide is followed, beside the clone ``../recap``."""

    def __init__(self, folder):
        self.folder = folder / "mine"
        clone = folder / "recap"
        self.folder.mkdir()
        clone.mkdir()
        for name in ("Snakefile", "workflow", "profiles", "tests", "docs", "pyproject.toml"):
            (clone / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "params", clone / "params")
        for name, text in TINY.items():
            (clone / "params" / name).write_text(text)
        # In place of weights from the hub.
        (self.folder / "resources").mkdir()
        save_file(tensors_of(backbone()), self.folder / "resources" / WEIGHTS)

    def follow(self, page, *, slow):
        """Write files and run commands in their order.

        Return pairs of what the guide shows and what was printed.
        """
        if "RECAP_CLIP" in text_of(page):
            save_clip(self.folder / "clip")
        script, shown, last = ["set -e -o pipefail"], {}, 0
        for number, block in enumerate(blocks(page)):
            if block.language == "text":
                if last in shown:
                    shown[last] = block.text
            elif block.path and block.language != "sh":
                script.append(self._write(block, number))
            else:
                last = number
                if slow or not block.slow:
                    script += [f"echo @block {number}", RUN[block.language].format(block.text)]
                    shown[number] = ""
        printed = self._run("\n".join(script))
        return [(text, printed[number]) for number, text in shown.items()]

    def _write(self, block, number):
        """Return the command that puts a file where the guide has it."""
        copy = self.folder / ".blocks" / str(number)
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(block.text)
        return f"mkdir -p {Path(block.path).parent} && cp .blocks/{number} {block.path}"

    def _run(self, script):
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        parts = re.split(r"^@block (\d+)\n", done.stdout, flags=re.M)
        return dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))


def assert_shown(pairs):
    """Refuse a line that the guide shows and that was not printed, spaces apart."""
    for shown, printed in pairs:
        words = " ".join(printed.split())
        for line in shown.splitlines():
            assert " ".join(line.split()) in words, printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_quick_commands_of_a_guide_print_what_it_shows(page, tmp_path):
    pairs = Guide(tmp_path).follow(page, slow=False)
    assert any(shown for shown, _ in pairs)
    assert_shown(pairs)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_all_commands_of_a_guide_run(page, tmp_path):
    assert_shown(Guide(tmp_path).follow(page, slow=True))


def test_no_block_of_a_guide_is_overlooked():
    for page in PAGES:
        text = text_of(page)
        assert len(blocks(page)) * 2 == len(re.findall("^```", text, re.M)), page.name
