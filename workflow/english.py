"""English of README, docs, help texts, messages and docstrings: banned patterns and long sentences.

python -m workflow.english            list what is banned; ends with 1 if there is any, or too many long sentences
python -m workflow.english --long     list the long sentences, too
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
RULES = Path(__file__).with_suffix(".yaml")
NOT_PROSE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]+`|\]\([^)]*\)|<!--.*?-->|https?://\S+", re.M | re.S)
APART = re.compile(r"^(\||#|    |\t|!\[|:?---)")  # tables, headings, code, pictures


def pages(root: Path) -> list[Path]:
    """Return README, CONTRIBUTING and every page of docs that a person wrote; `recap report docs` writes the others."""
    docs = (path for path in (root / "docs").rglob("*.md") if "generated" not in path.parts)
    written = (path for path in docs if "\nMade by `recap report docs" not in path.read_text(encoding="utf-8")[:200])
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted(written)]


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a Markdown page's prose, without code, tables and headings."""
    paragraphs: list[list[str]] = [[]]
    for line in NOT_PROSE.sub(_word, text).splitlines():
        if not line.strip() or APART.match(line) or re.match(r"\s*([-*]|\d+\.) ", line):
            paragraphs.append([])
        if not APART.match(line):
            paragraphs[-1].append(re.sub(r"^\s*([-*]|\d+\.) ", "", line).strip())
    for paragraph in paragraphs:
        yield from filter(None, re.split(r"(?<=[.?!])[*_)\"]*\s+(?=[A-Z*_(\"])", " ".join(paragraph).strip()))


def _word(match: re.Match[str]) -> str:
    """Code counts as one word; the address of a link, a comment and a block as none."""
    return "Code" if re.fullmatch(r"`[^`\n]+`", match[0]) else "]" if match[0].startswith("]") else ""


def strings(source: str) -> Iterator[str]:
    """Yield the strings of a module that are prose: docstrings, help texts, messages. Code in backticks is left out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield re.sub(r"`[^`]+`", "code", node.value)


def banned(text: str, patterns: dict[str, str]) -> Iterator[str]:
    """Yield each banned phrase of a text with what to write for it."""
    for pattern, better in patterns.items():
        for match in re.finditer(pattern, text, re.I):
            yield f"'{' '.join(match[0].split())}': write {better}"


def check(root: Path, rules: dict) -> tuple[list[str], dict[str, list[str]]]:
    """Return the banned phrases with their files, and the long sentences by folder."""
    found: list[str] = []
    long: dict[str, list[str]] = {}
    for path in pages(root):
        name = str(path.relative_to(root))
        text = list(sentences(path.read_text(encoding="utf-8")))
        found += [f"{name}: {line}" for sentence in text for line in banned(sentence, rules["banned"])]
        folder = str(path.parent.relative_to(root))
        over = [f"{name}: {sentence}" for sentence in text if len(sentence.split()) > rules["words"]]
        long.setdefault(folder, []).extend(over)
    for path in sorted([*(root / "src").rglob("*.py"), *(root / "workflow").rglob("*.py")]):
        if any(str(path.relative_to(root)).startswith(place) for place in rules["data"]):
            continue
        for text in strings(path.read_text(encoding="utf-8")):
            found += [f"{path.relative_to(root)}: {line}" for line in banned(text, rules["banned"])]
    return found, long


def main(*options: str) -> None:
    """Check this clone."""
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    found, long = check(ROOT, rules)
    counts = Counter({folder: len(each) for folder, each in long.items()})
    more = [
        f"{folder}: {count} sentences of more than {rules['words']} words, {rules['longer'].get(folder, 0)} allowed"
        for folder, count in counts.items()
        if count > rules["longer"].get(folder, 0)
    ]
    if "--long" in options:
        print("\n".join(sentence for each in long.values() for sentence in each))
    print("\n".join([*found, *more]) or "English: nothing to correct")
    print(f"{len(found)} banned phrases, {counts.total()} long sentences {dict(counts)}")
    sys.exit(bool(found or more))


if __name__ == "__main__":
    main(*sys.argv[1:])
