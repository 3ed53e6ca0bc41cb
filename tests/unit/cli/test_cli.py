"""The command line: every word of it is explained, and every mistake is one sentence."""

import inspect
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
import yaml

from helpers.commands import refused_command as refused
from recap import __version__
from recap.cli import COMMANDS as COMMANDS_AND_GROUPS
from recap.cli import build_parser, main
from recap.cli.commands import Group
from recap.cli.options import mapping
from recap.settings.kinds import resolve
from recap.settings.params import load_named, names, validate
from recap.settings.recipes import RunSpec

pytestmark = pytest.mark.seconds

ROOT = Path(__file__).resolve().parents[3]
RULES = [ROOT / "Makefile", *sorted((ROOT / "workflow" / "rules").glob("*.smk"))]


def leaves(parser):
    """Yield every parser that runs something and is on a help page."""
    if not parser.commands:
        yield parser
    for inner in parser.commands.values():
        yield from leaves(inner)


COMMANDS = {parser.prog: parser for parser in leaves(build_parser())}


def run(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "recap", *words], capture_output=True, text=True, **options
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_explained_and_its_examples_can_be_parsed(
    name, tmp_path, monkeypatch
):
    parser = COMMANDS[name]
    assert parser.description and not [action.dest for action in parser._actions if not action.help]
    monkeypatch.chdir(tmp_path)
    Path("spec.json").write_text("{}")
    examples = parser.epilog.removeprefix("example:").replace("\\\n", "").strip().splitlines()
    assert examples
    for example in examples:
        words = shlex.split(example)
        assert " ".join(words).startswith(name)
        build_parser().parse_args(words[1:])


def test_the_help_of_a_command_with_a_spec_lists_its_keys():
    for name in [name for name, parser in COMMANDS.items() if "--spec" in parser.format_usage()]:
        keys = COMMANDS[name].format_help().split("keys of --spec:")[1]
        assert len(keys.splitlines()) > 1
    wanted = (
        "dataset subset features model recipe seed stage model_settings stage_settings processes"
    )
    keys = COMMANDS["recap train"].format_help().split("keys of --spec:")[1]
    output = {line.split()[0] for line in keys.splitlines() if line}
    assert output == {*wanted.split(), "CrossEntropyRun:", "SelfCriticalRun:"}


def test_the_version_and_the_bare_command(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"recap {__version__}\n"
    for words in ([], ["data"]):
        main(words)
        assert "commands:" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, sentence",
    [
        ("trian", "recap: command 'trian' is unknown; did you mean 'train'?"),
        (
            "data card --corpsu x",
            "recap data card: there is no option --corpsu; did you mean '--corpus'?",
        ),
        ("train --spec no.json", "recap train: argument --spec: no.json: cannot be read"),
        ("params list --params none", "none: there is no such folder"),
        (f"data vocabulary --spec {'[' * 100_000}", "--spec: [[["),
        ("data vocabulary --spec [1", "--spec: [1: cannot be read as JSON"),
    ],
    ids=range(6),
)
def test_a_misspelt_word_is_one_sentence(capsys, words, sentence):
    assert sentence in refused(capsys, *words.split())


def filled(name, spec, folder):
    """Return the words of a command with a spec, its other required options filled in."""
    words = shlex.split(name)[1:]
    for action in COMMANDS[name]._actions:
        if action.dest == "spec":
            words += ["--spec", json.dumps(spec)]
        elif action.required and action.option_strings:
            value = str(folder / "x") if action.type is Path else "1"
            words += [action.option_strings[0], action.choices[0] if action.choices else value]
    return words


WITH_SPEC = [
    name for name, p in COMMANDS.items() if any(a.dest == "spec" and a.required for a in p._actions)
]


@pytest.mark.parametrize("name", WITH_SPEC)
def test_a_spec_that_is_empty_or_nonsense_is_one_sentence(capsys, tmp_path, name):
    sentence = refused(capsys, *filled(name, {"kind": "nonsense", "stage": "xe"}, tmp_path))
    assert any(word in sentence for word in ("nonsense", "'kind'", "'stage'"))
    if name != "recap data vocabulary":  # here an empty spec is a whole one
        assert "--spec" in refused(capsys, *filled(name, {}, tmp_path))
    assert not list(tmp_path.iterdir())


@cache
def complete_specs():
    """Return every spec of a run that the parameters
    of this repository can ask for, as the workflow passes it."""
    specs = []
    for params in (ROOT / "params", ROOT / "tests" / "workflow" / "params"):
        models, recipes = (
            [
                load_named(params, section, name).model_dump(mode="json")
                for name in names(params, section)
            ]
            for section in ("models", "recipes")
        )
        stages = [(stage, recipe[stage]) for recipe in recipes for stage in ("xe", "scst")]
        named_parts = dict.fromkeys(("dataset", "subset", "features", "model", "recipe"), "name")
        for number in range(max(len(models), len(stages))):
            stage, settings = stages[number % len(stages)]
            model = models[number % len(models)]
            if settings:
                spec = {**named_parts, "seed": 1, "stage": stage}
                specs.append({**spec, "model_settings": model, "stage_settings": settings})
    return specs


def test_a_complete_spec_comes_back_byte_for_byte():
    # It is hashed into the identity of a run.
    assert len(complete_specs()) > 20
    for spec in complete_specs():
        passed = json.loads(json.dumps(spec))
        again = validate(RunSpec, passed, "--spec").model_dump(mode="json", by_alias=True)
        assert json.dumps(again, sort_keys=True) == json.dumps(passed, sort_keys=True)
        assert yaml.safe_dump(again) == yaml.safe_dump(passed)


