"""docs/explanation/architecture.md draws the imports of packages, and says of each what its docstring says."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "recap"
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text()


def packages():
    return sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def imported(package):
    """Return the other packages that a package imports, anywhere in its files."""
    names = set()
    for path in (SOURCE / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names |= {module.split(".")[1] for module in modules if module.startswith("recap.")}
    return names & set(packages()) - {package}


def picture():
    """Return the drawing: an arrow for each import that is not implied by others."""
    below = {package: imported(package) for package in packages()}

    def reached(package):
        return below[package].union(*map(reached, below[package]))

    lines = ["```mermaid", "flowchart TB"]
    for package, nearest in below.items():
        implied = set().union(*map(reached, nearest))
        lines += [f"    {package} --> {' & '.join(sorted(nearest - implied))}"] if nearest else []
    return "\n".join([*lines, "```"])


def layers():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(each["layers"] for each in contracts if each["type"] == "layers")


def rooms():
    """Return the table of the packages, from the top layer down."""
    lines = ["| package | what is in it |", "|---|---|"]
    for layer in layers():
        for name in sorted(layer.replace("recap.", "").split(" | ")):
            first = ast.get_docstring(ast.parse((SOURCE / name / "__init__.py").read_text())).splitlines()[0]
            lines.append(f"| `{name}` | {first.rstrip('.')} |")
    return "\n".join(lines)


def test_the_picture_is_current():
    assert picture() in PAGE, picture()


def test_the_table_of_packages_is_current():
    assert rooms() in PAGE, rooms()


def test_every_package_has_a_layer():
    assert sorted(" | ".join(layers()).replace("recap.", "").split(" | ")) == packages()


# Names with an underscore that are public: of named tuples, of syntax trees, and the end of a process.
PUBLIC = {"_replace", "_fields", "_exit"}
OWN = {"self", "cls", "vocabulary"}


def underscored(path):
    """Yield what a file takes of a dependency's names that begin with an underscore."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (name for name in names if re.search(r"(^|\.)_[a-z]", name))
        if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr):
            own = isinstance(node.value, ast.Name) and node.value.id in OWN
            if not own and node.attr not in PUBLIC:
                yield ast.unparse(node)


def test_every_private_interface_is_in_the_table():
    table = PAGE.partition("## Private interfaces of dependencies")[2]
    files = [(SOURCE, path) for path in SOURCE.rglob("*.py")] + [(ROOT, path) for path in ROOT.glob("workflow/*.py")]
    found = {path.relative_to(folder).as_posix() for folder, path in files if any(underscored(path))}
    assert found and {path for path in found if f"`{path}`" not in table} == set()
    assert len(re.findall("^[|] [A-Za-z]+ [|]", table, re.MULTILINE)) - 1 <= 5  # without the heading


def test_it_can_be_read_at_one_sitting():
    assert len(PAGE.splitlines()) <= 120