@pytest.mark.parametrize(
    "out, named", [("/proc/no/out.json", "/proc/no"), ("file/out.json", "file"), (".", ".")]
)
def test_an_output_that_cannot_be_made_is_one_sentence(capsys, tmp_path, monkeypatch, out, named):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    words = [
        "run-step",
        "recap.report.figures:write_summary",
        "--spec",
        '{"rows": {}}',
        "--scores",
        ".",
    ]
    sentence = refused(capsys, *words, "--out", out)
    assert sentence.startswith(f"recap: {named}")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_training_hears_at_once_of_a_wrong_spec_and_of_an_output_that_cannot_be_made(
    capsys, tmp_path
):
    words = [
        f"--{option}={tmp_path}/x"
        for option in ("corpus", "vocabulary", "subset", "features", "state")
    ]
    words += ["--out", "/proc/no/run"]
    spec = json.dumps(complete_specs()[0])
    assert refused(capsys, "train", "--spec", spec, *words).startswith("recap: /proc/no")
    assert "'kind'" in refused(
        capsys, "train", "--spec", '{"stage": "xe", "kind": "nonsense"}', *words
    )
    assert not list(tmp_path.iterdir())


def test_a_folder_of_reports_is_printed_table_by_table_with_its_samples(tmp_path, capsys):
    for name in (
        "tables/b.md",
        "tables/a.md",
        "tables/a.paper.md",
        "figures/a_captions.md",
        "figures/c_captions.md",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    main(["report", "show", str(tmp_path)])
    assert capsys.readouterr().out.split() == [
        "tables/a.md",
        "figures/a_captions.md",
        "tables/b.md",
    ]


@pytest.mark.skipif(
    not sys.executable.isascii(), reason="Python itself does not start there from such a folder"
)
def test_a_report_is_printed_where_the_terminal_knows_no_letters(tmp_path):
    report = tmp_path / "table.md"
    report.write_text("CIDEr 5.1 ± 0.2 ↑\n", encoding="utf-8")
    locale = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run("report", "show", str(report), env={**os.environ, **locale})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "CIDEr 5.1 ? 0.2 ?\n\n"


def test_a_reader_that_went_away_ends_in_silence(tmp_path):
    report = tmp_path / "long.md"
    report.write_text("a line of a report\n" * 100_000)
    command = f"{shlex.quote(sys.executable)} -m recap report show {report} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("a line of a report\n", "")


def test_ctrl_c_is_one_line(tmp_path):
    fifo = tmp_path / "never_written.md"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "recap", "report", "show", str(fifo)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    time.sleep(0.2)
    while "fifo" not in Path(f"/proc/{process.pid}/wchan").read_text() and "partner" not in (
        Path(f"/proc/{process.pid}/wchan").read_text()
    ):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[1] == "recap: stopped by Ctrl-C\n"
    assert process.returncode == 130


def test_help_is_quick_because_it_imports_nothing_heavy():
    code = (
        "import sys; from recap.cli import build_parser; build_parser().format_help(); "
        "print(*sys.modules)"
    )
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"torch", "numpy", "pandas", "pydantic", "yaml", "tqdm", "h5py"} & set(modules)


def called(commands):
    """Yield the commands that a function of another room runs."""
    for each in commands:
        yield from (
            called(each.commands) if isinstance(each, Group) else [each] if each.calls else []
        )


@pytest.mark.parametrize("each", [*called(COMMANDS_AND_GROUPS)], ids=lambda each: each.name)
def test_a_command_without_a_body_gives_its_function_the_options_that_it_takes(each):
    inspect.signature(resolve(each.calls)).bind(**inspect.signature(each.function).parameters)


STEPS = re.findall(
    r'run-step ([^\s"]+)(.*?)(?:\n\n|\n\t)',
    "\n".join(file.read_text() for file in RULES),
    re.DOTALL,
)


@pytest.mark.parametrize(("target", "words"), STEPS, ids=[target for target, _ in STEPS])
def test_a_rule_gives_a_step_options_that_its_function_takes(target, words):
    parameters = inspect.signature(resolve(target), eval_str=True).parameters
    options = {name.replace("-", "_") for name in re.findall(r"--([a-z-]+)", words)}
    assert options - {"spec"} <= set(parameters)
    required = {name for name, each in parameters.items() if each.default is each.empty}
    assert required <= options or "spec" in options - set(parameters)


def test_a_step_takes_empty_lists_numbers_and_arguments_of_a_spec(tmp_path, monkeypatch):
    def stand_in(*, number: int, files: Sequence[Path], more: dict[str, Path]) -> None:
        taken.append((number, files, more))

    taken = []
    monkeypatch.setattr("recap.settings.kinds.resolve", lambda target: stand_in)
    main(
        [
            "run-step",
            "recap.cli.steps:table",
            "--files",
            "--number",
            "3",
            "--spec",
            '{"more": {"a": "b"}}',
        ]
    )
    assert taken == [(3, [], {"a": Path("b")})]


def test_a_spec_is_a_file_standard_input_or_the_object_itself(tmp_path, monkeypatch):
    (tmp_path / "spec.json").write_text('{"a": 1}')
    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 1}'))
    assert mapping(str(tmp_path / "spec.json")) == mapping("-") == mapping('{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--spec {} --row a/b", "--row TABLE/ROW"),
        ("--spec {} --out o", "--corpus, --vocabulary, --subset, --features, --state"),
        ("--row a/b --state s --execution e.yaml", "--execution, --state"),
    ],
)
def test_train_wants_a_spec_with_its_files_or_a_row(capsys, words, named):
    spec = json.dumps(complete_specs()[0])
    assert named in refused(
        capsys, "train", *(spec if word == "{}" else word for word in words.split())
    )
